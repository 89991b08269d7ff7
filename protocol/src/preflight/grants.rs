//! K19: what the operator's user must hold on every member, against `system.grants`.
//!
//! `CHECK GRANT` would ask the server itself, but the 24.8 line has no such statement; and the column grants of B-9
//! take `system.grants` anyway. Both lines have the same rows, so there is one way for both.

use super::{Grant, MemberFacts};
use crate::admission::{Bound, Finding, Severity};
use crate::code::ErrorCode;
use crate::identity::Names;
use crate::sqltext::TableName;
use std::collections::BTreeSet;

/// A right of ClickHouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Select,
    Insert,
    CreateTable,
    DropTable,
    AlterUpdate,
    Cluster,
    ShowTables,
}

impl Right {
    fn as_str(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::CreateTable => "CREATE TABLE",
            Self::DropTable => "DROP TABLE",
            Self::AlterUpdate => "ALTER UPDATE",
            Self::Cluster => "CLUSTER",
            Self::ShowTables => "SHOW TABLES",
        }
    }

    /// Whether a grant of `access` holds it: the right itself, or a group around it.
    fn is_in(self, access: &str) -> bool {
        let groups: &[&str] = match self {
            Self::Select | Self::Insert | Self::Cluster => &[],
            Self::CreateTable => &["CREATE"],
            Self::DropTable => &["DROP"],
            Self::AlterUpdate => &["ALTER", "ALTER TABLE"],
            Self::ShowTables => &["SHOW"],
        };
        access == "ALL" || access == self.as_str() || groups.contains(&access)
    }

    /// Any of these gives it: whoever may do something with a table sees it.
    fn given_by(self) -> &'static [Self] {
        match self {
            Self::ShowTables => {
                &[Self::ShowTables, Self::Select, Self::Insert, Self::CreateTable, Self::DropTable]
            }
            Self::Select => &[Self::Select],
            Self::Insert => &[Self::Insert],
            Self::CreateTable => &[Self::CreateTable],
            Self::DropTable => &[Self::DropTable],
            Self::AlterUpdate => &[Self::AlterUpdate],
            Self::Cluster => &[Self::Cluster],
        }
    }
}

/// Rights on one table; without a table, on everything.
struct Need {
    on: Option<TableName>,
    shown: String,
    rights: &'static [Right],
}

const EVERY_MOVE: &[Right] = &[Right::Select, Right::Insert, Right::CreateTable, Right::DropTable];

/// Stands for every name that a retire step may draw.
const RETIRED_EXAMPLE: &str = "__retired_0123456789abcdef";

/// `SHOW TABLES` because a catalog hides what the user may not see, and dependents must not be hidden (B-9).
fn everywhere() -> Need {
    Need { on: None, shown: "*.*".into(), rights: &[Right::Cluster, Right::ShowTables] }
}

fn on_facade(facade: &TableName) -> Need {
    Need {
        on: Some(facade.clone()),
        shown: format!("{}.{}", facade.database, facade.table),
        rights: &[Right::Select, Right::Insert, Right::AlterUpdate],
    }
}

fn needs(names: &Names, bound: &Bound, facade: &TableName) -> Vec<Need> {
    let on = |table: String, shown: String, rights| Need {
        on: Some(TableName { database: names.database.clone(), table }),
        shown: format!("{}.{shown}", names.database),
        rights,
    };
    let mut needs = vec![everywhere()];
    let (target, candidate) = (names.target.clone(), names.candidate.clone());
    if bound.predecessor.is_some() {
        // EXCHANGE takes both directions; then retire and drop.
        needs.push(on(target.clone(), target.clone(), EVERY_MOVE));
        needs.push(on(candidate.clone(), candidate, EVERY_MOVE));
        let retired = format!("{target}{RETIRED_EXAMPLE}");
        let rights = &[Right::Insert, Right::CreateTable, Right::DropTable, Right::Select];
        needs.push(on(retired, format!("{target}__retired_*"), rights));
    } else {
        needs.push(on(target.clone(), target, &[Right::Insert, Right::CreateTable]));
        needs.push(on(candidate.clone(), candidate, &[Right::Select, Right::DropTable]));
    }
    needs.push(on_facade(facade));
    needs
}

/// Databases that a platform lets be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseScope {
    /// This one.
    Name(String),
    /// All whose names begin so.
    Prefix(String),
}

