//! Breadth first over every reachable state; then liveness by backward reachability.

use super::engine::Engine;
use super::next::{By, Successor, successors};
use super::state::{Config, Last, Stage, State};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};

/// What the exploration of one configuration gave.
#[derive(Debug)]
#[cfg_attr(not(publication_model), allow(dead_code))]
pub(crate) struct Explored {
    pub(crate) name: &'static str,
    pub(crate) unique_states: usize,
    pub(crate) transitions: usize,
    pub(crate) exhausted: bool,
    pub(crate) violation: Option<String>,
    /// States from which, once faults stop, success can be reached.
    pub(crate) can_succeed: usize,
    pub(crate) reached: BTreeSet<String>,
}

fn fingerprint(state: &State) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        state.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

struct Explorer<'a> {
    config: &'a Config,
    engine: Engine,
    ids: HashMap<u128, u32>,
    parents: Vec<u32>,
    goals: Vec<bool>,
    successes: Vec<bool>,
    /// No operation holds the slot.
    free: Vec<bool>,
    /// Steps that need no fault and no person, backwards.
    fair: Vec<(u32, u32)>,
    /// Steps of a person, backwards.
    person: Vec<(u32, u32)>,
    transitions: usize,
}

/// What bounds time and memory. An exploration that they stop is not exhausted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) states_max: usize,
    pub(crate) rss_mib_max: u64,
    pub(crate) progress: bool,
}

/// New states between two looks at the memory.
const LOOK_STATES: usize = 250_000;

/// Of this process, as the kernel sees it: `VmRSS:` now, `VmHWM:` at its peak.
pub(crate) fn memory_mib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) / 1024
}

/// Explores a configuration.
pub(crate) fn explore(config: &Config, bounds: Bounds) -> Explored {
    let operations = config.workers.iter().max().map_or(0, |op| op + 1);
    let mut explorer = Explorer {
        config,
        engine: Engine::new(operations),
        ids: HashMap::new(),
        parents: Vec::new(),
        goals: Vec::new(),
        successes: Vec::new(),
        free: Vec::new(),
        fair: Vec::new(),
        person: Vec::new(),
        transitions: 0,
    };
    let (exhausted, mut violation) = explorer.run(bounds);
    let can_succeed = explorer.backwards(&explorer.successes).iter().filter(|r| **r).count();
    if exhausted && violation.is_none() {
        let live = explorer.backwards(&explorer.goals);
        violation = explorer.stuck(&live, "reach no end");
        if violation.is_none() && config.verdicts {
            let by_person = std::mem::take(&mut explorer.person);
            explorer.fair.extend(by_person);
            let exits = explorer.backwards(&explorer.free);
            violation = explorer.stuck(&exits, "have no exit, by verdict or otherwise");
        }
    }
    Explored {
        name: config.name,
        unique_states: explorer.parents.len(),
        transitions: explorer.transitions,
        exhausted,
        violation,
        can_succeed,
        reached: explorer.engine.reached,
    }
}

