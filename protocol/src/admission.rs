//! B: what must hold before a slot is taken (B-1..B-8), and again right before the dispatch (D-1).

use crate::code::ErrorCode;
use crate::generation::{GenerationIdentity, NotAGeneration, TableFact};
use crate::identity::{Names, RowExpectation};
use crate::inventory::{Inventory, InventoryError, Member, MemberView};
use crate::ports::{Health, MemberAnswer, MembersAnswer, ReadFailure};
use crate::record::Record;
use std::collections::BTreeSet;

/// What a finding does to an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown, and nothing is held back by it.
    Warn,
    /// It may pass by itself: looked at again with backoff.
    Wait,
    /// Somebody must change something.
    Block,
}

/// One reason why an operation is not admitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Finding {
    /// Waits or blocks.
    pub severity: Severity,
    /// Public code.
    pub code: ErrorCode,
    /// The rule that is not met.
    pub rule: &'static str,
    /// What was found, on which member, and the remedy. Names, numbers and codes only.
    pub message: String,
}

impl Finding {
    /// A finding that somebody must act on.
    pub fn block(code: ErrorCode, rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Block, code, rule, message: message.into() }
    }

    /// A finding that may pass by itself.
    pub fn wait(code: ErrorCode, rule: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Wait, code, rule, message: message.into() }
    }
}

/// What PREPARED binds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bound {
    /// The members.
    pub inventory: Inventory,
    /// What the target is now; none = absent.
    pub predecessor: Option<GenerationIdentity>,
    /// What the candidate is.
    pub desired: GenerationIdentity,
    /// Rows of the candidate.
    pub row_count: u64,
}

/// Judges the facts of one admission. All findings are given, worst first; `Ok` only when there is none.
///
/// # Errors
/// The findings.
pub fn admit(
    names: &Names,
    rows: RowExpectation,
    declared_internal_replication: bool,
    answer: &MembersAnswer,
) -> Result<Bound, Vec<Finding>> {
    let inventory = inventory(&names.cluster, declared_internal_replication, answer).map_err(|f| vec![f])?;
    let mut judge = Judge { names, inventory: &inventory, answer, findings: Vec::new() };
    judge.complete();
    if !judge.findings.is_empty() {
        return Err(judge.findings);
    }
    judge.databases();
    let predecessor = judge.target();
    let desired = judge.candidate(predecessor.as_ref());
    let row_count = judge.convergence(rows);
    let mut findings = judge.findings;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    match (desired, row_count) {
        (Some(desired), Some(row_count)) if findings.is_empty() => {
            Ok(Bound { inventory, predecessor, desired, row_count })
        }
        _ => Err(findings),
    }
}

/// B-1, B-2: the inventory that all members agree on, from a complete answer only.
///
/// # Errors
/// The finding that stands against it.
pub fn inventory(cluster: &str, declared: bool, answer: &MembersAnswer) -> Result<Inventory, Finding> {
    if let Some(finding) = read_failures(&answer.failures) {
        return Err(finding);
    }
    let views: Vec<MemberView> = answer
        .members
        .iter()
        .map(|m| MemberView { server_uuid: m.server_uuid.clone(), rows: m.view.clone() })
        .collect();
    Inventory::agree(cluster, &views, declared).map_err(|error| match error {
        InventoryError::UnknownCluster(_) => {
            Finding::block(ErrorCode::UnsupportedTopology, "B-1", error.to_string())
        }
        ref e if e.is_topology() => Finding::block(ErrorCode::UnsupportedTopology, "B-1", error.to_string()),
        _ => Finding::block(ErrorCode::IncompleteInventory, "B-2", error.to_string()),
    })
}

/// All members that failed like the first one, as one finding; none = all answered.
pub fn read_failures(failures: &[(String, ReadFailure)]) -> Option<Finding> {
    const NAMED_MAX: usize = 8;
    let (_, first) = failures.first()?;
    let mut members: Vec<&str> =
        failures.iter().filter(|(_, failure)| failure == first).map(|(member, _)| member.as_str()).collect();
    let more = members.len().saturating_sub(NAMED_MAX);
    members.truncate(NAMED_MAX);
    let and = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(read_failure(&format!("{}{and}", members.join(", ")), *first))
}

