//! One worker's hold on the world: implements the ports, counts, injects faults, and can stop before each call.

use super::build::TARGET;
use super::world::{Fault, Inner, World};
use super::{build, facts};
use publication_protocol::authority::{DispatchPermit, Mutation, MutationAnswer, MutationOutcome, Now};
use publication_protocol::facade::BINDING_KEY;
use publication_protocol::generation::TableFact;
use publication_protocol::identity::{CorrelationToken, Random, RootId, ServerUuid};
use publication_protocol::ports::{
    AuthorityRead, Catalog, ControlTable, Ddl, Environment, MemberAnswer, MembersAnswer, MembersAsk, Order,
    Owners, Processes, ReadFailure, Scope, SendOutcome,
};
use publication_protocol::preflight::{Backlog, FailedRead, PreflightAnswer, PreflightAsk};
use publication_protocol::queue::QueueRow;
use publication_protocol::record::{Owner, VersionedRow};
use std::future::{pending, poll_fn};
use std::ops::Range;
use std::task::Poll;

#[derive(Clone)]
pub struct Worker {
    pub world: World,
    /// Gives way once before each call, so that a test can interleave workers.
    pub yields: bool,
    /// Gives way after each effect too, before the answer, and reads members one by one.
    pub torn: bool,
    /// Tells a simulation's workers apart.
    pub id: u32,
    /// UID of the object that it works for.
    pub uid: String,
}

impl Worker {
    pub fn new(world: &World) -> Self {
        Self { world: world.clone(), yields: false, torn: false, id: 0, uid: String::new() }
    }

    pub fn yielding(world: &World) -> Self {
        Self { yields: true, ..Self::new(world) }
    }

    /// A worker of a simulation: everything else may happen at every await.
    pub fn simulated(world: &World, id: u32) -> Self {
        Self { torn: true, id, ..Self::yielding(world) }
    }

    /// One port call: time passes, a planned fault strikes before or after the effect.
    async fn call<T>(
        &self,
        kind: &'static str,
        effect: impl FnOnce(&mut Inner) -> T,
        lost: impl FnOnce() -> T,
    ) -> T {
        if self.yields {
            give_way().await;
        }
        let fault = self.begin_call(kind);
        let done = if fault.is_some_and(Fault::is_before) {
            None
        } else {
            let mut inner = self.world.lock();
            inner.acting = self.id;
            let now = inner.now.boot_ms;
            match fault {
                Some(Fault::Delayed(ms) | Fault::CrashDelayed(ms)) => inner.delaying_ms = Some(now + ms),
                Some(Fault::Silent(member)) => inner.silent = Some(member),
                Some(Fault::Stale(ms)) => inner.stale_ms = ms,
                _ => {}
            }
            let value = effect(&mut inner);
            (inner.delaying_ms, inner.silent, inner.stale_ms) = (None, None, 0);
            Some(value)
        };
        if self.torn {
            give_way().await;
        }
        match (fault, done) {
            (None, Some(value)) => value,
            (Some(fault), Some(value)) if fault.is_answered() => value,
            (Some(fault), _) if fault.is_crash() => {
                self.world.lock().crashed.insert(self.id);
                pending().await
            }
            _ => lost(),
        }
    }

    fn begin_call(&self, kind: &'static str) -> Option<Fault> {
        let mut inner = self.world.lock();
        let at = inner.calls;
        inner.calls += 1;
        let tick = inner.tick_ms;
        inner.advance(tick);
        let mut fault = inner.faults.get(&at).copied();
        if inner.watch.is_none() {
            inner.trace.push(kind);
        }
        let members = inner.members.len();
        inner.watched(|watch, _| fault = fault.or_else(|| watch.fault(self.id, kind, members)));
        fault
    }
}

