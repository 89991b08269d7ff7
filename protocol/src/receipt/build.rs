//! From a record, and what was seen of it, to the document.

use super::history::{Look, merged, words};
use super::seen::{Observed, seen_member, states};
use super::{Account, Document, SCHEMA_VERSION, Sent};
use crate::canonical::Digest;
use crate::classify::Classification;
use crate::driver::Report;
use crate::identity::ServerUuid;
use crate::phase::Phase;
use crate::record::{Dispatch, Record, Slot};
use crate::replica::MemberState;
use std::collections::BTreeMap;

/// What there is to say of an operation at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene<'a> {
    /// Namespace and name of the PublicationCluster.
    pub publication_cluster: String,
    /// The slot.
    pub slot: &'a Slot,
    /// Version that the members were looked at; none = nobody looked.
    pub looked_at: Option<u64>,
    /// By bound member.
    pub states: &'a BTreeMap<ServerUuid, MemberState>,
    /// F.
    pub class: Option<Classification>,
    /// J-1.
    pub evidence: Option<Digest>,
    /// What the operator saw before.
    pub history: Vec<Look>,
    /// Of this binary.
    pub operator_version: &'a str,
    /// By member.
    pub server_versions: BTreeMap<ServerUuid, String>,
    /// Wall clock.
    pub now_ms: u64,
}

impl<'a> Scene<'a> {
    /// Of a record that a verdict has just changed: nobody's look at the members is part of it.
    pub fn of_slot(
        slot: &'a Slot,
        publication_cluster: String,
        operator_version: &'a str,
        now_ms: u64,
    ) -> Self {
        static NOTHING: BTreeMap<ServerUuid, MemberState> = BTreeMap::new();
        Self {
            publication_cluster,
            slot,
            looked_at: None,
            states: &NOTHING,
            class: None,
            evidence: None,
            history: Vec::new(),
            operator_version,
            server_versions: BTreeMap::new(),
            now_ms,
        }
    }

    /// Of a pass; none = it does not hold the slot.
    pub fn of_report(
        report: &'a Report,
        publication_cluster: String,
        operator_version: &'a str,
        now_ms: u64,
    ) -> Option<Self> {
        Some(Self {
            publication_cluster,
            slot: report.slot.as_ref()?,
            looked_at: report.looked_at,
            states: &report.states,
            class: report.class,
            evidence: report.evidence,
            history: report.history.clone(),
            operator_version,
            server_versions: report.server_versions.clone(),
            now_ms,
        })
    }
}

/// What the record says, tokens by digest and without its fence.
pub fn account(record: &Record) -> Account {
    let p = &record.payload;
    Account {
        operation: record.operation,
        phase: record.phase,
        epoch: record.epoch,
        root: p.root,
        names: p.names.clone(),
        owner: p.owner.clone(),
        rows: p.rows,
        row_count: p.row_count,
        plan_digest: p.plan_digest,
        inventory_digest: p.inventory_digest,
        members: p.inventory.members.clone(),
        predecessor: p.predecessor.clone(),
        desired: p.desired.clone(),
        dispatches: p.dispatches.iter().map(sent).collect(),
        verdicts: p.verdicts.clone(),
        prepared_ms: p.prepared_ms,
        updated_ms: p.updated_ms,
        error: p.error.as_ref().map(|note| note.code.clone()),
    }
}

fn sent(dispatch: &Dispatch) -> Sent {
    let Dispatch { epoch, action, token, from, to, at_ms, entry, receipt, cleared, hosts } = dispatch;
    Sent {
        epoch: *epoch,
        action: *action,
        token_digest: token.digest(),
        from: from.clone(),
        to: to.clone(),
        at_ms: *at_ms,
        entry: entry.clone(),
        result: receipt.clone(),
        cleared: *cleared,
        hosts: hosts.clone(),
    }
}

/// The document. What an earlier one of the same operation knew is kept; one of a newer version of the record stands.
pub fn of(scene: Scene<'_>, earlier: Option<&Document>) -> Document {
    let Scene {
        publication_cluster,
        slot,
        looked_at,
        states: seen,
        class,
        evidence,
        history,
        operator_version,
        mut server_versions,
        now_ms,
    } = scene;
    let account = account(&slot.record);
    let earlier = earlier.filter(|earlier| earlier.account.operation == account.operation);
    if let Some(newer) = earlier.filter(|earlier| earlier.record_version > slot.version) {
        return newer.clone();
    }
    let (classification, cause) = words(class);
    let completed = account.phase == Phase::Completed;
    let observed = states(&slot.record, seen).map(|states| Observed {
        // The record's own proof is as old as the record.
        at_ms: if completed { account.updated_ms } else { now_ms },
        version: looked_at.unwrap_or(slot.version),
        classification: classification.clone(),
        cause: cause.clone(),
        evidence,
        members: account
            .members
            .iter()
            .map(|member| {
                let state = states.get(&member.server_uuid).unwrap_or(&MemberState::Unobserved);
                seen_member(&account, &member.server_uuid, state)
            })
            .collect(),
    });
    let kept = earlier.filter(|e| completed && e.account.phase == Phase::Completed);
    let observed = kept.and_then(|e| e.observed.clone()).or(observed);
    let now = last_look(slot, looked_at, (classification, cause), evidence, now_ms);
    let mut looks = merged(earlier.map(|e| e.history.as_slice()).unwrap_or_default(), &history);
    // A member that lags, or Keeper restored from a backup: what was known of later versions is not this one's.
    looks.retain(|look| look.version <= slot.version);
    if !looks.iter().any(|look| look.version == slot.version) || now.classification.is_some() {
        looks = merged(&looks, &[now]);
    }
    for (server, version) in earlier.iter().flat_map(|e| &e.server_versions) {
        server_versions.entry(server.clone()).or_insert_with(|| version.clone());
    }
    server_versions.retain(|server, _| account.members.iter().any(|m| m.server_uuid == *server));
    // Not a digest of anything yet.
    let unsealed = Digest::of_bytes(&[]);
    let document = Document {
        schema: SCHEMA_VERSION,
        digest: unsealed,
        account_digest: unsealed,
        record_version: slot.version,
        publication_cluster,
        account,
        observed,
        history: looks,
        operator_version: operator_version.to_owned(),
        server_versions,
    };
    document.sealed()
}

/// The version that the document is about. What was found at an older one is that one's, and led to this one.
fn last_look(
    slot: &Slot,
    looked_at: Option<u64>,
    (classification, cause): (Option<String>, Option<String>),
    evidence: Option<Digest>,
    at_ms: u64,
) -> Look {
    let phase: Phase = slot.record.phase;
    let plain =
        Look { at_ms, version: slot.version, phase, classification: None, cause: None, evidence: None };
    if looked_at == Some(slot.version) { Look { classification, cause, evidence, ..plain } } else { plain }
}
