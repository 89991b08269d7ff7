//! C: the authority record and its versioned codec.

use crate::canonical::Digest;
use crate::generation::GenerationIdentity;
use crate::identity::{Action, CorrelationToken, FenceToken, Names, RootId, RowExpectation, target_key};
use crate::inventory::Inventory;
use crate::limits::{RECENT_OPERATIONS_MAX, RECENT_RECEIPTS_MAX};
use crate::phase::Phase;
use crate::queue::{Binding, QueueRow, QueueView, Receipt, Sought, view, view_of_survivors};
use crate::receipt::account;
use crate::sqltext::{Ddl, Statement, TableName};
use serde::{Deserialize, Serialize};

pub use crate::record_codec::{RecordError, SCHEMA_VERSION};

/// A control row as written, typed columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RawRow {
    /// Primary key.
    pub target_key: String,
    /// Operation holding the slot.
    pub operation_id: String,
    /// Its fence.
    pub fence_token: String,
    /// Its phase.
    pub phase: String,
    /// Dispatches so far.
    pub dispatch_epoch: u64,
    /// Canonical JSON.
    pub payload: String,
    /// SHA-256 of `payload`, hex.
    pub payload_sha256: String,
}

/// A control row as read, with KeeperMap's `_version`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VersionedRow {
    /// The columns.
    pub row: RawRow,
    /// `_version`: the CAS version (C-1).
    pub version: u64,
}

/// Who asked for an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Owner {
    /// UID of the Kubernetes cluster (its kube-system namespace).
    pub kube_uid: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    pub uid: String,
    /// Creation time of the object, wall clock; compared only within one Kubernetes cluster.
    pub created_ms: u64,
}

/// One dispatch of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dispatch {
    /// Epoch of its CAS.
    pub epoch: u64,
    /// What it does.
    pub action: Action,
    /// Its token.
    pub token: CorrelationToken,
    /// The table it moves or drops (publish: the candidate's name).
    pub from: String,
    /// The name it gives; none for a drop.
    pub to: Option<String>,
    /// Wall clock of its CAS, for people.
    pub at_ms: u64,
    /// D-4.
    pub entry: Option<Binding>,
    /// D-6.
    pub receipt: Option<Receipt>,
    /// J-3: a verdict ended the fence of this unaccounted epoch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleared: bool,
    /// J-4: the hosts of its entry (`host:port`), where they are no longer those of the bound inventory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

impl Dispatch {
    /// G-4: terminal on every member.
    pub fn is_accounted(&self) -> bool {
        self.receipt.is_some()
    }
}

/// G-4: a name that a late statement might still move.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fence {
    /// The name.
    pub name: String,
    /// Operation of the unaccounted dispatch.
    pub operation: Digest,
    /// Its epoch.
    pub epoch: u64,
    /// Its token.
    pub token: CorrelationToken,
}

/// How an operation of the slot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Published and proved.
    Completed,
    /// Nothing dispatched, or known not sent: its candidate's name is not spent.
    Released,
    /// By verdict.
    Abandoned,
}

/// One of the last operations of the slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recent {
    /// The operation.
    pub operation: Digest,
    /// Its candidate's name.
    pub candidate: String,
    /// How it ended.
    pub ending: Ending,
    /// Digest of the generation it was to publish.
    pub desired: Digest,
    /// Kubernetes cluster of its owner.
    pub kube_uid: String,
    /// Creation time of its owner.
    pub created_ms: u64,
    /// `_version` of its last record.
    pub final_version: u64,
    /// Digest of its receipt's account of that record, of the last few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Digest>,
}

/// J: a verdict that took effect.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerdictNote {
    /// UID of the PublicationVerdict.
    pub uid: String,
    /// Its decision.
    pub decision: String,
    /// The evidence that it named.
    pub evidence: Digest,
    /// When it was stored.
    pub at_ms: u64,
}

/// C: a stable error summary, a code of section I.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorNote {
    /// The code.
    pub code: String,
}

/// What the payload column holds, as canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Payload {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Who asked.
    pub owner: Owner,
    /// Root of the facade.
    pub root: RootId,
    /// Cluster, database, target, candidate.
    pub names: Names,
    /// Expected rows.
    pub rows: RowExpectation,
    /// Counted rows.
    pub row_count: u64,
    ///
    pub plan_digest: Digest,
    ///
    pub inventory_digest: Digest,
    /// The members bound by PREPARED.
    pub inventory: Inventory,
    /// What the target was; none = absent.
    pub predecessor: Option<GenerationIdentity>,
    /// What the target is to be.
    pub desired: GenerationIdentity,
    /// Every dispatch, oldest first.
    pub dispatches: Vec<Dispatch>,
    /// Inherited by later operations of the slot, ended only by verdict.
    pub fenced: Vec<Fence>,
    /// Oldest first.
    pub recent: Vec<Recent>,
    /// Verdicts on this operation.
    pub verdicts: Vec<VerdictNote>,
    /// When PREPARED was written.
    pub prepared_ms: u64,
    /// When this version was written.
    pub updated_ms: u64,
    /// Last error.
    pub error: Option<ErrorNote>,
    /// Digest of the receipt's account of this record ([`crate::receipt`]); none = written before there were receipts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Digest>,
}