async fn give_way() {
    let mut given = false;
    poll_fn(|_| if std::mem::replace(&mut given, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn slot_of(inner: &Inner, member: usize, key: &str) -> Option<VersionedRow> {
    if key == BINDING_KEY {
        return inner.binding.last().cloned();
    }
    if inner.remade.contains_key(&inner.members[member].number) {
        return None;
    }
    let rows = inner.others.get(key).unwrap_or(&inner.slot);
    let shown = rows.len().saturating_sub(inner.members[member].lag);
    rows[..shown].last().filter(|row| row.row.target_key == key).cloned()
}

fn label(number: u32) -> String {
    format!("h{number}:9000")
}

impl ControlTable for Worker {
    async fn read_all(&self, key: &str) -> AuthorityRead {
        let effect = |inner: &mut Inner| {
            inner.counts.slot_reads += 1;
            let mut read = AuthorityRead::default();
            for (at, member) in inner.members.iter().enumerate() {
                if member.up && !member.keeper {
                    read.failures.push((label(member.number), ReadFailure::KeeperUnavailable));
                } else if member.up && inner.no_facade {
                    read.failures.push((label(member.number), ReadFailure::NoTable));
                } else if member.up && inner.silent != Some(at) {
                    read.facades.push((build::server(member.number), inner.facade(member.number)));
                    read.rows.push((build::server(member.number), slot_of(inner, at, key)));
                } else {
                    read.failures.push((label(member.number), ReadFailure::Unavailable));
                }
            }
            read
        };
        let lost = || AuthorityRead {
            failures: vec![(label(1), ReadFailure::Unavailable)],
            ..AuthorityRead::default()
        };
        self.call("read_all", effect, lost).await
    }

    async fn read_exact(&self, server: &ServerUuid, key: &str) -> Option<(ServerUuid, Option<VersionedRow>)> {
        let effect = |inner: &mut Inner| {
            inner.counts.exact_reads += 1;
            let at = inner.members.iter().position(|m| m.up && build::server(m.number) == *server)?;
            Some((server.clone(), slot_of(inner, at, key)))
        };
        self.call("read_exact", effect, || None).await
    }

    async fn mutate(&self, server: &ServerUuid, mutation: &Mutation) -> MutationAnswer {
        let _ = server;
        let effect = |inner: &mut Inner| {
            inner.counts.mutations += 1;
            MutationAnswer { outcome: inner.apply(mutation), transport_calls: 1 }
        };
        let lost = || MutationAnswer { outcome: MutationOutcome::Unknown, transport_calls: 1 };
        let answer = self.call("mutate", effect, lost).await;
        if answer.outcome == MutationOutcome::Acknowledged {
            self.world.lock().watched(|watch, _| watch.acknowledged(self.id, mutation));
        }
        answer
    }
}

impl Catalog for Worker {
    async fn members(&self, ask: &MembersAsk) -> MembersAnswer {
        let lost = || MembersAnswer {
            members: vec![],
            failures: vec![("h1:9000".into(), ReadFailure::Unavailable)],
        };
        let all = self.world.lock().members.len();
        let first = if self.torn { 1 } else { all };
        let mut answer = self.call("members", |inner| read_members(inner, ask, 0..first), lost).await;
        // One by one: the world moves between two members.
        for at in first..all {
            give_way().await;
            let next = read_members(&mut self.world.lock(), ask, at..at + 1);
            answer.members.extend(next.members);
            answer.failures.extend(next.failures);
        }
        if ask.scope == Scope::Cluster && !answer.failures.is_empty() {
            answer.members.clear();
        }
        answer
    }

    async fn preflight(&self, ask: &PreflightAsk) -> PreflightAnswer {
        let effect = |inner: &mut Inner| read_preflight(inner, ask);
        self.call("preflight", effect, || unread_preflight(vec![(label(1), ReadFailure::Unavailable)])).await
    }
}

fn read_members(inner: &mut Inner, ask: &MembersAsk, read: Range<usize>) -> MembersAnswer {
    inner.counts.member_reads += 1;
    let mut answer = MembersAnswer::default();
    let members = inner.members.len() as u32;
    for (at, member) in inner.members.iter().enumerate().filter(|(at, _)| read.contains(at)) {
        if !member.up || inner.silent == Some(at) {
            answer.failures.push((label(member.number), ReadFailure::Unavailable));
            continue;
        }
        let tables = ask.names.iter().map(|name| {
            let found = member.tables.get(name);
            (name.clone(), found.map_or(TableFact::Absent, |g| build::fact(*g, member.number)))
        });
        let there = |name: &Option<String>| name.as_ref().is_some_and(|n| member.tables.contains_key(n));
        let mut health = build::healthy(members);
        health.queue_size = if member.unhealthy { 3 } else { 0 };
        health.readonly = member.readonly;
        let mut view = build::view(members, member.number);
        view.iter_mut().for_each(|row| row.host.insert_str(0, &inner.host_prefix));
        view.iter_mut().for_each(|row| row.is_local &= member.local);
        answer.members.push(MemberAnswer {
            server_uuid: build::server(member.number),
            server_version: "25.8".into(),
            view,
            database_engine: Some("Atomic".into()),
            tables: tables.collect(),
            health: there(&ask.health_of).then_some(health),
            count: there(&ask.count_of).then_some(10),
        });
    }
    answer
}

fn unread_preflight(failures: Vec<(String, ReadFailure)>) -> PreflightAnswer {
    let failed = |(endpoint, failure)| FailedRead { endpoint, failure, needs: "SELECT" };
    PreflightAnswer { failures: failures.into_iter().map(failed).collect(), ..facts::unobstructed(0, true) }
}

fn read_preflight(inner: &mut Inner, ask: &PreflightAsk) -> PreflightAnswer {
    inner.counts.preflights += 1;
    let down = inner.members.iter().filter(|m| !m.up);
    let failures: Vec<_> = down.map(|m| (label(m.number), ReadFailure::Unavailable)).collect();
    if !failures.is_empty() {
        return unread_preflight(failures);
    }
    let target = inner.members.iter().all(|m| m.tables.contains_key(&ask.target));
    let mut answer = facts::unobstructed(inner.members.len() as u32, target);
    for (member, facts) in inner.members.iter().zip(&mut answer.members) {
        facts.server_uuid = build::server(member.number);
        facts.same_path[0].table.clone_from(&ask.candidate);
        let names = facts.tables.iter_mut().map(|t| &mut t.name);
        for name in names.chain(facts.replicas.iter_mut().map(|set| &mut set.table)) {
            name.clone_from(if name == TARGET { &ask.target } else { &ask.candidate });
        }
    }
    answer
}

impl Ddl for Worker {
    async fn send(&self, permit: DispatchPermit, order: &Order) -> SendOutcome {
        // The permit is redeemed when the first byte is written, which is when the call is let through.
        let effect = |inner: &mut Inner| {
            if inner.unsendable {
                return SendOutcome::NotSent(permit);
            }
            match permit.redeem(inner.now) {
                Ok(redeemed) => {
                    inner.counts.sends += 1;
                    inner.watched(|watch, inner| watch.sent(inner, redeemed.token().as_str()));
                    inner.enqueue(redeemed.token().as_str(), &order.statement);
                    SendOutcome::Answered
                }
                Err(late) => SendOutcome::NotSent(late),
            }
        };
        self.call("send", effect, || SendOutcome::Unknown).await
    }

    async fn scan(&self, _: &str, tokens: &[CorrelationToken]) -> Result<Vec<QueueRow>, ReadFailure> {
        let effect = |inner: &mut Inner| {
            inner.counts.scans += 1;
            Ok(inner.rows(&tokens.iter().map(CorrelationToken::as_str).collect::<Vec<_>>()))
        };
        self.call("scan", effect, || Err(ReadFailure::Unavailable)).await
    }

    async fn backlog(&self, _: &str) -> Result<Vec<Backlog>, ReadFailure> {
        let effect = |inner: &mut Inner| {
            inner.counts.backlogs += 1;
            Ok(inner.unfinished())
        };
        self.call("backlog", effect, || Err(ReadFailure::Unavailable)).await
    }
}

impl Owners for Worker {
    async fn witness(&self, root: RootId, version: u64) -> bool {
        let effect = |inner: &mut Inner| {
            inner.counts.witnesses += 1;
            let newer = inner.witnesses.get(&self.uid).is_none_or(|(_, shown)| *shown <= version);
            let gone = inner.watch.as_ref().is_some_and(|watch| watch.gone(&self.uid));
            // A status is written under the version of the object that was read: an older view is refused.
            let shown = newer && !gone && !inner.witness_refused;
            if shown {
                inner.witnesses.insert(self.uid.clone(), (root, version));
            }
            shown
        };
        self.call("witness", effect, || false).await
    }

    async fn owner_gone(&self, owner: &Owner) -> Option<bool> {
        let effect = |inner: &mut Inner| {
            inner.counts.owner_reads += 1;
            inner.watch.as_ref().map_or(inner.owner_gone, |watch| Some(watch.gone(&owner.uid)))
        };
        self.call("owner_gone", effect, || None).await
    }
}

impl Processes for Worker {
    async fn running(&self, _: &[String]) -> Option<bool> {
        self.call("running", |inner| inner.running, || None).await
    }
}

impl Environment for Worker {
    fn now(&self) -> Now {
        self.world.lock().now
    }

    fn random(&self) -> Random {
        let mut inner = self.world.lock();
        inner.seed += 1;
        build::random(inner.seed + 1_000)
    }
}
