//! What is asked for, and the records that follow from it.

use crate::admission::{Bound, Finding};
use crate::authority::Now;
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::identity::{Action, FenceToken, Names, Random, RootId, RowExpectation, target_key};
use crate::limits::{Deadlines, FENCED_NAMES_MAX, RECORD_BYTES_MAX};
use crate::phase::{Actor, Edge, Phase, edge};
use crate::preflight::DependentKind;
use crate::record::{Ending, Owner, Payload, Recent, Record, SCHEMA_VERSION, Slot};
use crate::step::with_dispatch;
use std::collections::BTreeSet;

/// One operation as its object asks for it, with what surrounds it in this pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Intent {
    ///
    pub operation: Digest,
    /// Root of the facade, from the PublicationCluster's status.
    pub root: RootId,
    ///
    pub names: Names,
    /// Expected rows.
    pub rows: RowExpectation,
    ///
    pub plan: Digest,
    /// The object.
    pub owner: Owner,
    /// B-1: counts only where the catalog lacks the column.
    pub declared_internal_replication: bool,
    /// B-9: kinds of dependents that the platform accepts.
    pub accepted_dependents: BTreeSet<DependentKind>,
    /// M.
    pub deadlines: Deadlines,
    /// The object is being deleted.
    pub deleted: bool,
    /// `admissionDeadlineSeconds` is over.
    pub deadline_passed: bool,
    /// The platform suspended dispatching.
    pub suspended: bool,
    /// An older, converged object of the same target that goes first.
    pub behind: Option<String>,
    /// C-14: root and version that the object's status shows.
    pub witnessed: Option<(RootId, u64)>,
    /// G-4: object, cluster or a verdict changed since the last pass.
    pub changed: bool,
}

impl Intent {
    ///
    pub fn key(&self) -> Digest {
        target_key(self.root, &self.names.cluster, &self.names.database, &self.names.target)
    }

    /// PREPARED, for a free slot or over a final one (C-2, C-8, H-3).
    ///
    /// # Errors
    /// A finding of B-7 or C-9, or `INTERNAL_INVARIANT`.
    pub(crate) fn prepare(
        &self,
        over: Option<&Slot>,
        bound: Bound,
        now: Now,
        random: &Random,
    ) -> Result<Record, Finding> {
        if let Some(slot) = over
            && edge(Actor::Taker, slot.record.phase, Phase::Prepared) != Some(Edge::TakeOver)
        {
            return Err(invariant());
        }
        self.check_slot(over)?;
        let record = Record {
            operation: self.operation,
            fence: FenceToken::draw(random),
            phase: Phase::Prepared,
            epoch: 0,
            payload: Payload {
                schema: SCHEMA_VERSION,
                owner: self.owner.clone(),
                root: self.root,
                names: self.names.clone(),
                rows: self.rows,
                row_count: bound.row_count,
                plan_digest: self.plan,
                inventory_digest: bound.inventory.digest(),
                inventory: bound.inventory,
                predecessor: bound.predecessor,
                desired: bound.desired,
                dispatches: Vec::new(),
                fenced: over
                    .filter(|_| !planted!(ForgetFences))
                    .map(|s| s.record.fences())
                    .unwrap_or_default(),
                recent: over.map(|s| s.record.recent_with_self(s.version)).unwrap_or_default(),
                verdicts: Vec::new(),
                prepared_ms: now.wall_ms,
                updated_ms: now.wall_ms,
                error: None,
                receipt: None,
            },
        };
        let bytes = record.worst_case_bytes();
        if bytes > RECORD_BYTES_MAX {
            let message = format!(
                "the record could grow to {bytes} bytes, {RECORD_BYTES_MAX} allowed; use shorter host names or fewer members"
            );
            return Err(Finding::block(ErrorCode::UnsupportedTopology, "C-9", message));
        }
        Ok(record)
    }

    /// B-7 (m), C-9, api: what the slot's history refuses.
    pub(crate) fn check_slot(&self, over: Option<&Slot>) -> Result<(), Finding> {
        let Some(slot) = over else { return Ok(()) };
        let recent = slot.record.recent_with_self(slot.version);
        let fences = slot.record.fences();
        let candidate = &self.names.candidate;
        let is_spent = |r: &Recent| r.ending != Ending::Released && &r.candidate == candidate;
        let spent = !planted!(ReuseSpentName) && recent.iter().any(is_spent);
        if spent || fences.iter().any(|f| &f.name == candidate && !planted!(ReuseFencedName)) {
            let message = format!(
                "candidate: {candidate} was used or is fenced; names are single-use, build under a fresh suffix"
            );
            return Err(Finding::block(ErrorCode::CandidateNameSpent, "B-7", message));
        }
        // One place is kept for a publication that a verdict ends without an account of its entry.
        if fences.len() >= FENCED_NAMES_MAX {
            let message =
                format!("{} fenced names in the slot; clear them by verdict (NameCleared)", fences.len());
            return Err(Finding::block(ErrorCode::FenceLimit, "C-9", message));
        }
        if let Some(newer) = recent.iter().find(|r| self.is_older_than(r)) {
            let message = format!("a newer object published there (operation {})", newer.operation.short());
            return Err(Finding::block(ErrorCode::Superseded, "api", message));
        }
        Ok(())
    }

    fn is_older_than(&self, published: &Recent) -> bool {
        published.ending == Ending::Completed
            && published.operation != self.operation
            && published.kube_uid == self.owner.kube_uid
            && published.created_ms > self.owner.created_ms
    }
}

/// PREPARED -> DISPATCHING, with the publication's dispatch.
pub(crate) fn publish(slot: &Slot, now: Now, random: &Random) -> Record {
    let mut next = slot.record.clone();
    next.phase = Phase::Dispatching;
    let names = next.payload.names.clone();
    with_dispatch(next, Action::Publish, names.candidate, Some(names.target), now, random)
}

/// PREPARED -> RELEASED (C-10) or DISPATCHING -> RELEASED (C-12).
pub(crate) fn release(slot: &Slot, now: Now) -> Option<Record> {
    edge(Actor::Own, slot.record.phase, Phase::Released)?;
    let mut next = slot.record.clone();
    next.phase = Phase::Released;
    next.payload.updated_ms = now.wall_ms;
    Some(next)
}

pub(crate) fn invariant() -> Finding {
    Finding::block(
        ErrorCode::InternalInvariant,
        "H-1",
        "a step outside the transition table was refused; report it",
    )
}
