//! One pass over one verdict: read everything afresh, judge, store by compare-and-swap. Driven from the record alone,
//! so it works when the publication object is gone; it can neither dispatch nor yield a permit.

mod binding;

pub use binding::{ClusterAfresh, look_at_cluster, pass_over_cluster};

use crate::admission::{Finding, inventory, read_failures};
use crate::authority::{CasResult, MutationAnswer, Now, PendingCas};
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::driver::{Memory, Requeue};
use crate::evidence;
use crate::identity::{CorrelationToken, RootId, target_key};
use crate::limits::Deadlines;
use crate::ports::{AuthorityRead, Catalog, ControlTable, Ddl, Environment, MembersAsk, Processes, Scope};
use crate::record::{Record, Slot, VersionedRow};
use crate::verdict::{Afresh, Decision, Verdict, judge};

/// A slot by name, as a verdict or `inspect` names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotName {
    /// Root of the facade.
    pub root: RootId,
    /// Cluster name.
    pub cluster: String,
    /// Database.
    pub database: String,
    /// Target.
    pub target: String,
    /// B-1: counts only where the catalog lacks the column.
    pub declared_internal_replication: bool,
}

impl SlotName {
    ///
    pub fn key(&self) -> String {
        target_key(self.root, &self.cluster, &self.database, &self.target).to_string()
    }
}

/// How a pass over a verdict ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Stored, now or earlier; with the slot as it is.
    Applied(Box<Slot>),
    /// J-4 without a slot: the facade is bound to the inventory that the verdict names, now or earlier.
    Bound,
    /// Final: the verdict will not take effect.
    Refused(Finding),
    /// Not yet.
    Waiting(Finding, Requeue),
    /// C-4 was broken.
    Halted,
}

/// The ports of a verdict.
#[derive(Debug)]
pub struct Ports<'a, C, K, D, P, E> {
    /// KeeperMap.
    pub control: &'a C,
    /// Facts about members.
    pub catalog: &'a K,
    /// The queue; nothing is ever sent.
    pub ddl: &'a D,
    /// Running statements.
    pub processes: &'a P,
    /// Time.
    pub environment: &'a E,
}