/// The public code of a failed read.
pub fn read_failure(endpoint: &str, failure: ReadFailure) -> Finding {
    let at = |what: &str| format!("{endpoint}: {what}");
    match failure {
        ReadFailure::Unavailable => Finding::wait(
            ErrorCode::EndpointUnavailable,
            "B-2",
            at("no usable answer; check the endpoint, its TLS settings and the member"),
        ),
        ReadFailure::Credentials => Finding::block(
            ErrorCode::AccessDenied,
            "B-2",
            at("user or password refused; check the Secret of auth.secretRef"),
        ),
        ReadFailure::AccessDenied => Finding::block(
            ErrorCode::AccessDenied,
            "B-2",
            at("the user lacks a right; grant it on every member"),
        ),
        ReadFailure::NoTable => Finding::block(
            ErrorCode::AuthorityUnavailable,
            "B-5",
            at("the facade is missing; see the PublicationCluster's condition FacadeReady"),
        ),
        ReadFailure::UnknownCluster => Finding::block(
            ErrorCode::UnsupportedTopology,
            "B-1",
            at("the server does not know the cluster; check clusterName, and remote_servers there"),
        ),
        ReadFailure::Malformed => Finding::block(
            ErrorCode::EndpointUnavailable,
            "B-2",
            at("the answer does not decode; is it ClickHouse?"),
        ),
        ReadFailure::KeeperUnavailable => {
            Finding::wait(ErrorCode::AuthorityUnavailable, "B-5", at("Keeper does not answer the server"))
        }
        ReadFailure::NotActivated => Finding::wait(
            ErrorCode::AuthorityUnavailable,
            "B-5",
            at(
                "cannot activate the facade (code 668): Keeper was away at its start, or came back without it (then see docs/recovery.md, AUTHORITY_LOST)",
            ),
        ),
        ReadFailure::WrongServer => Finding::block(
            ErrorCode::IncompleteInventory,
            "B-2",
            at(
                "reaches another server than before, or one that another endpoint reaches; list one URL per server, no load balancer",
            ),
        ),
    }
}

/// How a member is named to people.
pub fn label(member: &Member) -> String {
    member.name()
}

struct Judge<'a> {
    names: &'a Names,
    inventory: &'a Inventory,
    answer: &'a MembersAnswer,
    findings: Vec<Finding>,
}

