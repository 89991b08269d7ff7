//! The judge: sees rows that Keeper takes, permits, entries, and statements that members run; knows what was built
//! and asked for because the simulation did it. Never reads a report.

use crate::sim::mix::{Mix, chance};
use crate::support::world::{Fault, Inner, Watch};
use publication_protocol::authority::Mutation;
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, RETIRED_INFIX};
use publication_protocol::limits::DISPATCH_PERMIT_MS_MAX;
use publication_protocol::phase::Phase;
use publication_protocol::record::{Record, VersionedRow};
use publication_protocol::sqltext::{Ddl, Statement};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the simulation knows of an operation.
#[derive(Debug, Clone)]
pub struct Operation {
    pub target: String,
    pub desired: u64,
    /// Generation of the target when the publication was dispatched; none = not yet, or absent.
    pub predecessor: Option<u64>,
    pub publications: u32,
    pub receipted: bool,
    pub completed: bool,
    /// A verdict ended it: nothing of it may have an effect any more.
    pub closed: bool,
}

#[derive(Debug, Clone)]
struct Dispatched {
    operation: Digest,
    action: Action,
    epoch: u64,
    at_ms: u64,
    /// Another for each pass.
    worker: u32,
    acknowledged: bool,
    sent: bool,
    queued: bool,
}

pub struct Ghost {
    pub rng: ChaCha8Rng,
    pub mix: Mix,
    pub faults: bool,
    pub operations: BTreeMap<Digest, Operation>,
    pub gone: BTreeSet<String>,
    /// Targets where a server went back on its word (K).
    pub residue: BTreeSet<String>,
    /// Workers that sent something since they last looked at members.
    pub sent_since_look: BTreeSet<u32>,
    pub last: BTreeMap<String, Record>,
    dispatched: BTreeMap<String, Dispatched>,
    pub struck: u32,
    /// Rows by phase.
    pub phases: BTreeMap<Phase, u64>,
}

/// Shared by the world, which asks it, and by the simulation.
#[derive(Clone)]
pub struct Judge(Arc<Mutex<Ghost>>);