/// Everything of a slot, read afresh (F: record, queue, members, record again); none = no such slot.
///
/// # Errors
/// A finding when members disagree, do not answer, or the record moved meanwhile.
pub async fn look<C, K, D, P, E>(
    name: &SlotName,
    deadlines: Deadlines,
    memory: &mut Memory,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Result<Option<Afresh>, Finding>
where
    C: ControlTable,
    K: Catalog,
    D: Ddl,
    P: Processes,
    E: Environment,
{
    let key = name.key();
    let Some(slot) = agreed(&ports.control.read_all(&key).await)? else { return Ok(None) };
    let record = &slot.record;
    let now = ports.environment.now();
    if memory.seen.is_none_or(|(version, _)| version != slot.version) {
        memory.seen = Some((slot.version, now.boot_ms));
    }
    let tokens = evidence::tokens(record);
    let rows =
        if tokens.is_empty() { Some(Vec::new()) } else { ports.ddl.scan(&name.cluster, &tokens).await.ok() };
    let running = running(record, ports.processes).await;
    let members = ports.catalog.members(&ask(name, record)).await;
    if agreed(&ports.control.read_all(&key).await)?.as_ref() != Some(&slot) {
        return Err(Finding::wait(
            ErrorCode::CasConflict,
            "F",
            "the record moved while it was looked at; looking again",
        ));
    }
    let deadlines_past = deadlines_past(deadlines, memory, ports.environment.now());
    let inventory = inventory(&name.cluster, name.declared_internal_replication, &members);
    Ok(Some(Afresh { slot, rows, members, inventory, running, deadlines_past }))
}

/// Runs one pass over a verdict.
pub async fn pass<C, K, D, P, E>(
    name: &SlotName,
    verdict: &Verdict,
    deadlines: Deadlines,
    memory: &mut Memory,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Outcome
where
    C: ControlTable,
    K: Catalog,
    D: Ddl,
    P: Processes,
    E: Environment,
{
    let afresh = match look(name, deadlines, memory, ports).await {
        Ok(Some(afresh)) => afresh,
        Ok(None) => {
            return Outcome::Refused(Finding::block(ErrorCode::VerdictStale, "J-1", "there is no such slot"));
        }
        Err(finding) => return wait(finding, memory),
    };
    let noted = |slot: &Slot| slot.record.payload.verdicts.iter().any(|note| note.uid == verdict.uid);
    if noted(&afresh.slot) {
        return Outcome::Applied(Box::new(afresh.slot));
    }
    let now = ports.environment.now();
    match judge(verdict, &afresh, now) {
        Ok(record) => {
            // J-4: the binding row first, by its own CAS.
            if matches!(verdict.decision, Decision::Rebound(_))
                && let Some(outcome) = binding::ensure(&record.payload.inventory, memory, ports).await
            {
                return outcome;
            }
            store(&afresh, record, now, memory, ports).await
        }
        Err(finding) if finding.severity == crate::admission::Severity::Wait => wait(finding, memory),
        Err(finding) => Outcome::Refused(finding),
    }
}

async fn store<C, K, D, P, E>(
    afresh: &Afresh,
    record: Record,
    now: Now,
    memory: &mut Memory,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Outcome
where
    C: ControlTable,
    P: Processes,
{
    let Some(server) = afresh.members.members.first().map(|m| m.server_uuid.clone()) else {
        return wait(Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "no member answered"), memory);
    };
    let (cas, mutation) = PendingCas::swap(&afresh.slot, record, false, server.clone(), now);
    let answer: MutationAnswer = ports.control.mutate(&server, &mutation).await;
    let result = match cas.after_answer(answer) {
        Some(result) => result,
        None => {
            let (server, key) = cas.exact_read();
            cas.after_read(ports.control.read_exact(&server, &key).await)
        }
    };
    match result {
        CasResult::Verified(slot, _) => Outcome::Applied(slot),
        CasResult::OneShotViolation => Outcome::Halted,
        CasResult::Refused => wait(access_denied(), memory),
        // The record tells: the verdict is noted there, or its evidence is stale now.
        CasResult::Conflict => {
            wait(Finding::wait(ErrorCode::CasConflict, "C-5", "the record changed; looking again"), memory)
        }
        CasResult::OutcomeUnknown => {
            let message = "the answer of the authority statement was lost; the record tells";
            wait(Finding::wait(ErrorCode::CasOutcomeUnknown, "C-7", message), memory)
        }
    }
}

/// Nothing was written; whoever grants the right need not decide anew.
fn access_denied() -> Finding {
    let message = "the server refused the authority statement; check grants and settings of the user";
    Finding::wait(ErrorCode::AccessDenied, "C-4", message)
}

/// C-13: every member must answer, and answer the same.
fn agreed_row(read: &AuthorityRead) -> Result<Option<&VersionedRow>, Finding> {
    if let Some(finding) = read_failures(&read.failures) {
        return Err(finding);
    }
    let Some((_, first)) = read.rows.first() else {
        return Err(Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "no member answered"));
    };
    if read.rows.iter().any(|(_, row)| row != first) {
        return Err(Finding::wait(
            ErrorCode::AuthorityUnavailable,
            "C-13",
            "members read different versions; reading again",
        ));
    }
    Ok(first.as_ref())
}

fn agreed(read: &AuthorityRead) -> Result<Option<Slot>, Finding> {
    let Some(found) = agreed_row(read)? else { return Ok(None) };
    let record = Record::decode(&found.row)
        .map_err(|error| Finding::block(ErrorCode::AuthorityMalformed, "C-9", error.to_string()))?;
    Ok(Some(Slot { record, version: found.version }))
}

/// J-3: asked only where a fence can be cleared.
async fn running<P: Processes>(record: &Record, processes: &P) -> Option<bool> {
    if !record.phase.is_final() {
        return None;
    }
    let ids: Vec<String> =
        record.fences().iter().map(|fence| CorrelationToken::query_id(&fence.token)).collect();
    if ids.is_empty() { Some(false) } else { processes.running(&ids).await }
}

pub(crate) fn ask(name: &SlotName, record: &Record) -> MembersAsk {
    let mut names = record.all_names();
    names.extend(record.fences().into_iter().map(|fence| fence.name));
    names.sort();
    names.dedup();
    MembersAsk {
        scope: Scope::Each,
        cluster: name.cluster.clone(),
        database: name.database.clone(),
        names,
        health_of: None,
        count_of: None,
    }
}

/// D-5: by this observer's monotonic clock, from its first read of this version.
fn deadlines_past(deadlines: Deadlines, memory: &Memory, now: Now) -> bool {
    memory.seen.is_some_and(|(_, since)| now.boot_ms.saturating_sub(since) > deadlines.visibility_wait_ms())
}

/// Not yet, with bounded backoff.
pub fn wait(finding: Finding, memory: &mut Memory) -> Outcome {
    const FIRST_MS: u64 = 500;
    const DOUBLINGS_MAX: u32 = 5;
    let step = FIRST_MS << memory.attempt.min(DOUBLINGS_MAX);
    memory.attempt = memory.attempt.saturating_add(1);
    Outcome::Waiting(finding, Requeue::AfterMs(step))
}

/// The decision in a manifest's words: only what the word goes with may be there.
pub fn decision(word: &str, name: Option<&str>, inventory: Option<Digest>) -> Option<Decision> {
    match (word, name, inventory) {
        ("Committed", None, None) => Some(Decision::Committed),
        ("NotApplied", None, None) => Some(Decision::NotApplied),
        ("Rebaselined", None, None) => Some(Decision::Rebaselined),
        ("NameCleared", Some(name), None) => Some(Decision::NameCleared(name.to_owned())),
        ("Rebound", None, Some(inventory)) => Some(Decision::Rebound(inventory)),
        _ => None,
    }
}
