//! K13: a statement that does not progress is told about, with one more scan than a look takes. Nothing is decided here.

use super::{Call, Driver, End, Requeue};
use crate::admission::Finding;
use crate::diagnose::{self, StuckCause};
use crate::identity::ServerUuid;
use crate::inventory::Inventory;
use crate::ports::{AuthorityRead, MembersAnswer};
use crate::preflight::Backlog;
use crate::record::Slot;
use std::collections::{BTreeMap, BTreeSet};

/// How a pass ends, and what is known so far of the statement that it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Overdue {
    ended: Ended,
    inventory: Inventory,
    entry: String,
    unfinished: BTreeSet<ServerUuid>,
    signs: BTreeMap<ServerUuid, StuckCause>,
}

/// What was decided.
pub(super) type Ended = (End, Vec<Finding>, Requeue);

impl Driver {
    /// Ends a pass that waits: at once, or after the one read that a diagnosis takes.
    pub(super) fn end(
        &mut self,
        ended: Ended,
        slot: &Slot,
        (answer, read): (&MembersAnswer, &AuthorityRead),
        seen_for_ms: u64,
    ) -> Call {
        let waited = diagnose::waited_for(&self.queues).filter(|_| diagnose::is_overdue(seen_for_ms));
        let Some((entry, unfinished)) = waited else {
            return self.finish(ended.0, ended.1, ended.2);
        };
        let inventory = slot.record.payload.inventory.clone();
        let overdue = Overdue {
            ended,
            entry: entry.to_owned(),
            unfinished: unfinished.into_iter().cloned().collect(),
            signs: diagnose::signs(&inventory, answer, read),
            inventory,
        };
        self.state = super::State::Diagnosing(Box::new(overdue));
        Call::Backlog(self.intent.names.cluster.clone())
    }

    pub(super) fn diagnosed(&mut self, overdue: Overdue, backlog: Option<&[Backlog]>) -> Call {
        let Overdue { ended, inventory, entry, unfinished, signs } = overdue;
        self.stuck = diagnose::diagnose(&inventory, &entry, &unfinished, &signs, backlog);
        self.finish(ended.0, ended.1, ended.2)
    }
}
