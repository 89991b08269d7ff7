//! C: the authority record and its versioned codec.

use crate::canonical::Digest;
use crate::generation::GenerationIdentity;
use crate::identity::{
    Action, CorrelationToken, FenceToken, Names, Random, RootId, RowExpectation, target_key,
};
use crate::inventory::Inventory;
use crate::limits::{
    CLEANUP_EPOCHS_MAX, ESCAPED_NAME_BYTES_MAX, FENCED_NAMES_MAX, RECENT_OPERATIONS_MAX, RECORD_BYTES_MAX,
    VERDICTS_MAX,
};
use crate::phase::Phase;
use crate::queue::{Binding, Receipt};
use crate::sqltext::{Ddl, Statement, TableName};
use serde::{Deserialize, Serialize};

/// Version of the payload's schema; a reader refuses a newer one, unharmed.
pub const SCHEMA_VERSION: u32 = 1;

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

/// C-9: `AUTHORITY_MALFORMED`; never overwritten by the operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RecordError {
    /// The digest column is not that of the payload.
    #[error("payload_sha256 does not match the payload")]
    DigestMismatch,
    /// Over the limit.
    #[error("{0} bytes of payload, at most {RECORD_BYTES_MAX} allowed")]
    Oversized(usize),
    /// Not this schema.
    #[error(
        "schema version {0} is not known to this operator (it knows {SCHEMA_VERSION}); upgrade the operator"
    )]
    UnknownVersion(u64),
    /// Some column or field is not of its form.
    #[error("{0} is malformed")]
    Malformed(&'static str),
}

impl Record {
    /// The columns to write.
    pub fn encode(&self) -> RawRow {
        // A struct of strings, numbers and lists always serialises.
        let payload = serde_json::to_string(&self.payload).unwrap_or_default();
        RawRow {
            target_key: self.key().to_string(),
            operation_id: self.operation.to_string(),
            fence_token: self.fence.to_string(),
            phase: self.phase.as_str().to_owned(),
            dispatch_epoch: self.epoch,
            payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
            payload,
        }
    }

    /// the row's key.
    pub fn key(&self) -> Digest {
        let names = &self.payload.names;
        target_key(self.payload.root, &names.cluster, &names.database, &names.target)
    }

    /// Reads a row strictly.
    ///
    /// # Errors
    /// [`RecordError`] (C-9).
    pub fn decode(row: &RawRow) -> Result<Self, RecordError> {
        if row.payload.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Oversized(row.payload.len()));
        }
        if Digest::of_bytes(row.payload.as_bytes()).to_string() != row.payload_sha256 {
            return Err(RecordError::DigestMismatch);
        }
        let json: serde_json::Value =
            serde_json::from_str(&row.payload).map_err(|_| RecordError::Malformed("payload"))?;
        let schema =
            json.get("schema").and_then(serde_json::Value::as_u64).ok_or(RecordError::Malformed("schema"))?;
        if schema != u64::from(SCHEMA_VERSION) {
            return Err(RecordError::UnknownVersion(schema));
        }
        let record = Self {
            operation: Digest::try_from(row.operation_id.clone())
                .map_err(|_| RecordError::Malformed("operation_id"))?,
            fence: FenceToken::try_from(row.fence_token.clone())
                .map_err(|_| RecordError::Malformed("fence_token"))?,
            phase: Phase::parse(&row.phase).ok_or(RecordError::Malformed("phase"))?,
            epoch: row.dispatch_epoch,
            payload: serde_json::from_value(json).map_err(|_| RecordError::Malformed("payload"))?,
        };
        record.check(row)?;
        Ok(record)
    }

    fn check(&self, row: &RawRow) -> Result<(), RecordError> {
        let p = &self.payload;
        let names = &p.names;
        if self.key().to_string() != row.target_key {
            return Err(RecordError::Malformed("target_key"));
        }
        if Names::new(&names.cluster, &names.database, &names.target, &names.candidate).is_err() {
            return Err(RecordError::Malformed("names"));
        }
        if p.inventory.digest() != p.inventory_digest || p.inventory.members.len() < 2 {
            return Err(RecordError::Malformed("inventory"));
        }
        let epochs_match = p.dispatches.iter().map(|d| d.epoch).eq(1..=self.epoch);
        let publish_first =
            p.dispatches.iter().enumerate().all(|(at, d)| (at == 0) == (d.action == Action::Publish));
        let last = p.dispatches.last().map(|d| d.action);
        let phase_matches = match self.phase {
            Phase::Prepared => last.is_none(),
            Phase::Released => self.epoch <= 1,
            Phase::Dispatching | Phase::InProgress | Phase::Committed => self.epoch == 1,
            Phase::RetireDispatching | Phase::RetirePending => last == Some(Action::Retire),
            Phase::DropDispatching | Phase::DropPending => last == Some(Action::Drop),
            Phase::Completed | Phase::Abandoned => last.is_some(),
        };
        if !epochs_match || !publish_first || !phase_matches {
            return Err(RecordError::Malformed("dispatches"));
        }
        if p.fenced.len() > FENCED_NAMES_MAX || p.recent.len() > RECENT_OPERATIONS_MAX {
            return Err(RecordError::Malformed("fenced or recent"));
        }
        Ok(())
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

    /// C-9: the payload's size when every list is full, for admission.
    pub fn worst_case_bytes(&self) -> usize {
        let mut full = self.clone();
        let codes =
            self.payload.inventory.members.iter().map(|m| (m.server_uuid.clone(), u32::MAX)).collect();
        let receipt = Receipt::of(codes);
        // As JSON a name is never longer than its escaped form, which a retired name may fill.
        let widest = "c".repeat(ESCAPED_NAME_BYTES_MAX);
        let token = CorrelationToken::draw(self.operation, Action::Bootstrap, u64::MAX, &Random([0; 32]));
        let dispatch = |at: u64| {
            let mut receipt = Some(receipt.clone());
            if at > 1 && at < CLEANUP_EPOCHS_MAX {
                receipt.iter_mut().for_each(Receipt::fold);
            }
            Dispatch {
                epoch: u64::MAX,
                action: Action::Publish,
                token: token.clone(),
                from: widest.clone(),
                to: Some(widest.clone()),
                at_ms: u64::MAX,
                entry: Some(Binding { entry: "query-0000000000".into(), query_digest: self.operation }),
                receipt,
                cleared: true,
            }
        };
        full.payload.dispatches = (1..=CLEANUP_EPOCHS_MAX + 1).map(dispatch).collect();
        full.payload.fenced = (0..FENCED_NAMES_MAX)
            .map(|_| Fence {
                name: widest.clone(),
                operation: self.operation,
                epoch: u64::MAX,
                token: token.clone(),
            })
            .collect();
        let widest_recent = Recent {
            operation: self.operation,
            candidate: widest.clone(),
            ending: Ending::Completed,
            desired: self.operation,
            kube_uid: self.payload.owner.kube_uid.clone(),
            created_ms: u64::MAX,
            final_version: u64::MAX,
        };
        full.payload.recent = vec![widest_recent; RECENT_OPERATIONS_MAX];
        let verdict = VerdictNote {
            uid: "0".repeat(36),
            decision: "Rebaselined".into(),
            evidence: self.operation,
            at_ms: u64::MAX,
        };
        full.payload.verdicts = vec![verdict; VERDICTS_MAX];
        full.payload.error = Some(ErrorNote { code: widest });
        full.encode().payload.len()
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
        });
        let surplus = recent.len().saturating_sub(RECENT_OPERATIONS_MAX);
        recent.drain(..surplus);
        recent
    }
}
