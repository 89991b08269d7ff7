//! Objects and the workers that serve them: a pass as a future, dropped wherever it stands when its worker dies.

use crate::sim::mix::{chance, pick};
use crate::sim::run::Simulation;
use crate::support::ports::Worker;
use crate::support::run::{Pass, Receipts, begin_until, poll};
use publication_protocol::classify::Classification;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{End, Memory, Report, Requeue};
use publication_protocol::identity::RootId;
use publication_protocol::intent::Intent;
use rand::Rng;
use std::cell::Cell;
use std::rc::Rc;

pub enum Stage {
    Asleep(u64),
    /// Not polled before this time.
    Busy(Pass, u64),
    Done,
}

/// One worker of an object.
pub struct Hand {
    pub memory: Memory,
    pub stage: Stage,
    pub worker: u32,
    pub stopping: Rc<Cell<bool>>,
    /// How its last pass ended, and its first finding's code.
    pub last: Option<(End, Option<Classification>, Option<ErrorCode>)>,
    /// The last reports in a row that said the same.
    pub same: u32,
}

impl Hand {
    pub fn new() -> Self {
        Self {
            memory: Memory::default(),
            stage: Stage::Asleep(0),
            worker: 0,
            stopping: Rc::new(Cell::new(false)),
            last: None,
            same: 0,
        }
    }

    pub fn due(&self) -> Option<u64> {
        match self.stage {
            Stage::Asleep(at) | Stage::Busy(_, at) => Some(at),
            Stage::Done => None,
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Busy(..))
    }
}

/// A TablePublication, as its author made it.
pub struct Object {
    pub target: usize,
    pub intent: Intent,
    /// Its status as an informer showed it last.
    pub shown: Option<(RootId, u64)>,
    /// As the operator keeps them.
    pub receipts: Receipts,
    pub hands: Vec<Hand>,
}

impl Object {
    pub fn uid(&self) -> &str {
        &self.intent.owner.uid
    }
}

impl Simulation {
    /// One poll of one worker.
    pub fn turn(&mut self, object: usize, hand: usize) {
        if matches!(self.objects[object].hands[hand].stage, Stage::Asleep(_)) {
            self.start(object, hand);
        }
        let now = self.now();
        let cut = self.judged(|ghost| ghost.faults && chance(&mut ghost.rng, ghost.mix.cut));
        let pause = self.judged(|ghost| {
            let struck = ghost.faults && chance(&mut ghost.rng, ghost.mix.pause);
            struck.then(|| pick(&mut ghost.rng, &[2_000, 9_000, 20_000, 100_000, 700_000]))
        });
        let at = &mut self.objects[object].hands[hand];
        let Stage::Busy(pass, until) = &mut at.stage else { return };
        if let Some(pause) = pause {
            *until = now + pause;
            return;
        }
        let polled = if cut { None } else { poll(pass) };
        match polled {
            Some(report) => self.reported(object, hand, report),
            None if cut || self.world.lock().crashed.remove(&at.worker) => self.died(object, hand),
            None => {}
        }
    }

    fn start(&mut self, object: usize, hand: usize) {
        self.workers += 1;
        let id = self.workers;
        let uid = self.objects[object].uid().to_owned();
        let current = self.world.lock().witnesses.get(&uid).copied();
        let lagging = self.chaos && chance(&mut self.rng, 100);
        let changed = self.chaos && chance(&mut self.rng, 100);
        let behind = (self.chaos && chance(&mut self.rng, 20)).then(|| "an older one".to_owned());
        let object = &mut self.objects[object];
        let mut intent = object.intent.clone();
        intent.witnessed = if lagging { object.shown } else { current };
        object.shown = current;
        (intent.changed, intent.behind) = (changed, behind);
        let mut worker = Worker::simulated(&self.world, id);
        worker.uid = uid;
        let hand = &mut object.hands[hand];
        hand.worker = id;
        hand.stopping = Rc::new(Cell::new(false));
        let stopping = hand.stopping.clone();
        let pass = begin_until(worker, intent, std::mem::take(&mut hand.memory), move || stopping.get());
        hand.stage = Stage::Busy(pass, 0);
    }

