//! Running passes: once, until quiet, interleaved.

use super::ports::Worker;
use super::world::World;
use futures::task::noop_waker;
use publication_protocol::driver::{End, Memory, Report, Requeue};
use publication_protocol::intent::Intent;
use publication_protocol::publisher::{Ports, pass};
use publication_protocol::receipt::{self, Document, Flaw, Look, Scene, merged, verify};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pub type Pass = Pin<Box<dyn Future<Output = Report>>>;

/// A pass as a future that owns its worker.
pub fn begin(mut worker: Worker, mut intent: Intent, memory: Memory) -> Pass {
    worker.uid.clone_from(&intent.owner.uid);
    if intent.witnessed.is_none() {
        intent.witnessed = worker.world.lock().witnesses.get(&worker.uid).copied();
    }
    begin_until(worker, intent, memory, || false)
}

/// As [`begin`], with the intent as it is; `stopping` = the process shuts down.
pub fn begin_until(
    worker: Worker,
    intent: Intent,
    memory: Memory,
    stopping: impl Fn() -> bool + 'static,
) -> Pass {
    Box::pin(async move {
        let ports =
            Ports { control: &worker, catalog: &worker, ddl: &worker, owners: &worker, environment: &worker };
        pass(intent, memory, &ports, stopping).await
    })
}

/// Polls once: with a yielding worker, up to and including one port call.
pub fn poll(pass: &mut Pass) -> Option<Report> {
    match pass.as_mut().poll(&mut Context::from_waker(&noop_waker())) {
        Poll::Ready(report) => Some(report),
        Poll::Pending => None,
    }
}

/// One pass of a worker that does not yield; none = it crashed, and its future is dropped here.
pub fn one(world: &World, intent: &Intent, memory: Memory) -> Option<Report> {
    poll(&mut begin(Worker::new(world), intent.clone(), memory))
}

/// Receipts of one operation, as an operator keeps them: whatever happens to it, each of them must hold.
#[derive(Default)]
pub struct Receipts {
    pub last: Option<Document>,
    pub history: Vec<Look>,
}

impl Receipts {
    /// Keeps the receipt of this report.
    pub fn of(&mut self, report: &Report, now_ms: u64) {
        let flaws = self.flaws(report, now_ms);
        assert!(flaws.is_empty(), "{flaws:?}\n{:?}", self.last);
    }

    /// The same, and what is wrong with it.
    pub fn flaws(&mut self, report: &Report, now_ms: u64) -> Vec<Flaw> {
        self.history = merged(&self.history, &report.history);
        if matches!(report.end, End::Waiting | End::Gone) {
            return Vec::new();
        }
        let cluster = "platform/analytics".to_owned();
        let Some(scene) = Scene::of_report(report, cluster, "0.1.0", now_ms) else { return Vec::new() };
        let document = receipt::of(Scene { history: self.history.clone(), ..scene }, self.last.as_ref());
        self.history.clone_from(&document.history);
        verify(self.last.insert(document))
    }
}

/// Polls a yielding pass to its end.
pub fn finish(pass: &mut Pass) -> Report {
    (0..10_000).find_map(|_| poll(pass)).expect("a pass ends")
}

/// Passes of a worker, one after the other as the reports ask, over virtual time, until nothing more is to come:
/// the report says never, or it stalls and time and repetition change nothing. A crash is followed by a new worker
/// with an empty memory.
pub fn until_quiet(world: &World, intent: &Intent) -> Report {
    until_quiet_with(world, intent, |_| {})
}

/// As [`until_quiet`]; `between` acts on the world after each pass.
pub fn until_quiet_with(world: &World, intent: &Intent, mut between: impl FnMut(&World)) -> Report {
    const PASSES_MAX: u32 = 4_000;
    let mut memory = Memory::default();
    let (mut stalled, mut before) = (0, None);
    let mut receipts = Receipts::default();
    for _ in 0..PASSES_MAX {
        let report = one(world, intent, std::mem::take(&mut memory));
        between(world);
        world.arrivals();
        world.judge();
        let Some(report) = report else { continue };
        receipts.of(&report, world.lock().now.wall_ms);
        match report.requeue {
            Requeue::Never => return report,
            Requeue::Now => world.advance(1),
            Requeue::AfterMs(ms) => {
                assert!(ms >= 200, "a hot loop: {ms} ms");
                world.advance(ms);
            }
        }
        // A lost read in between is another report, and no end.
        let said = Some((report.end, report.class)).filter(|(end, _)| *end == End::Stalled);
        stalled = if said.is_some() { 1 + if said == before { stalled } else { 0 } } else { 0 };
        before = said;
        if stalled >= 3 {
            return report;
        }
        memory = report.memory.clone();
    }
    panic!("not quiet after {PASSES_MAX} passes: {:?}", world.phases());
}