impl DatabaseScope {
    /// Every move of every table in it. A name that nobody grants by itself stands for all.
    fn need(&self) -> Need {
        let (database, shown) = match self {
            Self::Name(name) => (name.clone(), name.clone()),
            Self::Prefix(prefix) => (format!("{prefix}{ANY_EXAMPLE}"), format!("{prefix}*")),
        };
        let on = TableName { database, table: ANY_EXAMPLE.to_owned() };
        Need { on: Some(on), shown: format!("{shown}.*"), rights: EVERY_MOVE }
    }
}

const ANY_EXAMPLE: &str = "any__pub_0123456789abcdef";

/// What the user lacks on a member before anything certain is published: what every publication takes blocks; a
/// database that is not granted as a whole is a warning, since single tables of it may be.
pub fn cluster_rights(
    databases: &[DatabaseScope],
    facade: &TableName,
    grants: &[Grant],
    member: &str,
) -> Vec<Finding> {
    let always = [everywhere(), on_facade(facade)];
    let blocking = lacking(&always, grants).map(|missing| {
        let message = format!("grants: the user lacks on {member}: {missing}");
        Finding::block(ErrorCode::AccessDenied, "B-4", message)
    });
    let whole: Vec<Need> = databases.iter().map(DatabaseScope::need).collect();
    let warning = lacking(&whole, grants).map(|missing| {
        let message = format!(
            "grants: spec.access lets more be published than the user may touch; it lacks on {member}: {missing}"
        );
        Finding { severity: Severity::Warn, code: ErrorCode::AccessDenied, rule: "B-4", message }
    });
    blocking.into_iter().chain(warning).collect()
}

/// All that is missing, in one text.
fn lacking(needs: &[Need], grants: &[Grant]) -> Option<String> {
    let missing: Vec<String> = needs
        .iter()
        .filter_map(|need| {
            let lacking: Vec<&str> = need
                .rights
                .iter()
                .filter(|right| !held(grants, **right, need.on.as_ref()))
                .map(|right| right.as_str())
                .collect();
            (!lacking.is_empty()).then(|| format!("{} ON {}", lacking.join(", "), need.shown))
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// One finding with everything that is missing on a member.
pub(super) fn missing(
    names: &Names,
    bound: &Bound,
    facade: &TableName,
    facts: &MemberFacts,
    member: &str,
) -> Option<Finding> {
    lacking(&needs(names, bound, facade), &facts.grants).map(|missing| {
        let message = format!("grants: the user lacks on {member}: {missing}");
        Finding::block(ErrorCode::AccessDenied, "B-4", message)
    })
}

/// Whether the user, or one of its roles, holds a right, or one that gives it.
fn held(grants: &[Grant], right: Right, on: Option<&TableName>) -> bool {
    right.given_by().iter().any(|giving| held_whole(grants, *giving, on))
}

/// Granted, and no part of it taken away again: what is left of a part covers no more than that.
fn held_whole(grants: &[Grant], right: Right, on: Option<&TableName>) -> bool {
    let about = |grant: &&Grant| grant.own && right.is_in(&grant.access);
    let given: BTreeSet<&str> = grants
        .iter()
        .filter(about)
        .filter(|g| !g.revoked && g.column.is_none() && covers(g, on))
        .map(|g| g.grantee.as_str())
        .collect();
    given.into_iter().any(|grantee| {
        // Without a table: any revocation takes a part of everything.
        let takes = |g: &&Grant| g.revoked && g.grantee == grantee && on.is_none_or(|_| covers(g, on));
        !grants.iter().filter(about).any(|g| takes(&g))
    })
}

/// Whether a grant's scope includes a table, or everything.
fn covers(grant: &Grant, on: Option<&TableName>) -> bool {
    let fits = |granted: &Option<String>, wanted: Option<&str>, prefix: bool| match (granted, wanted) {
        (None, _) => true,
        (Some(granted), Some(wanted)) if prefix => wanted.starts_with(granted.as_str()),
        (Some(granted), Some(wanted)) => granted == wanted,
        (Some(granted), None) => prefix && granted.is_empty(),
    };
    let database_is_prefix = grant.wildcard && grant.table.is_none();
    fits(&grant.database, on.map(|t| t.database.as_str()), database_is_prefix)
        && fits(&grant.table, on.map(|t| t.table.as_str()), grant.wildcard)
}
