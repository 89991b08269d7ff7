//! What a pass gives back: facts for status, and what must be remembered until the next pass.

use crate::admission::Finding;
use crate::canonical::Digest;
use crate::classify::Classification;
use crate::diagnose::Stuck;
use crate::identity::ServerUuid;
use crate::phase::Phase;
use crate::queue::QueueView;
use crate::receipt::Look;
use crate::record::Slot;
use crate::replica::MemberState;
use std::collections::BTreeMap;

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// COMPLETED.
    Succeeded,
    /// ABANDONED, or refused for good.
    Failed,
    /// Nothing held, nothing dispatched: the object may go.
    Gone,
    /// Look again.
    Waiting,
    /// Fail-closed, or blocked until somebody changes something.
    Stalled,
    /// C-4 was broken: stop all dispatching, alarm.
    Halted,
}

/// When to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requeue {
    /// At once.
    Now,
    /// After this long.
    AfterMs(u64),
    /// Only when something changes.
    Never,
}

/// Why an admissible operation is not begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Held {
    /// The platform suspended dispatching.
    Suspended,
    /// The process is shutting down, or halted.
    Stopping,
    /// An older, converged object of the same target goes first.
    Behind(String),
}

/// Kept by the observer between passes, in memory only; losing it makes waits longer, never shorter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Memory {
    /// D-5: a record version, and when this observer first read it (monotonic).
    pub seen: Option<(u64, u64)>,
    /// C-13: since when members disagree.
    pub stale_since: Option<u64>,
    /// F-3: since when the present trouble lasts.
    pub trouble_since: Option<u64>,
    /// F-3: waits in a row, for backoff.
    pub attempt: u32,
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// The slot as last verified or read, when this operation holds it.
    pub slot: Option<Slot>,
    /// F.
    pub class: Option<Classification>,
    /// Reasons, worst first.
    pub findings: Vec<Finding>,
    /// What an admission of this pass found and does not hold against the operation.
    pub warnings: Vec<Finding>,
    /// By bound member.
    pub states: BTreeMap<ServerUuid, MemberState>,
    /// By epoch, what the queue showed of open dispatches.
    pub queues: BTreeMap<u64, QueueView>,
    /// The statement in progress takes longer than it should: who is waited for, and why. It decides nothing.
    pub stuck: Option<Stuck>,
    /// J-1: digest of the evidence of this observation.
    pub evidence: Option<Digest>,
    /// Why nothing was begun, although nothing is wrong.
    pub held: Option<Held>,
    /// B-8 held in this pass, or earlier.
    pub converged: bool,
    /// Phases written in this pass, in order.
    pub passed: Vec<Phase>,
    /// Versions written in this pass, for the receipt.
    pub history: Vec<Look>,
    /// `_version` of the record that `class` and `states` are about.
    pub looked_at: Option<u64>,
    /// By member that answered.
    pub server_versions: BTreeMap<ServerUuid, String>,
    /// When to look again.
    pub requeue: Requeue,
    /// For the next pass.
    pub memory: Memory,
}

impl Report {
    /// Of a pass that read nothing.
    pub fn of_nothing(end: End, findings: Vec<Finding>) -> Self {
        Self {
            end,
            slot: None,
            class: None,
            findings,
            warnings: Vec::new(),
            states: BTreeMap::new(),
            queues: BTreeMap::new(),
            stuck: None,
            evidence: None,
            held: None,
            converged: false,
            passed: Vec::new(),
            history: Vec::new(),
            looked_at: None,
            server_versions: BTreeMap::new(),
            requeue: Requeue::Never,
            memory: Memory::default(),
        }
    }
}
