//! The scheduler: what may happen next is listed, the seed picks; where nothing may, time goes on to what is next.

use crate::sim::hands::{Object, Stage};
use crate::sim::judge::{Ghost, Judge};
use crate::sim::mix::{Mix, chance};
use crate::sim::people::Person;
use crate::support::world::{Execution, World};
use publication_protocol::sqltext::Ddl;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// What a run did and reached.
#[derive(Debug, Default)]
pub struct Stats {
    pub reached: BTreeMap<String, u64>,
    pub faults: u64,
    pub calls: u64,
    pub operations: u64,
    pub publications: u64,
}

pub struct Simulation {
    pub world: World,
    pub judge: Judge,
    pub rng: ChaCha8Rng,
    pub targets: Vec<String>,
    pub objects: Vec<Object>,
    pub people: Vec<Person>,
    /// By member: its next entry, and when it is ready for it.
    pub queues: Vec<(usize, u64)>,
    pub chaos: bool,
    pub planned: usize,
    pub workers: u32,
    pub generations: u64,
    pub stats: Stats,
    pub log: Option<Vec<String>>,
}

#[derive(Clone, Copy)]
enum Act {
    Turn(usize, usize),
    Run(usize),
    Arrive(usize),
    Person(usize),
}

impl Simulation {
    pub fn new(seed: u64, logs: bool) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let judge = Judge::new(ChaCha8Rng::seed_from_u64(rng.random()), Mix::draw(&mut rng));
        let members = if chance(&mut rng, 250) { 3 } else { 2 };
        let world = World::new(members, false);
        {
            let mut inner = world.lock();
            inner.watch = Some(Box::new(judge.clone()));
            inner.execution = Execution::Manual;
            inner.seed = seed.wrapping_mul(1 << 20);
            inner.members.iter_mut().for_each(|m| m.tables.clear());
        }
        let targets: Vec<String> = (0..rng.random_range(1..=2)).map(|n| format!("t{n}")).collect();
        let planned = targets.len() * rng.random_range(2..=3);
        let mut simulation = Self {
            world,
            judge,
            rng,
            people: targets.iter().map(|_| Person::new()).collect(),
            targets,
            objects: Vec::new(),
            queues: vec![(0, 0); members as usize],
            chaos: true,
            planned,
            workers: 0,
            generations: 0,
            stats: Stats::default(),
            log: logs.then(Vec::new),
        };
        simulation.found();
        simulation
    }

    /// Runs a seed: through the faults, to rest, and out of every fail-closed state by verdict.
    pub fn run(mut self) -> Result<Stats, (String, Vec<String>)> {
        const CHAOS_STEPS_MAX: u32 = 2_500;
        let result = (|| {
            for _ in 0..CHAOS_STEPS_MAX {
                if self.objects.len() >= self.planned && self.is_over() {
                    break;
                }
                if self.chaos_strikes() {
                    self.event();
                }
                self.step()?;
            }
            self.settle()?;
            self.resolve()
        })();
        let log = self.log.take().unwrap_or_default();
        result.map_err(|violation| (violation, log))?;
        self.stats.faults = self.judged(|ghost| u64::from(ghost.struck));
        self.stats.calls = self.world.lock().calls.into();
        self.stats.operations = self.objects.len() as u64;
        for (phase, times) in self.judged(|ghost| std::mem::take(&mut ghost.phases)) {
            *self.stats.reached.entry(format!("phase {phase}")).or_default() += times;
        }
        self.stats.publications = self.world.publications() as u64;
        Ok(self.stats)
    }

    fn is_over(&self) -> bool {
        self.objects.iter().flat_map(|o| &o.hands).all(|h| matches!(h.stage, Stage::Done))
    }

    fn chaos_strikes(&mut self) -> bool {
        let rate = self.judged(|ghost| ghost.mix.events);
        chance(&mut self.rng, rate)
    }

    pub fn now(&self) -> u64 {
        self.world.lock().now.boot_ms
    }

    pub fn judged<T>(&self, ask: impl FnOnce(&mut Ghost) -> T) -> T {
        ask(&mut self.judge.lock())
    }

    pub fn note(&mut self, what: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(log) = &mut self.log {
            log.push(format!("{now:>9} {}", what()));
        }
    }

    /// One thing happens.
    pub fn step(&mut self) -> Result<(), String> {
        let now = self.now();
        let (mut due, mut next) = (Vec::new(), u64::MAX);
        let mut offer = |at: u64, act: Act| {
            if at <= now {
                due.push(act);
            } else {
                next = next.min(at);
            }
        };
        for (o, object) in self.objects.iter().enumerate() {
            for (h, hand) in object.hands.iter().enumerate() {
                if let Some(at) = hand.due() {
                    offer(at, Act::Turn(o, h));
                }
            }
        }
        {
            let inner = self.world.lock();
            for (m, (entry, ready)) in self.queues.iter().enumerate() {
                if inner.members[m].up && *entry < inner.queue.len() {
                    offer(*ready, Act::Run(m));
                }
            }
            for (at, (due, _)) in inner.held.iter().enumerate() {
                offer(*due, Act::Arrive(at));
            }
        }
        for (p, person) in self.people.iter().enumerate() {
            if let Some(at) = person.due() {
                offer(at, Act::Person(p));
            }
        }
        if due.is_empty() {
            // Nothing may happen by itself any more: only what comes from outside.
            let wait = if next == u64::MAX { 1_000 } else { next - now };
            self.world.advance(wait);
            if self.chaos && wait > 1_000 {
                self.recover();
            }
            return Ok(());
        }
        let act = due[self.rng.random_range(0..due.len())];
        match act {
            Act::Turn(object, hand) => self.turn(object, hand),
            Act::Run(member) => self.execute(member),
            Act::Arrive(at) => {
                self.note(|| "what was held back arrives".into());
                self.world.lock().arrive(at);
            }
            Act::Person(person) => self.person(person),
        }
        match self.world.lock().violations.first() {
            Some(violation) => Err(violation.clone()),
            None => Ok(()),
        }
    }

    /// A member runs its next entry, once, twice, or for nothing.
    fn execute(&mut self, member: usize) {
        let now = self.now();
        let (slow, twice, undone) = self.judged(|g| {
            let (rng, mix) = (&mut g.rng, &g.mix);
            let struck = g.faults;
            (
                struck && chance(rng, mix.slow),
                struck && chance(rng, mix.twice),
                struck && chance(rng, mix.undone),
            )
        });
        let at = self.queues[member].0;
        let mut inner = self.world.lock();
        let number = inner.members[member].number;
        if inner.queue[at].gone {
            self.queues[member].0 += 1;
            return;
        }
        if slow && self.queues[member].1 + 1_000 < now {
            self.queues[member].1 = now + self.rng.random_range(1_000..90_000);
            return;
        }
        let target = target_of(&inner.queue[at].statement.ddl);
        if twice {
            inner.run(at, number);
            inner.members[member].up = false;
        } else {
            inner.execute(at, number);
            self.queues[member] = (at + 1, now + self.rng.random_range(0..300));
            if undone && inner.queue[at].codes.get(&number) == Some(&0) {
                let ddl = inner.queue[at].statement.ddl.clone();
                undo(&mut inner.members[member].tables, &ddl);
            }
        }
        drop(inner);
        if twice || undone {
            self.judged(|ghost| ghost.residue.insert(target));
        }
        self.note(|| format!("h{number} runs entry {at}{}", if twice { " and dies" } else { "" }));
    }
}

