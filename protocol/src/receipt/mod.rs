//! The receipt of one publication: everything that can be said of it in one document, for whoever asks later. Tokens and
//! the fence are named by digest, rows are only counted. Pure: how it is kept and shown is the operator's.
//!
//! `account` is a function of the authority record. Its digest is written into that record by the very CAS that writes
//! the rest (no CAS is made for it), so that a receipt that was changed afterwards differs from what Keeper says.

mod build;
mod history;
mod live;
mod seen;
mod verify;

pub use build::{Scene, account, of};
pub use history::{HISTORY_MAX, Look, merged};
pub use live::{Live, compare};
pub use seen::{Identity, Observed, SeenMember};
pub use verify::{Flaw, verify};

use crate::canonical::{Canonical, Digest};
use crate::generation::GenerationIdentity;
use crate::identity::{Action, Names, RootId, RowExpectation, ServerUuid};
use crate::inventory::Member;
use crate::limits::VERDICTS_MAX;
use crate::phase::Phase;
use crate::queue::{Binding, Receipt};
use crate::record::{Owner, VerdictNote};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the document's schema; a reader refuses a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    /// [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Digest of all the rest.
    pub digest: Digest,
    /// Digest of `account`, as it stands in the authority record.
    pub account_digest: Digest,
    /// `_version` of that record.
    pub record_version: u64,
    /// Namespace and name of the PublicationCluster.
    pub publication_cluster: String,
    /// What the authority record says.
    pub account: Account,
    /// What the last look at the members showed; none = nobody looked for this document.
    pub observed: Option<Observed>,
    /// Versions of the record that the operator wrote or judged, oldest first.
    pub history: Vec<Look>,
    /// Version of the operator that wrote this document.
    pub operator_version: String,
    /// By member, as far as known.
    pub server_versions: BTreeMap<ServerUuid, String>,
}

/// What the authority record says of the operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Account {
    ///
    pub operation: Digest,
    /// H.
    pub phase: Phase,
    /// Dispatches so far.
    pub epoch: u64,
    /// Root of the facade.
    pub root: RootId,
    /// Cluster, database, target, candidate.
    pub names: Names,
    /// Who asked.
    pub owner: Owner,
    /// Expected rows.
    pub rows: RowExpectation,
    /// Counted rows.
    pub row_count: u64,
    ///
    pub plan_digest: Digest,
    ///
    pub inventory_digest: Digest,
    /// The bound members.
    pub members: Vec<Member>,
    /// What the target was on every member; none = absent.
    pub predecessor: Option<GenerationIdentity>,
    /// What the target was to be.
    pub desired: GenerationIdentity,
    /// Every dispatch, oldest first.
    pub dispatches: Vec<Sent>,
    /// Verdicts that took effect.
    pub verdicts: Vec<VerdictNote>,
    /// When PREPARED was written.
    pub prepared_ms: u64,
    /// When this version was written.
    pub updated_ms: u64,
    /// Code of the last stored error.
    pub error: Option<String>,
}

/// One dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sent {
    /// Epoch of its CAS.
    pub epoch: u64,
    /// What it does.
    pub action: Action,
    /// the token itself stays between record and queue.
    pub token_digest: Digest,
    /// The table it moves or drops.
    pub from: String,
    /// The name it gives; none for a drop.
    pub to: Option<String>,
    /// Wall clock of its CAS.
    pub at_ms: u64,
    /// D-4.
    pub entry: Option<Binding>,
    /// D-6: code by member, or their digest.
    pub result: Option<Receipt>,
    /// J-3: its fence was ended by verdict.
    pub cleared: bool,
    /// J-4: the hosts of its entry, where they are no longer those of the bound inventory.
    pub hosts: Option<Vec<String>>,
}

impl Account {
    /// What the authority record holds of this account.
    pub fn digest(&self) -> Digest {
        digest_of("receipt-account/v1", self)
    }

    /// Whether a verdict of this kind is among those that the record still has.
    fn decided(&self, decision: &str) -> bool {
        self.verdicts.iter().any(|verdict| verdict.decision == decision)
    }

    /// The same, or it may be one of the oldest, which a full list has dropped.
    fn may_have_decided(&self, decision: &str) -> bool {
        self.decided(decision) || self.verdicts.len() >= VERDICTS_MAX
    }
}

impl Document {
    /// With the digests of what it says.
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.account_digest = self.account.digest();
        self.digest = self.seal();
        self
    }

    /// The digest of everything but itself.
    fn seal(&self) -> Digest {
        let Self {
            schema,
            digest: _,
            account_digest,
            record_version,
            publication_cluster,
            account,
            observed,
            history,
            operator_version,
            server_versions,
        } = self;
        let more = (observed, history, operator_version, server_versions);
        Canonical::new("receipt/v1")
            .number((*schema).into())
            .bytes(account_digest.bytes())
            .number(*record_version)
            .text(publication_cluster)
            .bytes(account.digest().bytes())
            .bytes(digest_of("receipt-more/v1", &more).bytes())
            .digest()
    }

    /// As it is kept: JSON for people and programs.
    pub fn to_json(&self) -> String {
        // Strings, numbers and lists always serialise.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Reads a document strictly; whether it holds is for [`verify`].
    ///
    /// # Errors
    /// The flaw that makes it unreadable.
    pub fn parse(text: &str) -> Result<Self, Flaw> {
        let json: serde_json::Value =
            serde_json::from_str(text).map_err(|e| Flaw::new("NotADocument", format!("no JSON: {e}")))?;
        let schema = json.get("schema").and_then(serde_json::Value::as_u64);
        match schema {
            Some(schema) if schema == u64::from(SCHEMA_VERSION) => {}
            Some(newer) => {
                let message = format!("schema {newer} is not known, {SCHEMA_VERSION} is; use a newer binary");
                return Err(Flaw::new("UnknownSchema", message));
            }
            None => return Err(Flaw::new("NotADocument", "it has no schema version")),
        }
        let document: Self = serde_json::from_value(json.clone())
            .map_err(|e| Flaw::new("NotADocument", format!("not of the published schema: {e}")))?;
        // What this reader would drop, it must not vouch for.
        if serde_json::to_value(&document).ok().as_ref() != Some(&json) {
            return Err(Flaw::new("NotADocument", "it holds fields that the schema does not have"));
        }
        Ok(document)
    }
}

/// Struct fields in order, maps sorted: one text for one value.
fn digest_of<T: Serialize>(domain: &str, value: &T) -> Digest {
    Canonical::new(domain).text(&serde_json::to_string(value).unwrap_or_default()).digest()
}