impl<'a> Judge<'a> {
    /// By replica, not as the answers came: each look says the same of the same facts.
    fn members(&self) -> impl Iterator<Item = (String, &'a MemberAnswer)> + use<'a> {
        let answers = &self.answer.members;
        self.inventory.members.iter().filter_map(move |member| {
            let its = answers.iter().find(|answer| answer.server_uuid == member.server_uuid)?;
            Some((label(member), its))
        })
    }

    /// B-2: an answer that does not speak of every name is no evidence that the name is free.
    fn complete(&mut self) {
        for (member, answer) in self.members() {
            for name in [&self.names.target, &self.names.candidate] {
                if !answer.tables.contains_key(name) {
                    let message = format!("{member} did not say what {name} is");
                    self.findings.push(Finding::wait(ErrorCode::EndpointUnavailable, "B-2", message));
                }
            }
        }
    }

    /// B-3.
    fn databases(&mut self) {
        for (member, answer) in self.members() {
            let engine = answer.database_engine.as_deref();
            if engine != Some("Atomic") {
                let found = engine.map_or("does not exist".to_owned(), |e| format!("has the engine {e}"));
                let message = format!(
                    "database: {} {found} on {member}; it must be Atomic on every member",
                    self.names.database
                );
                self.findings.push(Finding::block(ErrorCode::TargetInvalid, "B-3", message));
            }
        }
    }

    /// B-7: absent on all members, or one identity on all.
    fn target(&mut self) -> Option<GenerationIdentity> {
        let facts: Vec<(String, &TableFact)> = self.facts(&self.names.target);
        if facts.iter().all(|(_, fact)| **fact == TableFact::Absent) {
            return None;
        }
        // K04: the target is renamed too, by the exchange and again by the retire step.
        for (member, fact) in &facts {
            if let Some(macros) = refused_macro(fact) {
                let message = format!(
                    "target: its path on {member} still has {macros}, so the server refuses to rename it; rebuild it with {{uuid}}"
                );
                self.findings.push(Finding::block(ErrorCode::TargetInvalid, "B-7", message));
            }
        }
        self.one_identity(&facts, "target", &self.names.target, ErrorCode::TargetInvalid)
    }

    /// B-7: present on all with one identity, unlike the target's.
    fn candidate(&mut self, predecessor: Option<&GenerationIdentity>) -> Option<GenerationIdentity> {
        let facts = self.facts(&self.names.candidate);
        let desired =
            self.one_identity(&facts, "candidate", &self.names.candidate, ErrorCode::CandidateInvalid)?;
        let mut block = |message: String| {
            self.findings.push(Finding::block(ErrorCode::CandidateInvalid, "B-7", message));
        };
        if let Some(old) = predecessor {
            if old.uuid == desired.uuid {
                block("candidate: is the target itself (same UUID)".into());
            }
            if (&old.zookeeper_name, &old.zookeeper_path)
                == (&desired.zookeeper_name, &desired.zookeeper_path)
            {
                block("candidate: has the target's replication path; build it with a path of its own, best by {uuid}".into());
            }
        }
        let mut replicas = BTreeSet::new();
        for (member, fact) in &facts {
            if let TableFact::Generation { replica_name, .. } = fact
                && !replicas.insert(replica_name)
            {
                block(format!("candidate: {member} has the replica name of another member"));
            }
            if let Some(renames) = refused_macro(fact) {
                block(format!(
                    "candidate: its path still has {renames}, so the server refuses to rename it; use {{uuid}}"
                ));
            }
        }
        Some(desired)
    }

    fn facts(&self, name: &str) -> Vec<(String, &'a TableFact)> {
        self.members()
            .map(|(member, answer)| (member, answer.tables.get(name).unwrap_or(&TableFact::Absent)))
            .collect()
    }

    fn one_identity(
        &mut self,
        facts: &[(String, &TableFact)],
        field: &str,
        name: &str,
        code: ErrorCode,
    ) -> Option<GenerationIdentity> {
        let before = self.findings.len();
        for (member, fact) in facts {
            let found = match fact {
                TableFact::Generation { .. } => continue,
                TableFact::Absent => "is missing".to_owned(),
                TableFact::Other(NotAGeneration::Engine(engine)) => {
                    format!("is a {engine}, not of the Replicated*MergeTree family,")
                }
                TableFact::Other(NotAGeneration::Unparseable) => {
                    "has a definition that cannot be read".to_owned()
                }
                TableFact::Other(NotAGeneration::NoUuid) => "has no UUID".to_owned(),
                TableFact::Other(NotAGeneration::NotInReplicas) => "is not in system.replicas".to_owned(),
            };
            self.findings.push(Finding::block(code, "B-7", format!("{field}: {name} {found} on {member}")));
        }
        if self.findings.len() > before {
            return None;
        }
        let first = facts.first().and_then(|(_, fact)| fact.identity())?;
        let other = facts.iter().find(|(_, fact)| fact.identity() != Some(first));
        if let Some((member, _)) = other.filter(|_| !planted!(MixedCandidate)) {
            // K27: who has what is said, for a person who has to put it right.
            let each: Vec<String> = facts
                .iter()
                .filter_map(|(member, fact)| Some(format!("{} on {member}", fact.identity()?.uuid)))
                .collect();
            let message = format!(
                "{field}: {name} is another generation on {member} than on {}: {}",
                facts[0].0,
                each.join(", ")
            );
            self.findings.push(Finding::block(code, "B-7", message));
            return None;
        }
        Some(first.clone())
    }

    /// B-8.
    fn convergence(&mut self, rows: RowExpectation) -> Option<u64> {
        let expected = self.inventory.members.len() as u64;
        let mut counts = BTreeSet::new();
        for (member, answer) in self.members() {
            // A candidate that is missing is said by B-7; one that is there must have both health and count.
            let there =
                answer.tables.get(&self.names.candidate).is_some_and(|fact| fact.identity().is_some());
            if there && (answer.health.is_none() || answer.count.is_none()) {
                let message = format!("candidate: health or row count cannot be read on {member}");
                self.findings.push(Finding::wait(ErrorCode::CandidateNotConverged, "B-8", message));
            }
            let Some(health) = &answer.health else { continue };
            // K08: too few may still come. One too many is somebody else's, which no waiting mends: preflight says
            // whose, D-1 looks again.
            let replicas = expected.max(health.total_replicas);
            if let Some(field) = unhealthy(health, replicas) {
                let message = format!("candidate: {field} on {member}");
                self.findings.push(Finding::wait(ErrorCode::CandidateNotConverged, "B-8", message));
            }
            match answer.count {
                Some(count) if !rows.admits(count) => {
                    let message = format!("rows: {count} counted on {member}, expected {}", describe(rows));
                    self.findings.push(Finding::wait(ErrorCode::RowCountMismatch, "B-8", message));
                }
                Some(count) => {
                    counts.insert(count);
                }
                None => {}
            }
        }
        if counts.len() > 1 {
            let message = "candidate: members count different numbers of rows".to_owned();
            self.findings.push(Finding::wait(ErrorCode::CandidateNotConverged, "B-8", message));
        }
        counts.first().copied()
    }
}

/// K04: a macro in the path argument that makes the server refuse every rename.
fn refused_macro(fact: &TableFact) -> Option<&str> {
    let TableFact::Generation { path_macros, .. } = fact else { return None };
    path_macros.iter().map(String::as_str).find(|m| matches!(*m, "{table}" | "{database}"))
}

fn describe(rows: RowExpectation) -> String {
    match rows {
        RowExpectation::Exact(exact) => format!("exactly {exact}"),
        RowExpectation::Between { min, max: Some(max) } => format!("{min} to {max}"),
        RowExpectation::Between { min, max: None } => format!("at least {min}"),
    }
}

/// B-8: the first field that is not as a healthy replica has it.
pub fn unhealthy(h: &Health, members: u64) -> Option<String> {
    let checks = [
        (h.readonly, "is_readonly = 1".to_owned()),
        (h.session_expired, "is_session_expired = 1".to_owned()),
        (h.keeper_exception, "zookeeper_exception is set".to_owned()),
        (h.queue_exception, "last_queue_update_exception is set".to_owned()),
        (h.queue_size > 0, format!("queue_size = {}", h.queue_size)),
        (h.lost_parts > 0, format!("lost_part_count = {}", h.lost_parts)),
        (h.parts_to_check > 0, format!("parts_to_check = {}", h.parts_to_check)),
        (h.unfinished_mutations > 0, format!("{} unfinished mutations", h.unfinished_mutations)),
        (h.total_replicas != members, format!("total_replicas = {} of {members}", h.total_replicas)),
        (h.active_replicas != members, format!("active_replicas = {} of {members}", h.active_replicas)),
        (
            h.log_pointer <= h.log_max_index && h.log_max_index > 0,
            format!("log_pointer = {} behind {}", h.log_pointer, h.log_max_index),
        ),
    ];
    checks.into_iter().find(|(bad, _)| *bad).map(|(_, field)| field)
}

/// D-1: whether everything still holds as PREPARED bound it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revalidation {
    /// It does.
    Holds,
    /// It does not: release, and admit anew.
    Changed(Finding),
    /// A member cannot be read: wait (C-10).
    Unreadable(Finding),
}

