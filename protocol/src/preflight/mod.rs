//! B-4, B-7, B-9, K04, K08, K17, K19, K21: what an admitted operation would run into later, judged before the slot is
//! taken. A pure judgement over facts of every member.

mod dependents;
mod facts;
mod grants;

pub use grants::{DatabaseScope, cluster_rights};

pub use facts::{
    Backlog, ConfiguredDictionary, Definition, DependentKind, EntryState, FailedRead, Grant, Limits,
    MemberFacts, Policy, PreflightAnswer, PreflightAsk, ReplicaSet, TableUse,
};

use crate::admission::{Bound, Finding, Severity, label, read_failure};
use crate::code::ErrorCode;
use crate::identity::Names;
use crate::inventory::{Inventory, Member};
use crate::ports::ReadFailure;
use crate::sqltext::TableName;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What an admission asks for (see [`PreflightAsk::backlog`]).
pub fn ask(names: &Names, bound: &Bound) -> PreflightAsk {
    PreflightAsk {
        cluster: names.cluster.clone(),
        database: names.database.clone(),
        target: names.target.clone(),
        candidate: names.candidate.clone(),
        zookeeper_path: bound.desired.zookeeper_path.clone(),
        backlog: false,
    }
}

/// All findings, worst first; those of [`Severity::Warn`] hold nothing back.
pub fn judge(
    names: &Names,
    accepted: &BTreeSet<DependentKind>,
    bound: &Bound,
    answer: &PreflightAnswer,
) -> Vec<Finding> {
    let mut findings = unread(&bound.inventory, answer);
    if !findings.is_empty() {
        // A partial answer is never evidence (B-2).
        return findings;
    }
    // By replica, not as the answers came: each look says the same of the same facts.
    let its = |member: &Member| answer.members.iter().find(|f| f.server_uuid == member.server_uuid);
    let members: Vec<(String, &MemberFacts)> =
        bound.inventory.members.iter().filter_map(|m| Some((label(m), its(m)?))).collect();
    findings.extend(dependents::findings(names, accepted, &members));
    for (member, facts) in &members {
        findings.extend(grants::missing(names, bound, &answer.facade, facts, member));
        findings.extend(path_taken(names, facts, member));
        findings.extend(too_large(names, bound, facts, member));
    }
    findings.extend(replica_sets(names, bound, &members));
    findings.extend(versions(&members));
    findings.extend(backlog(&bound.inventory, &answer.backlog));
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

/// Reads that failed, with every right that is missing at an endpoint in one finding (K19); and members that said
/// nothing at all.
fn unread(inventory: &Inventory, answer: &PreflightAnswer) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut denied: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    for read in &answer.failures {
        match read.failure {
            ReadFailure::AccessDenied => {
                denied.entry(&read.endpoint).or_default().insert(read.needs);
            }
            failure => {
                failed.insert((&read.endpoint, failure));
            }
        }
    }
    for (endpoint, needs) in denied {
        let rights = needs.into_iter().collect::<Vec<_>>().join("; ");
        let message = format!("grants: {endpoint} refuses to show what admission must know; grant {rights}");
        findings.push(Finding::block(ErrorCode::AccessDenied, "B-4", message));
    }
    findings.extend(failed.into_iter().map(|(endpoint, failure)| read_failure(endpoint, failure)));
    if findings.is_empty() {
        for member in &inventory.members {
            let answers = answer.members.iter().filter(|m| m.server_uuid == member.server_uuid).count();
            if answers != 1 {
                let message = format!("{} gave {answers} answers to preflight, one expected", label(member));
                findings.push(Finding::wait(ErrorCode::EndpointUnavailable, "B-2", message));
            }
        }
    }
    findings.sort_by_key(|finding| Reverse(finding.severity));
    findings
}

/// K04: a table of another name, anywhere on a member, replicates under the candidate's path.
fn path_taken(names: &Names, facts: &MemberFacts, member: &str) -> Vec<Finding> {
    let own = TableName { database: names.database.clone(), table: names.candidate.clone() };
    let others: BTreeSet<&TableName> = facts.same_path.iter().filter(|found| **found != own).collect();
    others
        .into_iter()
        .map(|other| {
            let message = format!(
                "candidate: its replication path belongs to {}.{} on {member} as well; build it with a path of its own, best by {{uuid}}",
                other.database, other.table
            );
            Finding::block(ErrorCode::CandidateInvalid, "B-7", message)
        })
        .collect()
}

