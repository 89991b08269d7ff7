//! The thin async shell: performs what the driver asks, over the ports. No decision is made here.

use crate::driver::{Call, Driver, Input, Memory, Report, Tick};
use crate::intent::Intent;
use crate::ports::{Catalog, ControlTable, Ddl, Environment, Owners};

/// The ports of one pass.
#[derive(Debug)]
pub struct Ports<'a, C, K, D, O, E> {
    /// KeeperMap.
    pub control: &'a C,
    /// Facts about members.
    pub catalog: &'a K,
    /// Distributed DDL.
    pub ddl: &'a D,
    /// Kubernetes.
    pub owners: &'a O,
    /// Time and randomness.
    pub environment: &'a E,
}

/// Runs one pass to its report. `stopping` is asked at each step: once true, nothing new is dispatched.
///
/// Dropping the future is as safe as a crash: a permit that was not used dies with it, and the record tells.
pub async fn pass<C, K, D, O, E>(
    intent: Intent,
    memory: Memory,
    ports: &Ports<'_, C, K, D, O, E>,
    stopping: impl Fn() -> bool,
) -> Report
where
    C: ControlTable,
    K: Catalog,
    D: Ddl,
    O: Owners,
    E: Environment,
{
    let mut driver = Driver::new(intent, memory);
    let mut input = Input::Begin;
    loop {
        let env = ports.environment;
        let tick = Tick { now: env.now(), random: env.random(), stopping: stopping() };
        input = match driver.next(input, &tick) {
            Call::ReadSlot(key) => Input::Slot(ports.control.read_all(&key).await),
            Call::Members(ask) => Input::Members(ports.catalog.members(&ask).await),
            Call::Preflight(ask) => Input::Preflight(ports.catalog.preflight(&ask).await),
            Call::Scan(cluster, tokens) => Input::Scan(ports.ddl.scan(&cluster, &tokens).await),
            Call::Backlog(cluster) => Input::Backlog(ports.ddl.backlog(&cluster).await),
            Call::Mutate(server, mutation) => Input::Mutated(ports.control.mutate(&server, &mutation).await),
            Call::ReadExact(server, key) => Input::Exact(ports.control.read_exact(&server, &key).await),
            Call::Witness(root, version) => Input::Witnessed(ports.owners.witness(root, version).await),
            Call::OwnerGone(owner) => Input::OwnerGone(ports.owners.owner_gone(&owner).await),
            Call::Send(permit, order) => Input::Sent(ports.ddl.send(permit, &order).await),
            Call::Finish(report) => return *report,
        };
    }
}
