//! B-9, K17: what depends on target or candidate.
//!
//! Dependents follow the **name**: after the publication they read, fill or guard the new generation, which is why
//! the platform may accept them by kind. What a server itself refuses cannot be accepted. Measured on both engine
//! lines: EXCHANGE is never refused; RENAME and DROP of a name are refused (630) while a dictionary (or a default
//! expression) loads from it and `check_table_dependencies` is on, as it is by default, or while any view or
//! dictionary refers to it and `check_referential_table_dependencies` is on. The only name that is renamed is the
//! candidate's (to retire the predecessor, or to publish where there is no target).

use super::{Definition, DependentKind, MemberFacts};
use crate::admission::{Finding, Severity};
use crate::code::ErrorCode;
use crate::identity::Names;
use crate::sqltext::{TableName, Token, parenthesised, tokenize};
use std::collections::{BTreeMap, BTreeSet};

/// How an object depends on a name. Orders and groups the findings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    /// None: a kind that B-9 does not know (a table with a default expression).
    kind: Option<DependentKind>,
    object: String,
    how: String,
    /// A server would refuse to rename the name.
    refused: bool,
}

/// One finding for each use, naming every member that has it.
pub(super) fn findings(
    names: &Names,
    accepted: &BTreeSet<DependentKind>,
    members: &[(String, &MemberFacts)],
) -> Vec<Finding> {
    let mut found: BTreeMap<Use, Vec<&str>> = BTreeMap::new();
    for (member, facts) in members {
        for one in uses(names, facts) {
            found.entry(one).or_default().push(member);
        }
    }
    found.iter().map(|(one, members)| finding(names, accepted, one, &members.join(", "))).collect()
}

fn finding(names: &Names, accepted: &BTreeSet<DependentKind>, one: &Use, members: &str) -> Finding {
    let what = one.kind.map_or("table", word);
    let said = format!("dependents: {what} {} {} on {members}", one.object, one.how);
    let code = ErrorCode::DependentsPresent;
    if one.refused {
        let message = format!(
            "{said}; the server refuses to rename {} under it (630), whatever is accepted: drop it first",
            names.candidate
        );
        return Finding::block(code, "B-9", message);
    }
    match one.kind {
        Some(kind) if !accepted.contains(&kind) => {
            let kind = kind.as_str();
            let message = format!("{said}; drop it, or the platform accepts {kind} in accept.dependents");
            Finding::block(code, "B-9", message)
        }
        Some(_) | None => Finding { severity: Severity::Warn, code, rule: "B-9", message: said },
    }
}

fn word(kind: DependentKind) -> &'static str {
    match kind {
        DependentKind::MaterializedView => "materialized view",
        DependentKind::View => "view",
        DependentKind::Dictionary => "dictionary",
        DependentKind::RowPolicy => "row policy",
        DependentKind::ColumnGrant => "column grant",
    }
}

fn uses(names: &Names, facts: &MemberFacts) -> BTreeSet<Use> {
    let mut uses = BTreeSet::new();
    for name in [&names.target, &names.candidate] {
        let table = TableName { database: names.database.clone(), table: name.clone() };
        uses.extend(of_definitions(names, &table, facts));
        uses.extend(of_loading(names, name, facts));
        let policies = facts.policies.iter().filter(|policy| policy.table == *name);
        uses.extend(policies.map(|policy| {
            let kind = DependentKind::RowPolicy;
            Use {
                kind: Some(kind),
                object: policy.name.clone(),
                how: format!("is on {name}"),
                refused: false,
            }
        }));
    }
    uses.extend(column_grants(names, facts));
    uses
}

fn shown(name: &TableName) -> String {
    format!("{}.{}", name.database, name.table)
}

fn of_definitions<'a>(
    names: &'a Names,
    table: &'a TableName,
    facts: &'a MemberFacts,
) -> impl Iterator<Item = Use> + 'a {
    let refused = table.table == names.candidate && facts.limits.checks_references;
    let defined = facts.definitions.iter().flat_map(move |definition| {
        let loads = loading(&table.table, facts).any(|dependent| dependent == definition.name);
        let refused = refused || (table.table == names.candidate && loads && facts.limits.checks_loading);
        let relations = relations(definition, table, loads);
        relations.into_iter().map(move |relation| Use {
            kind: Some(kind_of(&definition.engine)),
            object: shown(&definition.name),
            how: format!("{relation} {}", table.table),
            refused,
        })
    });
    let source = format!("ClickHouse: {}", shown(table));
    let configured = facts.configured.iter().filter(move |dictionary| {
        dictionary.source == source || dictionary.source.starts_with(&format!("{source}, where"))
    });
    let configured = configured.map(|dictionary| Use {
        kind: Some(DependentKind::Dictionary),
        object: dictionary.name.clone(),
        how: format!("(of the server's configuration) reads {}", table.table),
        refused: false,
    });
    defined.chain(configured)
}

fn loading<'a>(name: &'a str, facts: &'a MemberFacts) -> impl Iterator<Item = TableName> + 'a {
    facts.tables.iter().filter(move |t| t.name == name).flat_map(|t| t.loading_dependents.iter().cloned())
}