/// A decoded record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// The operation that holds the slot.
    pub operation: Digest,
    /// Its fence.
    pub fence: FenceToken,
    /// Its phase.
    pub phase: Phase,
    /// Its dispatches so far.
    pub epoch: u64,
    /// The rest.
    pub payload: Payload,
}

/// A record with the version it was read at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The record.
    pub record: Record,
    /// C-1.
    pub version: u64,
}

impl Record {
    /// With the digest of its receipt: what every CAS writes.
    pub(crate) fn sealed(mut self) -> Self {
        self.payload.receipt = Some(account(&self).digest());
        self
    }

    /// the row's key.
    pub fn key(&self) -> Digest {
        let names = &self.payload.names;
        target_key(self.payload.root, &names.cluster, &names.database, &names.target)
    }

    /// The dispatch of the present epoch.
    pub fn last_dispatch(&self) -> Option<&Dispatch> {
        self.payload.dispatches.last()
    }

    /// Tokens of dispatches without a stored receipt: what a queue scan asks for.
    pub fn open_tokens(&self) -> Vec<CorrelationToken> {
        self.payload.dispatches.iter().filter(|d| !d.is_accounted()).map(|d| d.token.clone()).collect()
    }

    /// Retired names, with whether the epoch that gave them is accounted for.
    pub fn retired_names(&self) -> impl Iterator<Item = (&str, bool)> {
        let retires = self.payload.dispatches.iter().filter(|d| d.action == Action::Retire);
        retires.filter_map(|d| d.to.as_deref().map(|name| (name, d.is_accounted())))
    }

    /// Every name that this operation can have given or taken.
    pub fn all_names(&self) -> Vec<String> {
        let names = &self.payload.names;
        let mut all = vec![names.target.clone(), names.candidate.clone()];
        all.extend(self.retired_names().map(|(name, _)| name.to_owned()));
        all
    }

    /// The statement of a dispatch, rebuilt from the record: what its entry must parse to.
    pub fn statement(&self, dispatch: &Dispatch) -> Statement {
        let names = &self.payload.names;
        let table = |table: &str| TableName { database: names.database.clone(), table: table.to_owned() };
        let ddl = match (dispatch.action, &dispatch.to, &self.payload.predecessor) {
            (Action::Publish, _, Some(_)) => {
                Ddl::Exchange { target: table(&names.target), candidate: table(&names.candidate) }
            }
            (Action::Publish, ..) => Ddl::Rename { from: table(&names.candidate), to: table(&names.target) },
            (Action::Retire, Some(to), _) => Ddl::Rename { from: table(&dispatch.from), to: table(to) },
            (Action::Retire | Action::Drop | Action::Bootstrap, ..) => {
                Ddl::DropIfExists { table: table(&dispatch.from) }
            }
        };
        Statement { ddl, cluster: names.cluster.clone() }
    }

    /// D-3..D-6: what the rows of a scan say of one dispatch; after a Rebound, of its own hosts that survive.
    pub fn queue_view(&self, dispatch: &Dispatch, rows: &[QueueRow]) -> QueueView {
        let sought = Sought {
            token: &dispatch.token,
            statement: &self.statement(dispatch),
            bound: dispatch.entry.as_ref(),
            inventory: &self.payload.inventory,
        };
        match &dispatch.hosts {
            Some(hosts) => view_of_survivors(rows, sought, hosts),
            None => view(rows, sought),
        }
    }

    /// G-4, G-5: fences that this operation leaves behind, inherited ones first.
    pub fn fences(&self) -> Vec<Fence> {
        // RELEASED = known not sent (C-12): nothing can arrive late.
        let open = |d: &&Dispatch| self.phase != Phase::Released && !d.is_accounted() && !d.cleared;
        let own = self.payload.dispatches.iter().filter(open).map(|d| Fence {
            name: d.from.clone(),
            operation: self.operation,
            epoch: d.epoch,
            token: d.token.clone(),
        });
        self.payload.fenced.iter().cloned().chain(own).collect()
    }

    /// The list that the next operation of the slot inherits.
    pub fn recent_with_self(&self, version: u64) -> Vec<Recent> {
        let ending = match self.phase {
            Phase::Completed => Ending::Completed,
            Phase::Abandoned => Ending::Abandoned,
            _ => Ending::Released,
        };
        // One place for an operation: its own releases must not push spent names out of the list.
        let mut recent = self.payload.recent.clone();
        recent.retain(|r| r.operation != self.operation || r.ending != Ending::Released);
        recent.push(Recent {
            operation: self.operation,
            candidate: self.payload.names.candidate.clone(),
            ending,
            desired: self.payload.desired.digest(),
            kube_uid: self.payload.owner.kube_uid.clone(),
            created_ms: self.payload.owner.created_ms,
            final_version: version,
            receipt: self.payload.receipt,
        });
        let surplus = recent.len().saturating_sub(RECENT_OPERATIONS_MAX);
        recent.drain(..surplus);
        // C-9: older ones keep the summary alone.
        recent.iter_mut().rev().skip(RECENT_RECEIPTS_MAX).for_each(|old| old.receipt = None);
        recent
    }
}
