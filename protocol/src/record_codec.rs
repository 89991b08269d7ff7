//! C-9: the record's versioned codec: canonical JSON, strict reading, bounded size.

use crate::canonical::Digest;
use crate::identity::{Action, CorrelationToken, FenceToken, Names, Random};
use crate::limits::{
    CLEANUP_EPOCHS_MAX, ESCAPED_NAME_BYTES_MAX, FENCED_NAMES_MAX, RECENT_OPERATIONS_MAX, RECENT_RECEIPTS_MAX,
    RECORD_BYTES_MAX, VERDICTS_MAX,
};
use crate::phase::Phase;
use crate::queue::{Binding, Receipt};
use crate::record::{Dispatch, Ending, ErrorNote, Fence, RawRow, Recent, Record, VerdictNote};

/// Version of the payload's schema; a reader refuses a newer one, unharmed.
pub const SCHEMA_VERSION: u32 = 1;

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
        let payload = self.payload_text();
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

    fn payload_text(&self) -> String {
        // A struct of strings, numbers and lists always serialises.
        serde_json::to_string(&self.payload).unwrap_or_default()
    }

    /// Reads a row strictly: what it accepts, [`Self::encode`] gives back byte for byte.
    ///
    /// # Errors
    /// [`RecordError`] (C-9).
    pub fn decode(row: &RawRow) -> Result<Self, RecordError> {
        if row.payload.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Oversized(row.payload.len()));
        }
        let digest = Digest::of_bytes(row.payload.as_bytes()).to_string();
        if digest != row.payload_sha256 && !planted!(DigestUnchecked) {
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
        // C: canonical JSON. What another writer spells differently may hold what this one would drop.
        if record.payload_text() != row.payload {
            return Err(RecordError::Malformed("payload (not canonical)"));
        }
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
                hosts: None,
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
            receipt: None,
        };
        full.payload.recent = vec![widest_recent; RECENT_OPERATIONS_MAX];
        let with_receipt = full.payload.recent.iter_mut().rev().take(RECENT_RECEIPTS_MAX);
        with_receipt.for_each(|recent| recent.receipt = Some(self.operation));
        let verdict = VerdictNote {
            uid: "0".repeat(36),
            decision: "Rebaselined".into(),
            evidence: self.operation,
            at_ms: u64::MAX,
        };
        full.payload.verdicts = vec![verdict; VERDICTS_MAX];
        full.payload.error = Some(ErrorNote { code: widest });
        full.payload.receipt = Some(self.operation);
        full.encode().payload.len()
    }
}