/// What the server counts as a dependent, although no view's or dictionary's text names the table.
fn of_loading<'a>(names: &'a Names, name: &'a str, facts: &'a MemberFacts) -> impl Iterator<Item = Use> + 'a {
    let refuses = facts.limits.checks_loading || facts.limits.checks_references;
    loading(name, facts).filter(|dependent| !facts.definitions.iter().any(|d| d.name == *dependent)).map(
        move |dependent| Use {
            kind: None,
            object: shown(&dependent),
            how: format!("loads from {name}"),
            refused: name == names.candidate && refuses,
        },
    )
}

fn kind_of(engine: &str) -> DependentKind {
    match engine {
        "Dictionary" => DependentKind::Dictionary,
        "MaterializedView" => DependentKind::MaterializedView,
        _ => DependentKind::View,
    }
}

/// How a definition refers to a table: empty = not at all. A text that cannot be read is taken to refer to it.
fn relations(definition: &Definition, table: &TableName, loads: bool) -> BTreeSet<&'static str> {
    let Some(tokens) = tokenize(&definition.create_query) else {
        return BTreeSet::from(["cannot be read, and may refer to"]);
    };
    let mut relations = BTreeSet::new();
    for at in mentions(&tokens, table) {
        let to = at.checked_sub(1).and_then(|before| tokens.get(before));
        let body = tokens.iter().position(|token| is_word(token, "AS")).unwrap_or(tokens.len());
        let writes = to.is_some_and(|token| is_word(token, "TO")) && at < body;
        relations.insert(if writes { "writes to" } else { "reads" });
    }
    if definition.engine == "Dictionary" && (loads || is_source(&tokens, table, &definition.name.database)) {
        relations.insert("reads");
    }
    relations
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word))
}

fn name_of(token: &Token) -> Option<&str> {
    match token {
        Token::Word(name) | Token::Quoted(name) => Some(name),
        _ => None,
    }
}

fn value_of(token: &Token) -> Option<&str> {
    match token {
        Token::Text(text) => Some(text),
        other => name_of(other),
    }
}

/// Where `database.table` stands (servers qualify every name in a view's text), or `database, table` among the
/// arguments of a table function. A column `table` of something called `database` looks the same: better listed.
fn mentions(tokens: &[Token], table: &TableName) -> Vec<usize> {
    const FUNCTIONS: &[&str] = &["remote", "remoteSecure", "cluster", "clusterAllReplicas"];
    let is = |at: usize, wanted: &str, value: fn(&Token) -> Option<&str>| {
        tokens.get(at).and_then(value).is_some_and(|found| found == wanted)
    };
    let dotted = (0..tokens.len()).filter(|at| {
        is(*at, &table.database, name_of)
            && tokens.get(at + 1) == Some(&Token::Symbol('.'))
            && is(at + 2, &table.table, name_of)
    });
    let mut found: Vec<usize> = dotted.collect();
    for (at, token) in tokens.iter().enumerate() {
        let called = FUNCTIONS.iter().any(|function| is_word(token, function));
        let Some(arguments) = tokens.get(at + 1..).filter(|_| called).and_then(parenthesised) else {
            continue;
        };
        let inside = at + 2..at + 2 + arguments.len();
        found.extend(inside.filter(|at| {
            is(*at, &table.database, value_of)
                && tokens.get(at + 1) == Some(&Token::Symbol(','))
                && is(at + 2, &table.table, value_of)
        }));
    }
    found
}

/// `SOURCE(CLICKHOUSE(… DB 'd' TABLE 't' …))`, or its QUERY.
fn is_source(tokens: &[Token], table: &TableName, own_database: &str) -> bool {
    let Some(at) = tokens.iter().position(|token| is_word(token, "CLICKHOUSE")) else { return false };
    let Some(arguments) = tokens.get(at + 1..).and_then(parenthesised) else { return false };
    let argument = |key: &str| {
        let at = arguments.iter().position(|token| is_word(token, key))?;
        arguments.get(at + 1).and_then(value_of)
    };
    let named = argument("TABLE") == Some(&table.table)
        && argument("DB").unwrap_or(own_database) == table.database.as_str();
    named
        || argument("QUERY")
            .is_some_and(|query| tokenize(query).is_none_or(|tokens| !mentions(&tokens, table).is_empty()))
}

/// Grants stay with the name. Those on columns that only one of the two names has would be held, after the
/// publication, on columns of another generation.
fn column_grants(names: &Names, facts: &MemberFacts) -> BTreeSet<Use> {
    let on = |table: &str| -> BTreeSet<String> {
        let grants = facts.grants.iter().filter(|g| {
            g.database.as_deref() == Some(&names.database) && g.table.as_deref() == Some(table) && !g.wildcard
        });
        let columns = grants.filter_map(|g| {
            let verb = if g.revoked { "revoked from" } else { "to" };
            g.column.as_ref().map(|column| format!("{}({column}) {verb} {}", g.access, g.grantee))
        });
        columns.collect()
    };
    let (target, candidate) = (on(&names.target), on(&names.candidate));
    let only = |here: &BTreeSet<String>, there: &BTreeSet<String>, name: &str, other: &str| {
        let how = format!("is on {name} and not on {other}");
        let kind = Some(DependentKind::ColumnGrant);
        here.difference(there)
            .map(|grant| Use { kind, object: grant.clone(), how: how.clone(), refused: false })
            .collect::<Vec<_>>()
    };
    let (t, c) = (&names.target, &names.candidate);
    only(&target, &candidate, t, c).into_iter().chain(only(&candidate, &target, c, t)).collect()
}
