//! B-6 (m), F-2: when the platform may accept that records in Keeper are lost. Pure: what is read for it, and what comes
//! of it, is the controller's.
//!
//! Without its record nobody knows which statements of an operation may still run, nor which names it has used. So what
//! a late statement could move must be gone first: nothing of ours is unfinished in the queue, and no table bears the
//! candidate or a retired name of what is given up.

use crate::admission::{Finding, Severity};
use crate::authority::Now;
use crate::code::ErrorCode;
use crate::driver::lost_authority;
use crate::identity::{Names, RETIRED_INFIX, RootId, TOKEN_PREFIX};
use crate::intent::Intent;
use crate::limits::STALE_READ_MS_MAX;
use crate::ports::AuthorityRead;
use crate::queue::{HostResult, QueueRow, host_result};
use crate::sqltext::TableName;
use std::collections::BTreeSet;

/// How many names a message gives of what stands against it.
const NAMED_MAX: usize = 3;

/// An unresolved object whose record is lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relying {
    /// Namespace and name.
    pub object: String,
    ///
    pub names: Names,
}

/// A table on a member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Borne {
    /// How the member is named to people.
    pub member: String,
    /// What it has.
    pub table: TableName,
}

/// The field names a root that is lost.
///
/// # Errors
/// Nothing was accepted, or another root; the finding says which one is lost.
pub fn accepted(field: &str, lost: &BTreeSet<RootId>) -> Result<RootId, Finding> {
    let shown: Vec<String> = lost.iter().map(ToString::to_string).collect();
    let gone =
        format!("the facade of root {} is gone from every member; no new root is drawn", shown.join(", "));
    if let Some(root) = lost.iter().find(|root| root.to_string() == field) {
        return Ok(*root);
    }
    let message = if field.is_empty() {
        format!(
            "{gone}: bring Keeper back, list the members that had it, or accept the loss in acceptAuthorityLoss, see docs/recovery.md"
        )
    } else {
        format!("{gone}: acceptAuthorityLoss names another root")
    };
    Err(Finding::block(ErrorCode::AuthorityLost, "B-6", message))
}

/// Whether what relied on lost records may end Failed: all that a late statement could do is nothing.
///
/// # Errors
/// What stands against it: entries by name, tables by member, objects.
pub fn may_end(relying: &[Relying], queue: &[QueueRow], tables: &[Borne]) -> Result<(), Finding> {
    let unfinished: BTreeSet<&str> =
        queue.iter().filter(|row| is_open(row)).map(|row| row.entry.as_str()).collect();
    let left: BTreeSet<String> = tables
        .iter()
        .filter_map(|borne| {
            let of = relying.iter().find(|relying| is_of(&relying.names, &borne.table))?;
            let TableName { database, table } = &borne.table;
            Some(format!("{database}.{table} of {} on {}", of.object, borne.member))
        })
        .collect();
    let mut against = Vec::new();
    if !unfinished.is_empty() {
        against
            .push(format!("unfinished in the queue: {}", some(unfinished.iter().map(ToString::to_string))));
    }
    if !left.is_empty() {
        against.push(format!("rename to private names: {}", some(left.into_iter())));
    }
    if against.is_empty() {
        return Ok(());
    }
    let message = format!("acceptAuthorityLoss: not honoured yet; {}", against.join("; "));
    Err(Finding::block(ErrorCode::AuthorityLost, "B-6", message))
}

/// Ours, and not surely over on this host (E).
fn is_open(row: &QueueRow) -> bool {
    let ours = row.token.strip_prefix(TOKEN_PREFIX).is_some_and(|rest| rest.starts_with(':'));
    let result = host_result(row.status.as_deref(), row.exception_code, row.exception_text);
    ours && !matches!(result, HostResult::TerminalSuccess | HostResult::TerminalFailure(_))
}

/// a name tells its target.
fn is_of(names: &Names, table: &TableName) -> bool {
    let retired = table.table.strip_prefix(&names.target).is_some_and(|rest| rest.starts_with(RETIRED_INFIX));
    table.database == names.database && (table.table == names.candidate || retired)
}

fn some(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let shown = names.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// Whether the record of an unresolved object is lost although the facade is there (F-2). `since` is kept between looks:
/// since when members show less than the object (C-13).
///
/// # Errors
/// It cannot be told yet.
pub fn is_lost(
    intent: &Intent,
    read: &AuthorityRead,
    now: Now,
    since: &mut Option<u64>,
) -> Result<bool, Finding> {
    let stale_ms = now.boot_ms.saturating_sub(*since.get_or_insert(now.boot_ms));
    match lost_authority(intent, read, stale_ms) {
        Ok(lost) => {
            if !lost || stale_ms <= STALE_READ_MS_MAX {
                *since = None;
            }
            Ok(lost)
        }
        Err(finding) => {
            if finding.rule != "C-13" {
                *since = None;
            }
            Err(Finding { severity: Severity::Wait, ..finding })
        }
    }
}

/// What an object says that ended so.
pub fn ended(root: RootId) -> Finding {
    let message = format!(
        "the platform accepted the loss of the records under root {root}; the tables are as a person left them"
    );
    Finding::block(ErrorCode::AuthorityLost, "B-6", message)
}