/// D-1.
pub fn revalidate(
    record: &Record,
    declared_internal_replication: bool,
    answer: &MembersAnswer,
) -> Revalidation {
    if let Some(finding) = read_failures(&answer.failures) {
        return Revalidation::Unreadable(finding);
    }
    let p = &record.payload;
    match admit(&p.names, p.rows, declared_internal_replication, answer) {
        // C-10: a member that did not answer is waited for, with or without a failure to show for it.
        Err(findings) => match findings.into_iter().next() {
            Some(finding) if finding.rule == "B-2" => Revalidation::Unreadable(finding),
            Some(finding) => Revalidation::Changed(finding),
            None => changed("D-1", "the candidate cannot be judged any more"),
        },
        Ok(bound) if bound.inventory.digest() != p.inventory_digest => {
            changed("D-1", "the inventory is no longer the one that PREPARED bound")
        }
        Ok(bound) if bound.predecessor != p.predecessor => {
            changed("D-1", "target: is no longer the generation that PREPARED bound")
        }
        Ok(bound) if bound.desired != p.desired => {
            changed("D-1", "candidate: is no longer the generation that PREPARED bound")
        }
        Ok(bound) => extra_replica(bound.inventory.members.len(), answer)
            .map_or(Revalidation::Holds, Revalidation::Changed),
    }
}

/// K08.
fn extra_replica(members: usize, answer: &MembersAnswer) -> Option<Finding> {
    let found = answer.members.iter().filter_map(|m| m.health.as_ref()).map(|h| h.total_replicas).max()?;
    (found > members as u64).then(|| {
        let message = format!("candidate: {found} replicas in Keeper, the cluster has {members}");
        Finding::wait(ErrorCode::CandidateInvalid, "D-1", message)
    })
}

fn changed(rule: &'static str, message: &str) -> Revalidation {
    Revalidation::Changed(Finding::wait(ErrorCode::IdentityDrift, rule, message))
}
