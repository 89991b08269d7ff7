//! A person with verdicts (J), as docs/recovery.md says: names made private ON CLUSTER, members finished or reverted
//! under private names, then the verdict; through the same ports, with the same faults.

use crate::sim::chaos::DEADLINES;
use crate::sim::run::Simulation;
use crate::support::build::root;
use crate::support::ports::Worker;
use futures::task::noop_waker;
use publication_protocol::adjudicate::{Outcome, Ports, SlotName, look, pass};
use publication_protocol::canonical::Digest;
use publication_protocol::driver::{Memory, Requeue};
use publication_protocol::phase::Phase;
use publication_protocol::record::Record;
use publication_protocol::sqltext::{Ddl, Statement, TableName};
use publication_protocol::verdict::{Decision, Verdict};
use rand::Rng;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

struct Served {
    verdict: Option<Verdict>,
    outcome: Option<Outcome>,
    memory: Memory,
}

enum Doing {
    Nothing,
    /// Until these entries are through.
    Renaming(std::ops::Range<usize>),
    Serving(Pin<Box<dyn Future<Output = Served>>>),
}

pub struct Person {
    doing: Doing,
    wake: Option<u64>,
    worker: u32,
    wanted: Option<(Digest, Decision)>,
    verdict: Option<Verdict>,
    memory: Memory,
    /// Makes names private and verdicts distinct.
    serial: u32,
}

impl Person {
    pub fn new() -> Self {
        Self {
            doing: Doing::Nothing,
            wake: None,
            worker: 0,
            wanted: None,
            verdict: None,
            memory: Memory::default(),
            serial: 0,
        }
    }

    pub fn due(&self) -> Option<u64> {
        self.wake
    }

    pub fn call(&mut self, now: u64) {
        self.wake = self.wake.or(Some(now));
    }

    /// Leaves everything as it stands.
    pub fn leave(&mut self) {
        *self = Self { serial: self.serial, ..Self::new() };
    }
}

fn table(name: &str) -> TableName {
    TableName { database: "db".into(), table: name.into() }
}

async fn serve(
    worker: Worker,
    name: SlotName,
    mut memory: Memory,
    wanted: (Digest, Decision),
    verdict: Option<Verdict>,
    uid: String,
) -> Served {
    let w = &worker;
    let ports = Ports { control: w, catalog: w, ddl: w, processes: w, environment: w };
    let verdict = match verdict {
        Some(verdict) => verdict,
        None => match look(&name, DEADLINES, &mut memory, &ports).await {
            Ok(Some(afresh)) => {
                let (operation, decision) = wanted;
                Verdict { uid, operation, decision, evidence: afresh.digest() }
            }
            _ => return Served { verdict: None, outcome: None, memory },
        },
    };
    let outcome = pass(&name, &verdict, DEADLINES, &mut memory, &ports).await;
    Served { verdict: Some(verdict), outcome: Some(outcome), memory }
}

impl Simulation {
    pub fn person(&mut self, at: usize) {
        let now = self.now();
        match std::mem::replace(&mut self.people[at].doing, Doing::Nothing) {
            Doing::Nothing if self.people[at].verdict.is_some() => self.serve_verdict(at),
            Doing::Nothing => self.consider(at),
            Doing::Renaming(entries) => {
                let through = {
                    let inner = self.world.lock();
                    let everywhere =
                        |e: &crate::support::world::Entry| e.gone || e.codes.len() == e.hosts.len();
                    inner.queue[entries.clone()].iter().all(everywhere) && inner.members.iter().all(|m| m.up)
                };
                if through {
                    self.decide(at);
                } else {
                    self.people[at].doing = Doing::Renaming(entries);
                    self.people[at].wake = Some(now + 5_000);
                }
            }
            Doing::Serving(mut future) => {
                let polled = future.as_mut().poll(&mut Context::from_waker(&noop_waker()));
                let crashed = self.world.lock().crashed.remove(&self.people[at].worker);
                match polled {
                    Poll::Ready(served) => self.served(at, served),
                    // The operator that served it is started again: it knows the verdict, and nothing else.
                    Poll::Pending if crashed => {
                        self.people[at].memory = Memory::default();
                        self.people[at].wake = Some(now + 1_000);
                    }
                    Poll::Pending => self.people[at].doing = Doing::Serving(future),
                }
            }
        }
    }

    fn slot_of(&self, at: usize) -> Option<Record> {
        let key = self.key(at);
        self.judged(|ghost| ghost.last.get(&key).cloned())
    }

    /// What the slot needs of a person, if anything.
    fn consider(&mut self, at: usize) {
        self.people[at].wake = None;
        let Some(record) = self.slot_of(at) else { return };
        let fence = record.fences().first().map(|f| f.name.clone());
        match (record.phase.is_final(), fence) {
            (true, Some(name)) => self.want(at, record.operation, Decision::NameCleared(name)),
            (true, None) => {}
            (false, _) if !self.is_stuck(at) => {}
            (false, _) if record.phase == Phase::Prepared || self.rng.random_bool(0.25) => {
                self.want(at, record.operation, Decision::NotApplied);
            }
            (false, _) => self.make_private(at, &record),
        }
    }

