//! C-9, C-13, F-2: what a read of the slot by every member means.

use crate::admission::{Finding, read_failures};
use crate::code::ErrorCode;
use crate::facade::{FacadeSeen, under_root};
use crate::identity::ServerUuid;
use crate::intent::Intent;
use crate::limits::{RECENT_OPERATIONS_MAX, STALE_READ_MS_MAX};
use crate::ports::{AuthorityRead, ReadFailure};
use crate::record::{Record, Slot, VersionedRow};

/// The slot, as far as the members agree on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SlotRead {
    /// The decoded slot; none = no row.
    pub(crate) slot: Option<Slot>,
    /// A server that answered: the one to write to.
    pub(crate) server: ServerUuid,
    /// A member that did not answer, if any.
    pub(crate) missing: Option<Finding>,
    /// B-5: the facade at every member that answered, each under the root of the intent.
    pub(crate) facades: Vec<(ServerUuid, FacadeSeen)>,
}

/// Judges a read. `stale_ms` = for how long members have disagreed.
///
/// # Errors
/// The finding that stands against using the slot.
pub(crate) fn judge(intent: &Intent, read: &AuthorityRead, stale_ms: u64) -> Result<SlotRead, Finding> {
    let missing = read_failures(&read.failures);
    // B-6: absent everywhere, although a root is known. One member that has it says who it was.
    if read.rows.is_empty()
        && !read.failures.is_empty()
        && read.failures.iter().all(|(_, f)| *f == ReadFailure::NoTable)
    {
        return Err(gone(intent));
    }
    let Some((server, first)) = read.rows.first() else {
        return Err(missing.unwrap_or_else(|| unavailable("no member answered")));
    };
    let newest = read.rows.iter().map(|(_, row)| row.as_ref().map(|r| r.version)).max().flatten();
    let (root, shown) = match intent.witnessed {
        Some((root, shown)) => (Some(root), Some(shown)),
        None => (None, None),
    };
    if root.is_some_and(|root| root != intent.root) {
        return Err(lost("the facade's root differs from the one that this object has shown"));
    }
    under_root(intent.root, &read.facades)?;
    if read.rows.iter().any(|(server, _)| read.facades.iter().all(|(seen, _)| seen != server)) {
        return Err(unavailable("a member's row came without the facade that it is from"));
    }
    if newest < shown && !read.failures.is_empty() {
        return Err(missing.unwrap_or_else(|| unavailable("not every member answered")));
    }
    // B-6, F-2: a lost row must be seen on every member, and a lower version must last.
    if shown.is_some() && newest.is_none() && !planted!(LostRowIsNew) {
        return Err(lost("the row of this operation is gone"));
    }
    // F-2 says every member: one that did not answer may hold the newer record.
    if newest < shown
        && let Some(missing) = missing
    {
        return Err(missing);
    }
    if newest < shown && !planted!(LostRowIsNew) {
        return Err(stale_or(stale_ms, || {
            lost("every member is below the version that this object has shown")
        }));
    }
    if read.rows.iter().any(|(_, row)| row != first) && !planted!(TakeOlderRecord) {
        return Err(stale_or(stale_ms, || {
            unavailable("members read different versions of the record for longer than the bound")
        }));
    }
    let slot = first.as_ref().map(decode).transpose()?;
    if let (Some(slot), Some(shown)) = (&slot, shown) {
        listed(intent, slot, shown)?;
    }
    Ok(SlotRead { slot, server: server.clone(), missing, facades: read.facades.clone() })
}

/// F-2: whether this read shows that the authority over the intent's operation is lost.
pub(crate) fn lost_authority(intent: &Intent, read: &AuthorityRead, stale_ms: u64) -> Result<bool, Finding> {
    match judge(intent, read, stale_ms) {
        // A member that did not answer may hold the newer record.
        Ok(found) => found.missing.map_or(Ok(false), Err),
        Err(finding) if finding.code == ErrorCode::AuthorityLost => Ok(true),
        Err(finding) => Err(finding),
    }
}

fn decode(row: &VersionedRow) -> Result<Slot, Finding> {
    let record = Record::decode(&row.row).map_err(|error| {
        let message = format!("{error}; the record is never overwritten, see docs/recovery.md");
        Finding::block(ErrorCode::AuthorityMalformed, "C-9", message)
    })?;
    Ok(Slot { record, version: row.version })
}

/// F-2: an operation that took the slot is either there or listed, unless the list no longer reaches back.
fn listed(intent: &Intent, slot: &Slot, shown: u64) -> Result<(), Finding> {
    let recent = &slot.record.payload.recent;
    let known =
        slot.record.operation == intent.operation || recent.iter().any(|r| r.operation == intent.operation);
    let reaches_back = recent.len() < RECENT_OPERATIONS_MAX
        || recent.first().is_some_and(|oldest| oldest.final_version <= shown);
    if known || !reaches_back { Ok(()) } else { Err(lost("the slot's history does not know this operation")) }
}

/// C-13: re-read within bounds, then block.
fn stale_or(stale_ms: u64, then: impl FnOnce() -> Finding) -> Finding {
    if stale_ms > STALE_READ_MS_MAX {
        then()
    } else {
        Finding::wait(
            ErrorCode::AuthorityUnavailable,
            "C-13",
            "members read different versions of the record; reading again",
        )
    }
}

fn lost(what: &str) -> Finding {
    Finding::block(ErrorCode::AuthorityLost, "F-2", format!("{what}; nothing is done, see docs/recovery.md"))
}

fn gone(intent: &Intent) -> Finding {
    let message = format!(
        "the facade of root {} is gone from every member; nothing is done, see docs/recovery.md",
        intent.root
    );
    Finding::block(ErrorCode::AuthorityLost, "B-6", message)
}

fn unavailable(what: &str) -> Finding {
    Finding::block(ErrorCode::AuthorityUnavailable, "C-13", what)
}
