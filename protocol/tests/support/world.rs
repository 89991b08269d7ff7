//! The world that the protocol acts on: members with tables, one Keeper, one DDL queue, two clocks. It executes
//! what is asked of it and judges: invariants are read here, never from a report.

use super::build::{self, NEW, OLD, TARGET};
use publication_protocol::authority::{Mutation, MutationOutcome, Now};
use publication_protocol::facade::{BINDING_KEY, FacadeBinding, FacadeSeen};
use publication_protocol::identity::RootId;
use publication_protocol::phase::Phase;
use publication_protocol::preflight::{Backlog, EntryState};
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::record::{Record, VersionedRow};
use publication_protocol::sqltext::{Ddl, Statement};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// When an entry is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Execution {
    /// By every member that is up, as soon as it is queued.
    AtOnce,
    /// Only when the test says so.
    Manual,
}

/// What happens at one port call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The answer is lost; the effect did not happen.
    LostBefore,
    /// The answer is lost; the effect happened.
    LostAfter,
    /// The worker dies before the effect.
    CrashBefore,
    /// The worker dies after the effect.
    CrashAfter,
    /// The answer is lost, and the effect comes this much later.
    Delayed(u64),
    /// The worker dies, and the effect comes this much later.
    CrashDelayed(u64),
    /// This member does not answer this read.
    Silent(usize),
    /// A scan shows the queue as it was this long ago.
    Stale(u64),
}

impl Fault {
    pub fn is_crash(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::CrashDelayed(_))
    }

    pub fn is_before(self) -> bool {
        matches!(self, Self::LostBefore | Self::CrashBefore)
    }

    /// The call is answered all the same.
    pub fn is_answered(self) -> bool {
        matches!(self, Self::Silent(_) | Self::Stale(_))
    }
}

/// What a network holds back after its sender gave it up; with the worker that sent it.
#[derive(Debug, Clone)]
pub enum Late {
    Mutation(u32, Mutation),
    Statement(u32, String, Statement),
}

