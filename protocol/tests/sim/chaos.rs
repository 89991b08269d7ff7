//! What comes from outside while the operator works: authors, members, Keeper, the platform, people at a member.

use crate::sim::hands::{Hand, Object, Stage};
use crate::sim::judge::Operation;
use crate::sim::mix::pick;
use crate::sim::run::Simulation;
use crate::support::build::{intent_of, root};
use crate::support::run::Receipts;
use crate::support::world::Late;
use publication_protocol::identity::{Names, target_key};
use publication_protocol::intent::Intent;
use publication_protocol::limits::Deadlines;
use publication_protocol::phase::Phase;
use publication_protocol::sqltext::Ddl;
use rand::Rng;

/// Short, so that waits cost few passes: the visibility wait is 46 s.
pub const DEADLINES: Deadlines = Deadlines { statement_timeout_ms: 1_000 };
/// A generation's number must stay below what the builders take for a reprint.
const GENERATIONS_MAX: u64 = 90;

impl Simulation {
    pub fn key(&self, target: usize) -> String {
        target_key(root(), "c", "db", &self.targets[target]).to_string()
    }

    /// The cluster before the first publication; some targets do not exist yet.
    pub fn found(&mut self) {
        for at in 0..self.targets.len() {
            let key = self.key(at);
            self.world.lock().others.insert(key, Vec::new());
            if self.rng.random_bool(0.8) {
                self.build(&self.targets[at].clone());
            }
            self.publish(at);
        }
    }

    /// A new generation on every member.
    fn build(&mut self, name: &str) -> u64 {
        self.generations += 1;
        for member in &mut self.world.lock().members {
            member.tables.insert(name.to_owned(), self.generations);
        }
        self.generations
    }

    /// An author asks for a publication: of a table that is there already, or of one that is built for it. Names are
    /// drawn from three, so they come again; a fenced one is not built under (K).
    fn publish(&mut self, target: usize) {
        let name = &self.targets[target];
        let candidate = format!("{name}__pub_{}", pick(&mut self.rng, &["a", "b", "c"]));
        let found: Vec<Option<u64>> =
            self.world.lock().members.iter().map(|m| m.tables.get(&candidate).copied()).collect();
        let key = self.key(target);
        let fenced = self.judged(|ghost| {
            ghost.last.get(&key).is_some_and(|r| r.fences().iter().any(|f| f.name == candidate))
        });
        let fenced = fenced || self.is_held_back(&candidate);
        let desired = match found[0] {
            Some(there) if found.iter().all(|f| *f == Some(there)) => there,
            None if found.iter().all(Option::is_none) && !fenced && self.generations < GENERATIONS_MAX => {
                self.build(&candidate)
            }
            _ => return,
        };
        let names = Names::new("c", "db", &self.targets[target], &candidate).expect("good names");
        let number = self.objects.len() as u64;
        let mut intent = Intent { deadlines: DEADLINES, ..intent_of(&format!("uid-{number}"), names) };
        intent.owner.created_ms = 1_000 + number;
        let operation = Operation {
            target: self.targets[target].clone(),
            desired,
            predecessor: None,
            publications: 0,
            receipted: false,
            completed: false,
            closed: false,
        };
        self.judged(|ghost| ghost.operations.insert(intent.operation, operation));
        let hands = (0..self.rng.random_range(1..=2)).map(|_| Hand::new()).collect();
        self.note(|| format!("object {number} asks for {candidate}, generation {desired}"));
        self.objects.push(Object { target, intent, shown: None, receipts: Receipts::default(), hands });
    }

    /// A statement about this name is still in some network (K: then nobody rebuilds it by hand).
    fn is_held_back(&self, candidate: &str) -> bool {
        let about = |ddl: &Ddl| match ddl {
            Ddl::Exchange { candidate: name, .. } | Ddl::Rename { from: name, .. } => name.table == candidate,
            Ddl::DropIfExists { .. } | Ddl::CreateIfNotExists { .. } => false,
        };
        let held = &self.world.lock().held;
        held.iter().any(|(_, late)| matches!(late, Late::Statement(_, _, s) if about(&s.ddl)))
    }

    fn live(&self, target: usize) -> usize {
        (0..self.objects.len())
            .filter(|o| self.objects[*o].target == target && !self.is_gone(*o))
            .filter(|o| self.objects[*o].hands.iter().any(|h| !matches!(h.stage, Stage::Done)))
            .count()
    }