    /// The future is dropped where it stands; a new process knows nothing.
    fn died(&mut self, object: usize, hand: usize) {
        let gone = self.is_gone(object);
        let wake = self.now() + self.rng.random_range(0..40_000);
        let hand = &mut self.objects[object].hands[hand];
        hand.memory = Memory::default();
        (hand.last, hand.same) = (None, 0);
        hand.stage = if gone { Stage::Done } else { Stage::Asleep(wake) };
        self.note(|| format!("{object} dies"));
    }

    fn reported(&mut self, object: usize, hand: usize, report: Report) {
        self.note(|| format!("{object} {:?} {:?} {:?}", report.end, report.class, report.findings));
        self.judge_report(object, hand, &report);
        let now = self.now();
        let over = match report.end {
            End::Succeeded | End::Failed => self.objects[object].intent.deleted,
            End::Gone => true,
            _ => false,
        };
        if over {
            self.remove(object);
        }
        let gone = self.is_gone(object);
        let code = report.findings.first().map(|f| f.code);
        let stopped = self.objects[object].hands[hand].stopping.get();
        let said = (report.end, report.class, code);
        let at = &mut self.objects[object].hands[hand];
        at.same = if at.last == Some(said) { at.same + 1 } else { 1 };
        at.last = Some(said);
        at.memory = if stopped { Memory::default() } else { report.memory };
        at.stage = match report.requeue {
            _ if gone => Stage::Done,
            Requeue::Never => Stage::Done,
            Requeue::Now => Stage::Asleep(now),
            Requeue::AfterMs(ms) => Stage::Asleep(now + ms),
        };
    }

    /// What a report may not say.
    fn judge_report(&mut self, object: usize, hand: usize, report: &Report) {
        let (operation, worker) =
            (self.objects[object].intent.operation, self.objects[object].hands[hand].worker);
        let target = self.targets[self.objects[object].target].clone();
        let wrong = self.judged(|ghost| {
            let done = ghost.operations.get(&operation).is_some_and(|o| o.completed);
            let closed = report.class.is_some_and(|class| {
                matches!(
                    class,
                    Classification::OutcomeUnknown(_)
                        | Classification::PartialTerminal
                        | Classification::FailedUnchanged
                        | Classification::CleanupBlocked(_)
                )
            });
            let residue = ghost.residue.contains(&target);
            match report.end {
                End::Halted => Some("H-1: a worker halted"),
                End::Succeeded if !done && !residue => Some("success without a proof"),
                End::Stalled if report.findings.is_empty() => Some("F-3: stalled without a reason"),
                _ if closed && ghost.sent_since_look.contains(&worker) => {
                    Some("F-2: an unknown outcome was acted on")
                }
                _ => None,
            }
        });
        if let Some(wrong) = wrong {
            self.world.lock().violations.push(format!("{wrong}: {report:?}"));
        }
        let now_ms = self.world.lock().now.wall_ms;
        let flaws = self.objects[object].receipts.flaws(report, now_ms);
        if !flaws.is_empty() {
            self.world.lock().violations.push(format!("a receipt does not hold: {flaws:?}"));
        }
        let reached = &mut self.stats.reached;
        *reached.entry(format!("end {:?}", report.end)).or_default() += 1;
        if let Some(class) = report.class {
            *reached.entry(format!("class {}", class.as_str())).or_default() += 1;
        }
        for finding in &report.findings {
            *reached.entry(format!("code {}", finding.code.as_str())).or_default() += 1;
        }
    }

    pub fn is_gone(&self, object: usize) -> bool {
        let uid = self.objects[object].uid().to_owned();
        self.judged(|ghost| ghost.gone.contains(&uid))
    }

    /// The object leaves the API. Who is in the middle of a pass goes on with it.
    pub fn remove(&mut self, object: usize) {
        let uid = self.objects[object].uid().to_owned();
        self.judged(|ghost| ghost.gone.insert(uid));
        for hand in self.objects[object].hands.iter_mut().filter(|h| !h.is_busy()) {
            hand.stage = Stage::Done;
        }
    }
}