impl Judge {
    pub fn new(rng: ChaCha8Rng, mix: Mix) -> Self {
        Self(Arc::new(Mutex::new(Ghost {
            rng,
            mix,
            faults: true,
            operations: BTreeMap::new(),
            gone: BTreeSet::new(),
            residue: BTreeSet::new(),
            sent_since_look: BTreeSet::new(),
            last: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            struck: 0,
            phases: BTreeMap::new(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Ghost> {
        self.0.lock().expect("no panic while locked")
    }
}

impl Watch for Judge {
    fn fault(&mut self, worker: u32, kind: &'static str, members: usize) -> Option<Fault> {
        self.lock().strike(worker, kind, members)
    }

    fn gone(&self, uid: &str) -> bool {
        self.lock().gone.contains(uid)
    }

    fn row(&mut self, inner: &mut Inner, row: &VersionedRow) {
        let judged = self.lock().row(inner, row);
        said(inner, judged);
    }

    fn acknowledged(&mut self, worker: u32, mutation: &Mutation) {
        let (Mutation::Insert(row) | Mutation::Update { row, .. }) = mutation;
        for dispatch in self.lock().dispatched.values_mut().filter(|d| d.worker == worker) {
            dispatch.acknowledged |= row.dispatch_epoch == dispatch.epoch;
        }
    }

    fn sent(&mut self, inner: &mut Inner, token: &str) {
        let judged = self.lock().sent(inner, token);
        said(inner, judged);
    }

    fn queued(&mut self, inner: &mut Inner, token: &str, statement: &Statement) {
        let judged = self.lock().queued(token, statement);
        said(inner, judged);
    }

    fn runs(&mut self, inner: &mut Inner, number: u32, token: &str, ddl: &Ddl) {
        let judged = self.lock().runs(inner, number, token, ddl);
        said(inner, judged);
    }
}

fn said(inner: &mut Inner, judged: Result<(), String>) {
    if let Err(violation) = judged {
        inner.violations.push(violation);
    }
}

/// The publication's receipt is stored.
fn receipted(record: &Record) -> bool {
    record.payload.dispatches.first().is_some_and(|d| d.receipt.is_some())
}

fn serves(inner: &Inner, target: &str, generation: u64) -> bool {
    inner.members.iter().all(|m| m.tables.get(target) == Some(&generation))
}

impl Ghost {
    fn strike(&mut self, worker: u32, kind: &'static str, members: usize) -> Option<Fault> {
        if matches!(kind, "scan" | "members") {
            self.sent_since_look.remove(&worker);
        }
        if !self.faults {
            return None;
        }
        let effect = matches!(kind, "mutate" | "send");
        let read = matches!(kind, "read_all" | "members" | "preflight");
        let (rng, mix) = (&mut self.rng, &self.mix);
        let late_ms = |rng: &mut ChaCha8Rng| {
            // Mostly within the send deadline; sometimes a network holds back for longer than anybody waits.
            if chance(rng, 850) { rng.random_range(0..31_000) } else { rng.random_range(31_000..2_000_000) }
        };
        let fault = if chance(rng, mix.lost) {
            if rng.random() { Fault::LostBefore } else { Fault::LostAfter }
        } else if chance(rng, mix.crash) {
            if rng.random() { Fault::CrashBefore } else { Fault::CrashAfter }
        } else if effect && chance(rng, mix.delay) {
            if rng.random() { Fault::Delayed(late_ms(rng)) } else { Fault::CrashDelayed(late_ms(rng)) }
        } else if read && chance(rng, mix.silent) {
            Fault::Silent(rng.random_range(0..members))
        } else if kind == "scan" && chance(rng, mix.stale) {
            Fault::Stale(rng.random_range(1..20_000))
        } else {
            return None;
        };
        self.struck += 1;
        Some(fault)
    }

    fn row(&mut self, inner: &Inner, row: &VersionedRow) -> Result<(), String> {
        let next =
            Record::decode(&row.row).map_err(|e| format!("C-9: an unreadable row was written: {e}"))?;
        let target = next.payload.names.target.clone();
        *self.phases.entry(next.phase).or_default() += 1;
        let last = self.last.insert(row.row.target_key.clone(), next.clone());
        let holds = |last: &Record| last.operation == next.operation && last.fence == next.fence;
        match &last {
            Some(last) if holds(last) => self.advanced(inner, last, &next)?,
            Some(last) => self.taken_over(last, &next)?,
            None if next.phase != Phase::Prepared => return Err("H: a first row that is not PREPARED".into()),
            None => {}
        }
        let residue = self.residue.contains(&target);
        let operation = self.operations.get_mut(&next.operation).ok_or("a row of nobody")?;
        operation.receipted = receipted(&next);
        let ended = next.phase == Phase::Completed && !operation.completed;
        operation.completed |= ended;
        // RELEASED may be prepared again (H-3).
        let over = matches!(next.phase, Phase::Completed | Phase::Abandoned);
        operation.closed |= over && !next.payload.verdicts.is_empty();
        if ended && !residue && !serves(inner, &target, operation.desired) {
            return Err("G-5: COMPLETED while a member does not serve the desired generation".into());
        }
        Ok(())
    }

    fn taken_over(&self, last: &Record, next: &Record) -> Result<(), String> {
        let other = last.operation != next.operation;
        let gone = last.phase == Phase::Prepared && self.gone.contains(&last.payload.owner.uid) && other;
        let again = last.phase == Phase::Released && !other;
        if next.phase != Phase::Prepared || !(gone || again || (other && last.phase.is_final())) {
            return Err(format!("C-8: a slot in {} was taken over into {}", last.phase, next.phase));
        }
        Ok(())
    }

    fn advanced(&mut self, inner: &Inner, last: &Record, next: &Record) -> Result<(), String> {
        if next.epoch == last.epoch {
            return Ok(());
        }
        let dispatch = next.last_dispatch().ok_or("H: an epoch without a dispatch")?;
        let phase = match dispatch.action {
            Action::Publish => Phase::Dispatching,
            Action::Retire => Phase::RetireDispatching,
            _ => Phase::DropDispatching,
        };
        if next.phase != phase || next.epoch != last.epoch + 1 {
            return Err("H: an epoch that no dispatching phase began".into());
        }
        let target = &next.payload.names.target;
        let residue = self.residue.contains(target);
        let operation = self.operations.get_mut(&next.operation).ok_or("a row of nobody")?;
        if dispatch.action == Action::Publish {
            let shown = inner.witnesses.get(&next.payload.owner.uid);
            if shown.is_none() {
                return Err("C-14: dispatched before root and version were shown".into());
            }
            operation.predecessor = inner.members[0].tables.get(target).copied();
        } else if !(operation.receipted || receipted(next)) {
            return Err("G-1: cleanup without a stored receipt of the publication".into());
        } else if !residue && !serves(inner, target, operation.desired) {
            return Err("G-1: cleanup while a member does not serve the desired generation".into());
        }
        if dispatch.action == Action::Drop {
            let accounted = next.retired_names().any(|(name, accounted)| name == dispatch.from && accounted);
            if !dispatch.from.contains(RETIRED_INFIX) || !accounted {
                return Err(format!("G-3: a drop of {}", dispatch.from));
            }
        }
        self.dispatched.insert(
            dispatch.token.as_str().to_owned(),
            Dispatched {
                operation: next.operation,
                action: dispatch.action,
                epoch: dispatch.epoch,
                at_ms: inner.now.boot_ms,
                worker: inner.acting,
                acknowledged: false,
                sent: false,
                queued: false,
            },
        );
        Ok(())
    }

    fn sent(&mut self, inner: &Inner, token: &str) -> Result<(), String> {
        self.sent_since_look.insert(inner.acting);
        let dispatch = self.dispatched.get_mut(token).ok_or("C-6: sent without a row of its dispatch")?;
        let age = inner.now.boot_ms - dispatch.at_ms;
        if dispatch.worker != inner.acting || !dispatch.acknowledged {
            return Err("C-7: sent by a worker that was never told of its own swap".into());
        }
        if age > DISPATCH_PERMIT_MS_MAX {
            return Err(format!("C-12: sent {age} ms after the swap"));
        }
        if std::mem::replace(&mut dispatch.sent, true) {
            return Err("C-6: a permit was used twice".into());
        }
        Ok(())
    }

    fn queued(&mut self, token: &str, statement: &Statement) -> Result<(), String> {
        let dispatch = self.dispatched.get_mut(token).ok_or("C-6: an entry without a row of its dispatch")?;
        if !dispatch.sent || std::mem::replace(&mut dispatch.queued, true) {
            return Err("C-6: an entry that no permit sent, or the second of its token".into());
        }
        let operation = self.operations.get_mut(&dispatch.operation).ok_or("an entry of nobody")?;
        if dispatch.action == Action::Publish {
            operation.publications += 1;
            if operation.publications > 1 {
                return Err("zero blind EXCHANGE: a second publication of one operation was queued".into());
            }
        } else if matches!(statement.ddl, Ddl::Exchange { .. }) {
            return Err("an EXCHANGE that does not publish".into());
        }
        Ok(())
    }

    fn runs(&mut self, inner: &Inner, number: u32, token: &str, ddl: &Ddl) -> Result<(), String> {
        let Some(dispatch) = self.dispatched.get(token) else { return Ok(()) };
        let operation = self.operations.get(&dispatch.operation).ok_or("a statement of nobody")?;
        let member = inner.members.iter().find(|m| m.number == number).ok_or("no such member")?;
        let at = |name: &str| member.tables.get(name).copied();
        let residue = self.residue.contains(&operation.target);
        let (old, new) = (operation.predecessor, Some(operation.desired));
        let right = match ddl {
            Ddl::Exchange { target, candidate } => {
                let found = (at(&target.table), at(&candidate.table));
                found.0.is_none()
                    || found.1.is_none()
                    || found == (old, new)
                    || (residue && found == (new, old))
            }
            Ddl::Rename { from, to } => {
                let moved = at(&from.table);
                let bound = if dispatch.action == Action::Publish { new } else { old };
                moved.is_none() || at(&to.table).is_some() || moved == bound || (residue && moved == new)
            }
            // Also where servers lose or repeat effects: never anything but the exact predecessor.
            Ddl::DropIfExists { table } => match at(&table.table) {
                None => true,
                dropped => dropped == old && (residue || serves(inner, &operation.target, operation.desired)),
            },
            Ddl::CreateIfNotExists { .. } => false,
        };
        let moves = match ddl {
            Ddl::Exchange { target, candidate } => {
                at(&target.table).is_some() && at(&candidate.table).is_some()
            }
            Ddl::Rename { from, to } => at(&from.table).is_some() && at(&to.table).is_none(),
            Ddl::DropIfExists { table } | Ddl::CreateIfNotExists { table } => at(&table.table).is_some(),
        };
        if operation.closed && moves && !residue {
            return Err(format!("J-2: {ddl:?} has an effect on h{number} after a verdict"));
        }
        if right {
            return Ok(());
        }
        Err(format!("{ddl:?} of {operation:?} hits {:?} on h{number}", member.tables))
    }
}