    fn make_private(&mut self, at: usize, record: &Record) {
        let names = record.all_names();
        let mut inner = self.world.lock();
        let first = inner.queue.len();
        for name in names.iter().filter(|n| **n != record.payload.names.target) {
            if inner.members.iter().any(|m| m.tables.contains_key(name)) {
                let person = &mut self.people[at];
                person.serial += 1;
                let to = format!("mine{at}_{}", person.serial);
                let ddl = Ddl::Rename { from: table(name), to: table(&to) };
                inner.push_entry("a person", &Statement { ddl, cluster: "c".into() });
            }
        }
        self.people[at].doing = Doing::Renaming(first..inner.queue.len());
        self.people[at].wake = Some(inner.now.boot_ms);
    }

    /// All names are private: finishes or reverts members, and says which it was.
    fn decide(&mut self, at: usize) {
        let Some(record) = self.slot_of(at).filter(|r| !r.phase.is_final()) else {
            return self.people[at].leave();
        };
        let Some(operation) = self.judged(|ghost| ghost.operations.get(&record.operation).cloned()) else {
            return;
        };
        let (new, old) = (operation.desired, operation.predecessor);
        let coin = self.rng.random_bool(0.5);
        let decision = {
            let mut inner = self.world.lock();
            let target = operation.target.as_str();
            let all_new = inner.members.iter().all(|m| m.tables.get(target) == Some(&new));
            let revertible =
                inner.members.iter().all(|m| old.is_none_or(|old| m.tables.values().any(|g| *g == old)));
            let finish = all_new || !revertible || coin;
            let serial = &mut self.people[at].serial;
            for member in &mut inner.members {
                let wanted = if finish { Some(new) } else { old };
                if member.tables.get(target).copied() == wanted {
                    continue;
                }
                if let Some(other) = member.tables.remove(target) {
                    *serial += 1;
                    member.tables.insert(format!("mine{at}_{serial}"), other);
                }
                let name = member.tables.iter().find(|(_, g)| Some(**g) == wanted).map(|(n, _)| n.clone());
                if let (Some(name), Some(wanted)) = (name, wanted) {
                    member.tables.remove(&name);
                    member.tables.insert(target.to_owned(), wanted);
                }
            }
            if finish { Decision::Committed } else { Decision::NotApplied }
        };
        self.want(at, record.operation, decision);
    }

    fn want(&mut self, at: usize, operation: Digest, decision: Decision) {
        self.note(|| format!("a person decides {decision:?}"));
        self.people[at].wanted = Some((operation, decision));
        self.people[at].memory = Memory::default();
        self.serve_verdict(at);
    }

    fn serve_verdict(&mut self, at: usize) {
        self.workers += 1;
        let worker = Worker::simulated(&self.world, self.workers);
        let name = SlotName {
            root: root(),
            cluster: "c".into(),
            database: "db".into(),
            target: self.targets[at].clone(),
            declared_internal_replication: false,
        };
        let now = self.now();
        let person = &mut self.people[at];
        let Some(wanted) = person.wanted.clone() else { return person.leave() };
        person.worker = self.workers;
        person.serial += 1;
        let uid = format!("verdict-{at}-{}", person.serial);
        let memory = person.memory.clone();
        person.doing =
            Doing::Serving(Box::pin(serve(worker, name, memory, wanted, person.verdict.clone(), uid)));
        person.wake = Some(now);
    }

    fn served(&mut self, at: usize, served: Served) {
        let now = self.now();
        self.note(|| format!("verdict on target {at}: {:?}", served.outcome));
        let person = &mut self.people[at];
        person.memory = served.memory;
        match served.outcome {
            Some(Outcome::Waiting(_, Requeue::AfterMs(ms))) => {
                person.verdict = served.verdict;
                person.wake = Some(now + ms);
            }
            Some(Outcome::Halted) => {
                self.world.lock().violations.push("C-4: a verdict halted".into());
            }
            Some(Outcome::Applied(_)) => {
                let decision = served.verdict.map(|v| v.decision.as_str()).unwrap_or_default();
                *self.stats.reached.entry(format!("verdict {decision}")).or_default() += 1;
                person.leave();
                // Another look: its fences, perhaps. Those who wait for the slot are told.
                person.wake = Some(now + 1);
                self.wake(at);
            }
            _ => {
                person.leave();
                person.wake = Some(now + 10_000);
            }
        }
    }

    /// Who works on this target looks again.
    pub fn wake(&mut self, target: usize) {
        use crate::sim::hands::Stage;
        for object in self.objects.iter_mut().filter(|o| o.target == target) {
            for hand in &mut object.hands {
                if let Stage::Asleep(at) = &mut hand.stage {
                    *at = 0;
                }
            }
        }
    }
}