impl Explorer<'_> {
    fn add(&mut self, state: &State, parent: u32) -> (u32, bool) {
        match self.ids.entry(fingerprint(state)) {
            Entry::Occupied(known) => (*known.get(), false),
            Entry::Vacant(new) => {
                let id = self.parents.len() as u32;
                new.insert(id);
                self.parents.push(parent);
                self.goals.push(ended(state));
                self.successes.push(succeeded(state));
                let free = self.is_free(state);
                self.free.push(free);
                (id, true)
            }
        }
    }

    fn run(&mut self, bounds: Bounds) -> (bool, Option<String>) {
        let initial = State::initial(&mut self.engine, self.config);
        self.add(&initial, u32::MAX);
        let mut frontier = VecDeque::from([(0_u32, initial)]);
        let mut look_at = LOOK_STATES;
        while let Some((id, state)) = frontier.pop_front() {
            let states = self.parents.len();
            if states > bounds.states_max {
                return (false, None);
            }
            if states >= look_at {
                look_at = states + LOOK_STATES;
                let mib = memory_mib("VmRSS:");
                if bounds.progress {
                    println!("{}: {states} states, {} open, {mib} MiB", self.config.name, frontier.len());
                }
                if mib > bounds.rss_mib_max {
                    return (false, None);
                }
            }
            for Successor { by, next, label } in successors(&mut self.engine, self.config, &state) {
                self.transitions += 1;
                let next = match next {
                    Ok(next) => next,
                    Err(what) => {
                        let trace = self.trace(id);
                        return (false, Some(format!("{what}\n{trace}\n  {label}  <- here")));
                    }
                };
                let (to, new) = self.add(&next, id);
                match by {
                    By::World => self.fair.push((to, id)),
                    By::Person => self.person.push((to, id)),
                    By::Chance => {}
                }
                if new {
                    frontier.push_back((to, next));
                }
            }
        }
        (true, None)
    }

    fn is_free(&mut self, state: &State) -> bool {
        state.row().is_none_or(|row| self.engine.record(row).is_ok_and(|record| record.phase.is_final()))
    }

    /// Liveness: the first state that is not among the live ones, and how it was reached.
    fn stuck(&mut self, live: &[bool], what: &str) -> Option<String> {
        let stuck = live.iter().position(|live| !live)?;
        let count = live.iter().filter(|live| !**live).count();
        let trace = self.trace(stuck as u32);
        Some(format!("liveness: {count} states {what}, the first by\n{trace}"))
    }

    /// From which states one of these can be reached without a fault.
    fn backwards(&self, goals: &[bool]) -> Vec<bool> {
        let mut start = vec![0_u32; goals.len() + 1];
        for (to, _) in &self.fair {
            start[*to as usize + 1] += 1;
        }
        for at in 1..start.len() {
            start[at] += start[at - 1];
        }
        let mut filled = start.clone();
        let mut from = vec![0_u32; self.fair.len()];
        for (to, source) in &self.fair {
            let place = &mut filled[*to as usize];
            from[*place as usize] = *source;
            *place += 1;
        }
        let mut reached = goals.to_vec();
        let mut open: Vec<u32> = (0..goals.len() as u32).filter(|id| goals[*id as usize]).collect();
        while let Some(id) = open.pop() {
            let range = start[id as usize] as usize..start[id as usize + 1] as usize;
            for source in &from[range] {
                if !std::mem::replace(&mut reached[*source as usize], true) {
                    open.push(*source);
                }
            }
        }
        reached
    }

    /// The shortest way to a state, replayed.
    fn trace(&mut self, id: u32) -> String {
        let mut path = Vec::new();
        let mut at = id;
        while at != u32::MAX {
            path.push(at);
            at = self.parents[at as usize];
        }
        path.reverse();
        let mut state = State::initial(&mut self.engine, self.config);
        let mut lines = Vec::new();
        for id in path.into_iter().skip(1) {
            for Successor { next, label, .. } in successors(&mut self.engine, self.config, &state) {
                if let Ok(next) = next
                    && self.ids.get(&fingerprint(&next)) == Some(&id)
                {
                    lines.push(format!("  {label}"));
                    state = next;
                    break;
                }
            }
        }
        lines.join("\n")
    }
}

/// Every operation has reported an end: success, refusal, or a declared fail-closed state; or it waits for one that
/// has.
fn ended(state: &State) -> bool {
    let ended = |op: usize| {
        state.workers.iter().any(|w| {
            usize::from(w.op) == op
                && matches!(w.stage, Stage::Idle(Last::Stalled | Last::Succeeded | Last::Over))
        })
    };
    let stalled = state.workers.iter().any(|w| w.stage == Stage::Idle(Last::Stalled));
    let waits = |op: usize| {
        state.workers.iter().any(|w| usize::from(w.op) == op && w.stage == Stage::Idle(Last::Waiting))
    };
    (0..state.operations.len()).all(|op| ended(op) || (stalled && waits(op)))
}

fn succeeded(state: &State) -> bool {
    state.workers.iter().any(|w| w.stage == Stage::Idle(Last::Succeeded))
}
