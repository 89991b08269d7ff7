//! The driver by hand: performs calls on the world until one of interest comes up, which the test then answers.

use super::ports::Worker;
use super::world::World;
use futures::executor::block_on;
use publication_protocol::authority::Mutation;
use publication_protocol::driver::{Call, Driver, Input, Memory, Report, Tick};
use publication_protocol::identity::ServerUuid;
use publication_protocol::intent::Intent;
use publication_protocol::ports::{Catalog, ControlTable, Ddl, Environment, Owners};

pub struct Stepper {
    pub worker: Worker,
    pub driver: Driver,
    pub stopping: bool,
}

impl Stepper {
    pub fn new(world: &World, intent: &Intent) -> Self {
        Self::with(world, intent, Memory::default())
    }

    pub fn with(world: &World, intent: &Intent, memory: Memory) -> Self {
        let mut worker = Worker::new(world);
        worker.uid.clone_from(&intent.owner.uid);
        let mut intent = intent.clone();
        if intent.witnessed.is_none() {
            intent.witnessed = world.lock().witnesses.get(&worker.uid).copied();
        }
        Self { worker, driver: Driver::new(intent, memory), stopping: false }
    }

    pub fn next(&mut self, input: Input) -> Call {
        let tick = Tick { now: self.worker.now(), random: self.worker.random(), stopping: self.stopping };
        self.driver.next(input, &tick)
    }

    pub fn perform(&mut self, call: Call) -> Input {
        let worker = &self.worker;
        match call {
            Call::ReadSlot(key) => Input::Slot(block_on(worker.read_all(&key))),
            Call::Members(ask) => Input::Members(block_on(worker.members(&ask))),
            Call::Preflight(ask) => Input::Preflight(block_on(worker.preflight(&ask))),
            Call::Scan(cluster, tokens) => Input::Scan(block_on(worker.scan(&cluster, &tokens))),
            Call::Backlog(cluster) => Input::Backlog(block_on(worker.backlog(&cluster))),
            Call::Mutate(server, mutation) => Input::Mutated(block_on(worker.mutate(&server, &mutation))),
            Call::ReadExact(server, key) => Input::Exact(block_on(worker.read_exact(&server, &key))),
            Call::Witness(root, version) => Input::Witnessed(block_on(worker.witness(root, version))),
            Call::OwnerGone(owner) => Input::OwnerGone(block_on(worker.owner_gone(&owner))),
            Call::Send(permit, order) => Input::Sent(block_on(worker.send(permit, &order))),
            Call::Finish(report) => panic!("ended early: {report:?}"),
        }
    }

    /// Goes on until a call of interest, which is not performed.
    pub fn until(&mut self, input: Input, of_interest: impl Fn(&Call) -> bool) -> Call {
        let mut call = self.next(input);
        while !of_interest(&call) {
            let input = self.perform(call);
            call = self.next(input);
        }
        call
    }

    /// Goes on to the end of the pass.
    pub fn finish(&mut self, input: Input) -> Report {
        match self.until(input, |call| matches!(call, Call::Finish(_))) {
            Call::Finish(report) => *report,
            other => panic!("{other:?}"),
        }
    }

    /// Stops before the CAS that writes this phase.
    pub fn until_cas(&mut self, phase: &str) -> (ServerUuid, Mutation) {
        match self.until(Input::Begin, |call| writes(call, phase)) {
            Call::Mutate(server, mutation) => (server, mutation),
            other => panic!("{other:?}"),
        }
    }

    pub fn done(&mut self, input: Input) -> Report {
        match self.next(input) {
            Call::Finish(report) => *report,
            other => panic!("expected the end, got {other:?}"),
        }
    }
}

fn writes(call: &Call, phase: &str) -> bool {
    match call {
        Call::Mutate(_, Mutation::Insert(row) | Mutation::Update { row, .. }) => row.phase == phase,
        _ => false,
    }
}