/// K21. Blocks although the publication itself would succeed: the drop would be refused for certain, and the slot
/// would be held (CLEANUP_BLOCKED) until a person acts; nothing is written before that is out of the way. The code is
/// that of a server that cannot do what a step (G-3) needs; CLEANUP_BLOCKED speaks of what is published.
fn too_large(names: &Names, bound: &Bound, facts: &MemberFacts, member: &str) -> Option<Finding> {
    bound.predecessor.as_ref()?;
    let limit = facts.limits.drop_bytes_max;
    let bytes = facts.tables.iter().find(|t| t.name == names.target)?.bytes;
    (limit > 0 && bytes > limit).then(|| {
        let message = format!(
            "target: {} has {bytes} bytes on {member}, where max_table_size_to_drop is {limit}: its drop after the publication would be refused (359); raise the limit there",
            names.target
        );
        Finding::block(ErrorCode::CapabilityMissing, "G-3", message)
    })
}

/// B-7, K08: the replicas in Keeper are exactly the members' own.
fn replica_sets(names: &Names, bound: &Bound, members: &[(String, &MemberFacts)]) -> Vec<Finding> {
    let target = bound.predecessor.is_some().then_some(("target", &names.target, ErrorCode::TargetInvalid));
    let candidate = ("candidate", &names.candidate, ErrorCode::CandidateInvalid);
    let mut findings = Vec::new();
    for (field, name, code) in target.into_iter().chain([candidate]) {
        let of = |facts: &MemberFacts| facts.replicas.iter().find(|set| set.table == *name).cloned();
        let unread: Vec<&str> =
            members.iter().filter(|(_, f)| of(f).is_none()).map(|(m, _)| m.as_str()).collect();
        if !unread.is_empty() {
            // Without one member's word, another's replica would look like a stranger's.
            let message = format!("{field}: the replicas of {name} cannot be read on {}", unread.join(", "));
            findings.push(Finding::wait(ErrorCode::EndpointUnavailable, "B-2", message));
            continue;
        }
        let own: BTreeSet<String> = members.iter().filter_map(|(_, f)| of(f).map(|set| set.own)).collect();
        for (member, facts) in members {
            let Some(set) = of(facts) else { continue };
            let mut strangers: Vec<&str> =
                set.names.iter().filter(|n| !own.contains(*n)).map(String::as_str).collect();
            strangers.sort_unstable();
            if set.total == members.len() as u64 && strangers.is_empty() {
                continue;
            }
            let who =
                if strangers.is_empty() { String::new() } else { format!(" ({})", strangers.join(", ")) };
            let message = format!(
                "{field}: {name} has {} replicas in Keeper, the cluster has {}, by {member}; remove what is no member{who}",
                set.total,
                members.len(),
            );
            findings.push(Finding::block(code, "B-7", message));
        }
    }
    findings
}

/// B-4: servers that are being upgraded may print one table in two ways (J-5), so it is said.
fn versions(members: &[(String, &MemberFacts)]) -> Option<Finding> {
    let versions: BTreeSet<&str> = members.iter().map(|(_, facts)| facts.server_version.as_str()).collect();
    (versions.len() > 1).then(|| {
        let each: Vec<String> =
            members.iter().map(|(member, facts)| format!("{} on {member}", facts.server_version)).collect();
        let message = format!("server versions differ: {}", each.join(", "));
        Finding { severity: Severity::Warn, code: ErrorCode::CapabilityMissing, rule: "B-4", message }
    })
}

/// K13: each host runs its entries in order, so an older one delays ours. It is waited for like our own, hence said
/// and not held against the operation.
pub fn backlog(inventory: &Inventory, entries: &[Backlog]) -> Vec<Finding> {
    let mut oldest: BTreeMap<(&str, u16), &Backlog> = BTreeMap::new();
    for entry in entries {
        let at = oldest.entry((&entry.host, entry.port)).or_insert(entry);
        if entry.age_s > at.age_s {
            *at = entry;
        }
    }
    let ours = oldest.into_iter().filter_map(|((host, port), entry)| {
        let member = inventory.by_endpoint(host, port)?;
        let message = format!(
            "DDL queue: {} is unfinished on {} since {} s; a statement of ours would wait behind it",
            entry.entry,
            label(member),
            entry.age_s
        );
        Some(Finding { severity: Severity::Warn, code: ErrorCode::EndpointUnavailable, rule: "D-2", message })
    });
    ours.collect()
}