    pub fn event(&mut self) {
        let target = self.rng.random_range(0..self.targets.len());
        if self.objects.len() < self.planned && self.live(target) < 2 && self.rng.random_bool(0.4) {
            return self.publish(target);
        }
        let object = self.rng.random_range(0..self.objects.len());
        let member = self.rng.random_range(0..self.queues.len());
        let roll = self.rng.random_range(0..14);
        self.note(|| format!("event {roll} target {target} object {object} member {member}"));
        match roll {
            0 => self.ask_to_delete(object),
            1 if self.rng.random_bool(0.3) => self.remove(object),
            2 => self.objects[object].intent.suspended ^= true,
            3 if self.rng.random_bool(0.2) => self.objects[object].intent.deadline_passed = true,
            4 => {
                let hand = self.rng.random_range(0..self.objects[object].hands.len());
                self.objects[object].hands[hand].stopping.set(true);
            }
            5..=8 => self.member(member, roll),
            9 => self.retention(),
            10 => self.by_hand(target),
            11..=13 => self.people[target].call(self.world.lock().now.boot_ms),
            _ => {}
        }
    }

    /// Nothing goes on but time: what was down comes back, mostly.
    pub fn recover(&mut self) {
        for member in &mut self.world.lock().members {
            if self.rng.random_bool(0.3) {
                (member.up, member.lag) = (true, 0);
            }
            if self.rng.random_bool(0.1) {
                member.refuses.clear();
                member.unhealthy = false;
            }
        }
    }

    fn ask_to_delete(&mut self, object: usize) {
        self.objects[object].intent.deleted = true;
        if self.objects[object].hands.iter().all(|h| matches!(h.stage, Stage::Done)) {
            self.remove(object);
        }
    }

    fn member(&mut self, member: usize, roll: u32) {
        let code = pick(&mut self.rng, &[60, 159, 341]);
        let action = pick(&mut self.rng, &["publish", "retire", "drop"]);
        let lag = self.rng.random_range(0..3);
        let member = &mut self.world.lock().members[member];
        match roll {
            // Up more often than down.
            5 => member.up = false,
            6 => {
                member.up = true;
                member.refuses.clear();
                member.unhealthy = false;
            }
            7 => member.lag = lag,
            _ if lag == 0 => member.unhealthy ^= true,
            _ => {
                member.refuses.insert(action, code);
            }
        }
    }

    /// An entry is removed from the queue, whoever has run it.
    fn retention(&mut self) {
        let mut inner = self.world.lock();
        let entries = inner.queue.len();
        if entries > 0 {
            let at = self.rng.random_range(0..entries);
            inner.queue[at].gone = true;
        }
    }

    /// F-2: an entry that is terminal everywhere left members mixed; a person finishes or reverts them under the own
    /// names, all at once.
    fn by_hand(&mut self, target: usize) {
        let key = self.key(target);
        let finish = self.rng.random_bool(0.6);
        let Some(record) = self.judged(|ghost| ghost.last.get(&key).cloned()) else { return };
        let Some(operation) = self.judged(|ghost| ghost.operations.get(&record.operation).cloned()) else {
            return;
        };
        let (Some(dispatch), Some(old), true) =
            (record.last_dispatch(), operation.predecessor, record.phase.is_dispatched())
        else {
            return;
        };
        let mut inner = self.world.lock();
        let terminal = inner.queue.iter().any(|entry| {
            entry.token == dispatch.token.as_str() && entry.codes.len() == entry.hosts.len() && !entry.gone
        });
        let names = &record.payload.names;
        let pair = |tables: &std::collections::BTreeMap<String, u64>| {
            (tables.get(&names.target).copied(), tables.get(&names.candidate).copied())
        };
        let (pending, committed) =
            ((Some(old), Some(operation.desired)), (Some(operation.desired), Some(old)));
        let states: Vec<_> = inner.members.iter().map(|m| pair(&m.tables)).collect();
        let mixed = states.contains(&pending) && states.contains(&committed);
        if !(terminal && mixed && inner.members.iter().all(|m| m.up)) {
            return;
        }
        *self.stats.reached.entry("by hand".into()).or_default() += 1;
        for member in &mut inner.members {
            if pair(&member.tables) == if finish { pending } else { committed } {
                let (a, b) = if finish { (operation.desired, old) } else { (old, operation.desired) };
                member.tables.insert(names.target.clone(), a);
                member.tables.insert(names.candidate.clone(), b);
            }
        }
    }

    /// Some worker of this target's slot reports that nothing goes on by itself, or nobody is left to report: its
    /// object is gone, or failed on a stale read that did not show its slot.
    pub fn is_stuck(&self, target: usize) -> bool {
        use publication_protocol::driver::End;
        let key = self.key(target);
        let Some(record) = self.judged(|ghost| ghost.last.get(&key).cloned()) else { return false };
        if record.phase.is_final() || (record.phase == Phase::Prepared && self.chaos) {
            return false;
        }
        let holder = (0..self.objects.len()).find(|o| self.objects[*o].intent.operation == record.operation);
        holder.is_some_and(|o| {
            let stalled = |h: &Hand| h.last.is_some_and(|(end, ..)| end == End::Stalled);
            let hands = &self.objects[o].hands;
            let over = hands.iter().all(|h| matches!(h.stage, Stage::Done));
            over || self.is_gone(o) || hands.iter().any(stalled)
        })
    }
}