/// Which target a statement is about: names tell.
fn target_of(ddl: &Ddl) -> String {
    let name = match ddl {
        Ddl::Exchange { target, .. } => &target.table,
        Ddl::Rename { from, .. } => &from.table,
        Ddl::DropIfExists { table } | Ddl::CreateIfNotExists { table } => &table.table,
    };
    name.split("__").next().unwrap_or_default().to_owned()
}

/// A power loss takes back what a server had acknowledged; a dropped table does not come back here.
fn undo(tables: &mut BTreeMap<String, u64>, ddl: &Ddl) {
    match ddl {
        Ddl::Exchange { target, candidate } => {
            if let (Some(a), Some(b)) =
                (tables.get(&target.table).copied(), tables.get(&candidate.table).copied())
            {
                tables.insert(target.table.clone(), b);
                tables.insert(candidate.table.clone(), a);
            }
        }
        Ddl::Rename { from, to } if !tables.contains_key(&from.table) => {
            if let Some(moved) = tables.remove(&to.table) {
                tables.insert(from.table.clone(), moved);
            }
        }
        _ => {}
    }
}

impl Stats {
    pub fn add(&mut self, other: Self) {
        for (what, times) in other.reached {
            *self.reached.entry(what).or_default() += times;
        }
        self.faults += other.faults;
        self.calls += other.calls;
        self.operations += other.operations;
        self.publications += other.publications;
    }
}
