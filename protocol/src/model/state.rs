//! A state of the model: small numbers only (see [`super::engine::Engine`]), so that it is cheap to clone and to keep.

use super::engine::Engine;
use super::input::Exec;
use super::real;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) tables: u32,
    pub(crate) up: bool,
}

/// An entry of the DDL queue. Its number is its place; it stays here when retention has removed it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) stmt: u32,
    pub(crate) hosts: Vec<Exec>,
    pub(crate) gone: bool,
}

/// What a network holds back after its sender gave it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    /// A pending `Mutate` call.
    Mutation(u32),
    Statement(u32),
}

/// How the last pass of a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Last {
    /// Nothing final, or forgotten in a crash.
    Waiting,
    /// A declared fail-closed report.
    Stalled,
    Succeeded,
    /// Refused for good, or gone.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Idle(Last),
    Busy(Busy),
}

/// In the middle of a pass, before the pending call has taken effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Busy {
    pub(crate) driver: u32,
    pub(crate) call: u32,
    /// More than every wait has passed since the pass began.
    pub(crate) late: bool,
    /// A permit, or the CAS that may yield one, is too old by now.
    pub(crate) expired: bool,
    /// Ghost: the last mutation took effect and was acknowledged to this worker.
    pub(crate) applied: bool,
    /// Members read so far, where members are read one by one.
    pub(crate) partial: Vec<Option<u32>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) op: u8,
    pub(crate) stage: Stage,
    /// Memory between passes: the version first seen long enough ago or not, and whether members disagreed.
    pub(crate) seen: Option<u64>,
    pub(crate) stale: bool,
}

/// An operation's object, and what a judge remembers of the operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Operation {
    pub(crate) witness: Option<u64>,
    pub(crate) deleted: bool,
    /// Ghost: generation of the target when the slot was taken last.
    pub(crate) predecessor: Option<u8>,
    /// Ghost: a verdict has ended it; no statement of it may do anything any more (J).
    pub(crate) settled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) members: Vec<Member>,
    /// The newest row, and the one before for stale reads.
    pub(crate) slot: Vec<u32>,
    pub(crate) queue: Vec<Entry>,
    pub(crate) network: Vec<Held>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) operations: Vec<Operation>,
    /// A verdict that was judged and is not stored yet: its pending `Mutate` call.
    pub(crate) verdict: Option<u32>,
    /// How many members the facade's binding row names (J-4).
    pub(crate) bound: u8,
    /// Left of the shared budget.
    pub(crate) faults: u8,
    /// Mutations held back so far: later draws differ from those in the network.
    pub(crate) nonce: u8,
    /// Ghost: a server lost or repeated an acknowledged effect (K: known residue).
    pub(crate) residue: bool,
    /// See [`Config::snapshot`]; the same in all states.
    pub(crate) snapshot: bool,
}

/// What a configuration lets happen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    pub(crate) name: &'static str,
    pub(crate) members: usize,
    /// By worker: the operation it works for.
    pub(crate) workers: Vec<u8>,
    pub(crate) absent_target: bool,
    pub(crate) faults: u8,
    pub(crate) loss: bool,
    pub(crate) crash: bool,
    pub(crate) stale: bool,
    /// Members are read one by one.
    pub(crate) split: bool,
    /// All reads up to the next effect are one step: what is read is true at one moment.
    pub(crate) snapshot: bool,
    /// A member runs and marks an entry in one step.
    pub(crate) coarse: bool,
    pub(crate) permit: bool,
    pub(crate) delay: bool,
    pub(crate) down: bool,
    pub(crate) refuse: bool,
    pub(crate) twice: bool,
    pub(crate) undo: bool,
    pub(crate) removal: bool,
    pub(crate) deletion: bool,
    pub(crate) again: bool,
    /// An upgrade: members print definitions differently from now on, one after the other.
    pub(crate) reprint: bool,
    /// Members are removed for good, or join with the tables of another.
    pub(crate) membership: bool,
    /// A person works on what has stopped, and decides.
    pub(crate) verdicts: bool,
}

impl State {
    pub(crate) fn initial(engine: &mut Engine, config: &Config) -> Self {
        let operations = engine.intents.len() as u8;
        let mut tables: Vec<(String, u8)> =
            (0..operations).map(|op| (real::candidate(op), real::desired(op))).collect();
        if !config.absent_target {
            tables.push((real::TARGET.into(), real::OLD));
        }
        tables.sort();
        let tables = engine.tables.id(tables);
        let idle = |op: &u8| Worker { op: *op, stage: Stage::Idle(Last::Waiting), seen: None, stale: false };
        let operation = Operation { witness: None, deleted: false, predecessor: None, settled: false };
        Self {
            members: vec![Member { tables, up: true }; config.members],
            slot: Vec::new(),
            queue: Vec::new(),
            network: Vec::new(),
            workers: config.workers.iter().map(idle).collect(),
            operations: vec![operation; usize::from(operations)],
            verdict: None,
            bound: config.members as u8,
            faults: config.faults,
            nonce: 0,
            residue: false,
            snapshot: config.snapshot,
        }
    }

    pub(crate) fn row(&self) -> Option<u32> {
        self.slot.last().copied()
    }

    /// The row before the newest; none inside = there was none yet.
    pub(crate) fn older_row(&self) -> Option<Option<u32>> {
        match self.slot.as_slice() {
            [] => None,
            [_] => Some(None),
            [older, ..] => Some(Some(*older)),
        }
    }

    pub(crate) fn version(&self, engine: &Engine) -> u64 {
        self.row().map_or(0, |row| engine.rows.get(row).version + 1)
    }
}