/// What a simulation adds: faults drawn as they come, and a judge of every effect, from outside the protocol.
pub trait Watch: Send {
    /// What goes wrong at this call of a worker.
    fn fault(&mut self, worker: u32, kind: &'static str, members: usize) -> Option<Fault>;
    /// Whether the object with this UID is gone from the API.
    fn gone(&self, uid: &str) -> bool;
    /// Keeper took a row.
    fn row(&mut self, inner: &mut Inner, row: &VersionedRow);
    /// A worker was told that its mutation was acknowledged.
    fn acknowledged(&mut self, worker: u32, mutation: &Mutation);
    /// A permit was redeemed.
    fn sent(&mut self, inner: &mut Inner, token: &str);
    /// A statement became an entry.
    fn queued(&mut self, inner: &mut Inner, token: &str, statement: &Statement);
    /// A member is about to run a statement.
    fn runs(&mut self, inner: &mut Inner, number: u32, token: &str, ddl: &Ddl);
}

pub struct MemberSim {
    pub number: u32,
    pub tables: BTreeMap<String, u64>,
    pub up: bool,
    /// Reads of the slot show this many versions less than there are.
    pub lag: usize,
    /// By action text (`drop`): the code that this member answers instead of executing.
    pub refuses: BTreeMap<&'static str, u32>,
    pub unhealthy: bool,
    pub readonly: bool,
    /// Its own row is local in its own `system.clusters`.
    pub local: bool,
    /// It can read what lies in Keeper.
    pub keeper: bool,
    /// What is not finished there has begun.
    pub begun: bool,
}

impl MemberSim {
    /// Nothing is wrong with it.
    pub fn new(number: u32, tables: BTreeMap<String, u64>) -> Self {
        Self {
            number,
            tables,
            up: true,
            lag: 0,
            refuses: BTreeMap::new(),
            unhealthy: false,
            readonly: false,
            local: true,
            keeper: true,
            begun: false,
        }
    }
}

impl MemberSim {
    fn refusal(&self, token: &str) -> Option<u32> {
        self.refuses.iter().find(|(action, _)| token.contains(&format!(":{action}:"))).map(|(_, code)| *code)
    }
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub name: String,
    pub token: String,
    pub statement: Statement,
    /// Members when it was queued.
    pub hosts: Vec<u32>,
    pub codes: BTreeMap<u32, u32>,
    /// Retention removed it from what a scan shows.
    pub gone: bool,
    /// When it was queued.
    pub queued_ms: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    pub mutations: u32,
    pub sends: u32,
    pub scans: u32,
    pub backlogs: u32,
    pub member_reads: u32,
    pub preflights: u32,
    pub slot_reads: u32,
    pub exact_reads: u32,
    pub witnesses: u32,
    pub owner_reads: u32,
}

pub struct Inner {
    pub members: Vec<MemberSim>,
    /// Every version of the one slot, oldest first; the version is the index.
    pub slot: Vec<VersionedRow>,
    /// The same of the facade's binding row.
    pub binding: Vec<VersionedRow>,
    /// Members whose facade was made anew under another root.
    pub remade: BTreeMap<u32, RootId>,
    /// Nobody has a facade.
    pub no_facade: bool,
    /// J-3: what the members' process lists say.
    pub running: Option<bool>,
    pub queue: Vec<Entry>,
    /// Unfinished entries of others.
    pub foreign: Vec<Backlog>,
    pub now: Now,
    pub tick_ms: u64,
    pub seed: u64,
    pub execution: Execution,
    pub calls: u32,
    pub faults: BTreeMap<u32, Fault>,
    pub counts: Counts,
    /// By UID of the object.
    pub witnesses: BTreeMap<String, (RootId, u64)>,
    pub witness_refused: bool,
    pub owner_gone: Option<bool>,
    /// New entries are not yet visible to a scan.
    pub invisible: bool,
    /// The send path cannot write a byte.
    pub unsendable: bool,
    /// Before each host's name in `system.clusters`.
    pub host_prefix: String,
    /// Kind of each port call, in order.
    pub trace: Vec<&'static str>,
    pub violations: Vec<String>,
    /// Histories of further slots, by key.
    pub others: BTreeMap<String, Vec<VersionedRow>>,
    /// With when it is due.
    pub held: Vec<(u64, Late)>,
    /// Workers that a fault killed.
    pub crashed: BTreeSet<u32>,
    pub watch: Option<Box<dyn Watch>>,
    // Of the call that is being served.
    pub acting: u32,
    pub delaying_ms: Option<u64>,
    pub silent: Option<usize>,
    pub stale_ms: u64,
}

#[derive(Clone)]
pub struct World(Arc<Mutex<Inner>>);

impl World {
    /// N members; the candidate is built, the target is there if `existing`.
    pub fn new(members: u32, existing: bool) -> Self {
        let tables: BTreeMap<String, u64> = [(build::CANDIDATE.to_owned(), NEW)]
            .into_iter()
            .chain(existing.then(|| (TARGET.to_owned(), OLD)))
            .collect();
        let member = |number| MemberSim::new(number, tables.clone());
        Self(Arc::new(Mutex::new(Inner {
            members: (1..=members).map(member).collect(),
            slot: Vec::new(),
            binding: vec![VersionedRow {
                row: FacadeBinding::of(&build::inventory(members)).encode(),
                version: 0,
            }],
            remade: BTreeMap::new(),
            no_facade: false,
            running: Some(false),
            queue: Vec::new(),
            foreign: Vec::new(),
            now: build::now(1_000),
            tick_ms: 1,
            seed: 0,
            execution: Execution::AtOnce,
            calls: 0,
            faults: BTreeMap::new(),
            counts: Counts::default(),
            witnesses: BTreeMap::new(),
            witness_refused: false,
            owner_gone: Some(false),
            invisible: false,
            unsendable: false,
            host_prefix: String::new(),
            trace: Vec::new(),
            violations: Vec::new(),
            others: BTreeMap::new(),
            held: Vec::new(),
            crashed: BTreeSet::new(),
            watch: None,
            acting: 0,
            delaying_ms: None,
            silent: None,
            stale_ms: 0,
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no panic while locked")
    }

    pub fn advance(&self, ms: u64) {
        self.lock().advance(ms);
    }

    /// What was held back and is due by now.
    pub fn arrivals(&self) {
        let mut inner = self.lock();
        while let Some(at) = inner.held.iter().position(|(due, _)| *due <= inner.now.boot_ms) {
            inner.arrive(at);
        }
    }

    pub fn record(&self) -> Option<Record> {
        let inner = self.lock();
        inner.slot.last().map(|row| Record::decode(&row.row).expect("the world holds decodable records"))
    }

    pub fn phase(&self) -> Option<Phase> {
        self.record().map(|record| record.phase)
    }

    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Phases of all versions of the slot.
    pub fn phases(&self) -> Vec<String> {
        self.lock().slot.iter().map(|row| row.row.phase.clone()).collect()
    }

    /// Entries that publish, whatever came of them.
    pub fn publications(&self) -> usize {
        self.lock().queue.iter().filter(|e| e.token.contains(":publish:")).count()
    }

    pub fn entries(&self, action: &str) -> usize {
        self.lock().queue.iter().filter(|e| e.token.contains(&format!(":{action}:"))).count()
    }

    /// What `name` is on each member.
    pub fn at(&self, name: &str) -> Vec<Option<u64>> {
        self.lock().members.iter().map(|m| m.tables.get(name).copied()).collect()
    }

    /// The invariants that hold at any time: no second publication, no drop of anything but a proved predecessor,
    /// no statement without its verified record, and no generation lost that nobody dropped.
    pub fn judge(&self) {
        assert!(self.publications() <= 1, "{} publication entries", self.publications());
        let inner = self.lock();
        assert!(inner.violations.is_empty(), "{:?}", inner.violations);
        for member in &inner.members {
            let held: Vec<u64> = member.tables.values().copied().collect();
            assert_eq!(held.iter().filter(|g| **g == NEW).count(), 1, "h{} lost the new one", member.number);
        }
    }
}

impl Inner {
    pub fn advance(&mut self, ms: u64) {
        self.now.boot_ms += ms;
        self.now.wall_ms += ms;
    }

    /// The history of a row.
    pub fn history(&mut self, key: &str) -> &mut Vec<VersionedRow> {
        match self.others.get_mut(key) {
            _ if key == BINDING_KEY => &mut self.binding,
            Some(rows) => rows,
            None => &mut self.slot,
        }
    }

    /// Asks the judge, if there is one.
    pub fn watched(&mut self, ask: impl FnOnce(&mut dyn Watch, &mut Self)) {
        if let Some(mut watch) = self.watch.take() {
            ask(watch.as_mut(), self);
            self.watch = Some(watch);
        }
    }

    /// The facade as a member shows it.
    pub fn facade(&self, number: u32) -> FacadeSeen {
        let root = self.remade.get(&number).copied().unwrap_or_else(build::root);
        let seen = FacadeSeen::of("publication", root, &build::inventory(1));
        FacadeSeen { binding: self.binding.last().cloned(), ..seen }
    }

    /// Keeper's part of a mutation: conditional, atomic, acknowledged even when nothing matched.
    pub fn apply(&mut self, mutation: &Mutation) -> MutationOutcome {
        let (Mutation::Insert(row) | Mutation::Update { row, .. }) = mutation;
        if let Some(due) = self.delaying_ms {
            self.held.push((due, Late::Mutation(self.acting, mutation.clone())));
            return MutationOutcome::Unknown;
        }
        let before = self.history(&row.target_key).len();
        let outcome = self.swap(mutation);
        let taken = self.history(&row.target_key).get(before).cloned();
        if let Some(taken) = taken {
            self.watched(|watch, inner| watch.row(inner, &taken));
        }
        outcome
    }

    fn swap(&mut self, mutation: &Mutation) -> MutationOutcome {
        let (Mutation::Insert(row) | Mutation::Update { row, .. }) = mutation;
        let rows = self.history(&row.target_key);
        let latest = rows.last();
        match mutation {
            Mutation::Insert(row) if latest.is_none() => {
                rows.push(VersionedRow { row: row.clone(), version: 0 });
                MutationOutcome::Acknowledged
            }
            Mutation::Insert(_) => MutationOutcome::Conflict,
            Mutation::Update { row, expected } => {
                let matches = latest.is_some_and(|now| {
                    now.version == expected.version
                        && now.row.target_key == row.target_key
                        && now.row.operation_id == expected.operation_id
                        && now.row.fence_token == expected.fence_token
                        && now.row.phase == expected.phase
                });
                if matches {
                    let version = rows.len() as u64;
                    rows.push(VersionedRow { row: row.clone(), version });
                }
                MutationOutcome::Acknowledged
            }
        }
    }

    /// Queues a statement, after judging whether it may exist at all.
    pub fn enqueue(&mut self, token: &str, statement: &Statement) {
        if let Some(due) = self.delaying_ms {
            self.held.push((due, Late::Statement(self.acting, token.to_owned(), statement.clone())));
            return;
        }
        if self.watch.is_some() {
            self.watched(|watch, inner| watch.queued(inner, token, statement));
        } else {
            self.judge_entry(token, statement);
        }
        self.push_entry(token, statement);
        if self.execution == Execution::AtOnce {
            self.execute_all();
        }
    }

    /// What was held back arrives.
    pub fn arrive(&mut self, at: usize) {
        let (_, late) = self.held.remove(at);
        match late {
            Late::Mutation(worker, mutation) => {
                self.acting = worker;
                self.apply(&mutation);
            }
            Late::Statement(worker, token, statement) => {
                self.acting = worker;
                self.enqueue(&token, &statement);
            }
        }
    }

    fn judge_entry(&mut self, token: &str, statement: &Statement) {
        let authorised = self.slot.iter().any(|row| {
            let record = Record::decode(&row.row).expect("decodable");
            record.last_dispatch().is_some_and(|d| {
                d.token.as_str() == token && record.statement(d) == *statement && d.receipt.is_none()
            }) && row.row.phase.ends_with("DISPATCHING")
        });
        if !authorised {
            self.violations.push(format!("{statement:?} was sent without a record of its dispatch"));
        }
        if let Ddl::DropIfExists { table } = &statement.ddl {
            let unproved = self.members.iter().any(|m| m.tables.get(TARGET) != Some(&NEW));
            if unproved || !table.table.contains("__retired_") {
                self.violations
                    .push(format!("drop of {} while not everybody serves the new one", table.table));
            }
        }
    }

    /// A new entry, whoever sent it.
    pub fn push_entry(&mut self, token: &str, statement: &Statement) {
        self.queue.push(Entry {
            name: build::entry_name(self.queue.len() as u64 + 1),
            token: token.to_owned(),
            statement: statement.clone(),
            hosts: self.members.iter().map(|m| m.number).collect(),
            codes: BTreeMap::new(),
            gone: self.invisible,
            queued_ms: self.now.boot_ms,
        });
    }

    /// Every member that is up works through the queue, in order.
    pub fn execute_all(&mut self) {
        let up: Vec<u32> = self.members.iter().filter(|m| m.up).map(|m| m.number).collect();
        for number in up {
            for at in 0..self.queue.len() {
                self.execute(at, number);
            }
        }
    }

    /// One member executes one entry, once.
    pub fn execute(&mut self, entry: usize, number: u32) {
        let queued = &self.queue[entry];
        if queued.codes.contains_key(&number) || !queued.hosts.contains(&number) {
            return;
        }
        let code = self.run(entry, number);
        self.queue[entry].codes.insert(number, code);
    }

    /// The effect alone: what a server does that is killed before it marks the entry finished.
    pub fn run(&mut self, entry: usize, number: u32) -> u32 {
        let (statement, token) = (self.queue[entry].statement.clone(), self.queue[entry].token.clone());
        if self.watch.is_some() {
            return self.run_watched(&token, &statement, number);
        }
        let serving: BTreeSet<bool> =
            self.members.iter().map(|m| m.tables.get(TARGET) == Some(&NEW)).collect();
        let member = self.members.iter_mut().find(|m| m.number == number).expect("a member");
        if let Some(code) = member.refusal(&token) {
            return code;
        }
        let (code, dropped) = execute_on(&mut member.tables, &statement.ddl);
        if let Some(generation) = dropped
            && (generation != OLD || serving.contains(&false))
        {
            self.violations.push(format!("h{number} dropped generation {generation}, serving: {serving:?}"));
        }
        code
    }

    /// What a diagnosis reads: rows of every entry that is not finished.
    pub fn unfinished(&self) -> Vec<Backlog> {
        let open = |entry: &Entry, number: &u32| !entry.codes.contains_key(number) && !entry.gone;
        let row = |entry: &Entry, number: u32| {
            let begun = self.members.iter().any(|m| m.number == number && m.begun);
            Backlog {
                entry: entry.name.clone(),
                host: format!("h{number}"),
                port: 9000,
                state: if begun { EntryState::Active } else { EntryState::Inactive },
                age_s: 20,
            }
        };
        let own = self.queue.iter().flat_map(|entry| {
            entry.hosts.iter().filter(|number| open(entry, number)).map(|number| row(entry, *number))
        });
        own.chain(self.foreign.iter().cloned()).collect()
    }

    fn run_watched(&mut self, token: &str, statement: &Statement, number: u32) -> u32 {
        let at = self.members.iter().position(|m| m.number == number).expect("a member");
        if let Some(code) = self.members[at].refusal(token) {
            return code;
        }
        self.watched(|watch, inner| watch.runs(inner, number, token, &statement.ddl));
        execute_on(&mut self.members[at].tables, &statement.ddl).0
    }

    pub fn rows(&self, tokens: &[&str]) -> Vec<QueueRow> {
        let visible = |e: &&Entry| !e.gone && e.queued_ms + self.stale_ms <= self.now.boot_ms;
        let entries = self.queue.iter().filter(visible).filter(|e| tokens.contains(&e.token.as_str()));
        entries
            .flat_map(|entry| {
                entry.hosts.iter().map(|number| {
                    let code = entry.codes.get(number).copied();
                    QueueRow {
                        entry: entry.name.clone(),
                        token: entry.token.clone(),
                        cluster: entry.statement.cluster.clone(),
                        query: build::render(&entry.statement),
                        host: Some(format!("h{number}")),
                        port: Some(9000),
                        status: Some(if code.is_some() { "Finished" } else { "Inactive" }.into()),
                        exception_code: code.map(i64::from),
                        exception_text: match code {
                            None => ExceptionText::Null,
                            Some(0) => ExceptionText::Empty,
                            Some(_) => ExceptionText::Some,
                        },
                    }
                })
            })
            .collect()
    }
}

/// Code (60 no table, 57 exists, 0 done) and the generation that a drop removed.
fn execute_on(tables: &mut BTreeMap<String, u64>, ddl: &Ddl) -> (u32, Option<u64>) {
    match ddl {
        Ddl::Exchange { target, candidate } => {
            match (tables.get(&target.table).copied(), tables.get(&candidate.table).copied()) {
                (Some(a), Some(b)) => {
                    tables.insert(target.table.clone(), b);
                    tables.insert(candidate.table.clone(), a);
                    (0, None)
                }
                _ => (60, None),
            }
        }
        Ddl::Rename { to, .. } if tables.contains_key(&to.table) => (57, None),
        Ddl::Rename { from, to } => match tables.remove(&from.table) {
            Some(generation) => {
                tables.insert(to.table.clone(), generation);
                (0, None)
            }
            None => (60, None),
        },
        Ddl::DropIfExists { table } => (0, tables.remove(&table.table)),
        Ddl::CreateIfNotExists { .. } => (0, None),
    }
}
