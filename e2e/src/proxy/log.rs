//! What went through a proxy: the tests' proof of one call for each mutation and dispatch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::rules::Fault;
use super::statement::{Statement, StatementKind};

/// How far a request came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    InFlight,
    Answered {
        status: u16,
        bytes: usize,
    },
    /// Upstream answered with this, the client got nothing (or not all of it).
    Withheld {
        status: u16,
    },
    NotForwarded,
    UpstreamFailed(String),
}

#[derive(Debug, Clone)]
pub struct Record {
    /// Order of arrival over all proxies.
    pub sequence: u64,
    pub member: usize,
    /// Number of the client's TCP connection at this proxy, from 1.
    pub connection: u64,
    pub statement: Statement,
    pub request_bytes: usize,
    /// How often it was sent on.
    pub forwarded: usize,
    pub fault: Option<Fault>,
    pub outcome: Outcome,
}

#[derive(Debug, Default, Clone)]
pub struct Log {
    records: Arc<Mutex<Vec<Record>>>,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, record: Record) -> Entry {
        let mut records = self.lock();
        records.push(record);
        Entry { log: self.clone(), at: records.len() - 1 }
    }

    pub fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// Requests by query_id and kind.
    pub fn counts(&self) -> BTreeMap<(String, StatementKind), usize> {
        let mut counts = BTreeMap::new();
        for record in self.lock().iter() {
            let id = record.statement.query_id.clone().unwrap_or_default();
            *counts.entry((id, record.statement.kind)).or_default() += 1;
        }
        counts
    }
}

/// One line of the log that is still being written.
#[derive(Debug)]
pub(super) struct Entry {
    log: Log,
    at: usize,
}

impl Entry {
    pub(super) fn forwarded(&self) {
        if let Some(record) = self.log.lock().get_mut(self.at) {
            record.forwarded += 1;
        }
    }

    pub(super) fn outcome(&self, outcome: Outcome) {
        if let Some(record) = self.log.lock().get_mut(self.at) {
            record.outcome = outcome;
        }
    }
}
