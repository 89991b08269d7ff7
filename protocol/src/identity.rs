//! A: validated names, operation and target identities, fence and correlation tokens.

use crate::canonical::{Canonical, Digest, decode_hex};
use crate::limits;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Separates a target's name from the free part of its candidates.
pub const CANDIDATE_INFIX: &str = "__pub_";
/// Separates a target's name from the random part of a retired predecessor.
pub const RETIRED_INFIX: &str = "__retired_";
/// Begins every correlation token, whatever the operation.
pub const TOKEN_PREFIX: &str = "chpub1";

/// Why a name cannot be used. The operator maps these to `SPEC_INVALID` and `NAME_TOO_LONG`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, over 200 bytes, or holding a control character.
    #[error("{field}: a name has 1 to {} bytes and no control characters", limits::NAME_BYTES_MAX)]
    Malformed {
        /// The manifest's field.
        field: &'static str,
    },
    /// The target's name holds an infix that is reserved for generations.
    #[error("target: must contain neither `__pub_` nor `__retired_` (A-8); rename the target")]
    ReservedInfix,
    /// The candidate is not `<target>__pub_<suffix>`.
    #[error(
        "candidate: must be the target's name, then `__pub_`, then a suffix that begins with a letter or digit (A-8)"
    )]
    NotACandidate,
    /// A table of this name could be created but never dropped.
    #[error(
        "{field}: {bytes} escaped bytes with its database, {} allowed; shorten it",
        limits::ESCAPED_NAME_BYTES_MAX
    )]
    TooLong {
        /// Which name.
        field: &'static str,
        /// Escaped bytes of database and table together.
        bytes: usize,
    },
}

/// The names of one operation, proved to obey A-8 when built.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Names {
    /// Cluster name in `system.clusters`.
    pub cluster: String,
    /// Database of target, candidate and retired names.
    pub database: String,
    /// The published name.
    pub target: String,
    /// The name under which the new generation was built.
    pub candidate: String,
}

impl Names {
    /// Checks the names of a manifest (A-8, K02).
    ///
    /// # Errors
    /// [`NameError`], naming the field and the remedy.
    pub fn new(cluster: &str, database: &str, target: &str, candidate: &str) -> Result<Self, NameError> {
        let fields =
            [("clusterName", cluster), ("database", database), ("target", target), ("candidate", candidate)];
        for (field, name) in fields {
            if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return Err(NameError::Malformed { field });
            }
        }
        let reserved = target.contains(CANDIDATE_INFIX) || target.contains(RETIRED_INFIX);
        if reserved && !planted!(AnyTargetName) {
            return Err(NameError::ReservedInfix);
        }
        let suffix = candidate.strip_prefix(target).and_then(|rest| rest.strip_prefix(CANDIDATE_INFIX));
        let begins_well = |first: char| first.is_alphanumeric() || planted!(AnyCandidateSuffix);
        if !suffix.and_then(|s| s.chars().next()).is_some_and(begins_well) {
            return Err(NameError::NotACandidate);
        }
        let retired = format!("{target}{RETIRED_INFIX}{}", "0".repeat(2 * RETIRED_RANDOM_BYTES));
        for (field, name) in [("target", target), ("candidate", candidate), ("retired name", &retired)] {
            let bytes = escaped_bytes(database) + escaped_bytes(name);
            if bytes > limits::ESCAPED_NAME_BYTES_MAX {
                return Err(NameError::TooLong { field, bytes });
            }
        }
        Ok(Self {
            cluster: cluster.to_owned(),
            database: database.to_owned(),
            target: target.to_owned(),
            candidate: candidate.to_owned(),
        })
    }

    /// A fresh retired name: 64 random bits, so that no two retire epochs share one.
    pub fn retired(&self, random: &Random) -> String {
        format!("{}{RETIRED_INFIX}{}", self.target, hex(&random.0[..RETIRED_RANDOM_BYTES]))
    }
}

const RETIRED_RANDOM_BYTES: usize = 8;

/// Length of a name as a server writes it into a file name: everything but ASCII letters, digits and `_` is `%XX`.
pub fn escaped_bytes(name: &str) -> usize {
    name.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'_' { 1 } else { 3 }).sum()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// 256 bits from the operating system, drawn outside and handed in: the core has no randomness of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Random(pub [u8; 32]);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

macro_rules! hex_token {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 16]);

        impl $name {
            /// Draws a new one.
            pub fn draw(random: &Random) -> Self {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&random.0[..16]);
                Self(bytes)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl TryFrom<String> for $name {
            type Error = NotAToken;
            fn try_from(text: String) -> Result<Self, NotAToken> {
                let mut bytes = [0; 16];
                decode_hex(&text, &mut bytes).ok_or(NotAToken)?;
                Ok(Self(bytes))
            }
        }
        impl From<$name> for String {
            fn from(token: $name) -> Self {
                token.to_string()
            }
        }
    };
}

/// The text is not a token of the expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a token of the expected form")]
pub struct NotAToken;

hex_token! {
    /// Ends the Keeper root of a facade (B-5): drawn once, at bootstrap.
    RootId
}
hex_token! {
    /// new each time an operation takes the slot.
    FenceToken
}

/// one Keeper row per target, for ever.
pub fn target_key(root: RootId, cluster: &str, database: &str, target: &str) -> Digest {
    Canonical::new("target-key/v1").text(&root.to_string()).text(cluster).text(database).text(target).digest()
}

/// Where the identity of an invocation comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Invocation {
    /// `spec.invocationId`: stable when the object is deleted and created again.
    Given(String),
    /// The object's UID.
    Object(String),
}

/// How many rows the candidate must have; checked at admission and again right before dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RowExpectation {
    /// Exactly this many; `0` says that empty is meant.
    Exact(u64),
    /// A closed range.
    Between {
        /// At least.
        min: u64,
        /// At most; none = no bound.
        max: Option<u64>,
    },
}

impl RowExpectation {
    /// Whether a count meets the expectation.
    pub fn admits(self, count: u64) -> bool {
        match self {
            Self::Exact(exact) => count == exact,
            Self::Between { min, max } => count >= min && max.is_none_or(|max| count <= max),
        }
    }
}

/// what is to be done, without who does it: (candidate name, row expectation).
pub fn plan_digest(candidate: &str, rows: RowExpectation) -> Digest {
    let plan = Canonical::new("plan/v1").text(candidate);
    match rows {
        RowExpectation::Exact(exact) => plan.text("exact").number(exact),
        RowExpectation::Between { min, max } => {
            plan.text("between").number(min).maybe(max.map(|m| m.to_string()).as_deref())
        }
    }
    .digest()
}

/// stable across restarts, workers and retries of the same intent.
pub fn operation_id(
    kube_uid: &str,
    namespace: &str,
    invocation: &Invocation,
    plan: Digest,
    root: RootId,
    names: &Names,
) -> Digest {
    let (kind, value) = match invocation {
        Invocation::Given(id) => ("invocation", id),
        Invocation::Object(uid) => ("object", uid),
    };
    Canonical::new("operation/v1")
        .text(kind)
        .text(kube_uid)
        .text(namespace)
        .text(value)
        .bytes(plan.bytes())
        .text(&root.to_string())
        .text(&names.cluster)
        .text(&names.database)
        .text(&names.target)
        .digest()
}

/// What a distributed statement does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Creates the facade (B-6); needs no permit, since repeating it is harmless.
    Bootstrap,
    /// The one EXCHANGE or RENAME.
    Publish,
    /// Cleanup, first step: the predecessor gets a name that nothing else can bear.
    Retire,
    /// Cleanup, second step.
    Drop,
}

impl Action {
    /// As written in tokens.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Publish => "publish",
            Self::Retire => "retire",
            Self::Drop => "drop",
        }
    }
}

/// opaque, at most 200 bytes of `[A-Za-z0-9:_-]`, a new one for each dispatch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CorrelationToken(String);

impl CorrelationToken {
    /// Draws the token of one dispatch.
    pub fn draw(operation: Digest, action: Action, epoch: u64, random: &Random) -> Self {
        Self(format!("{TOKEN_PREFIX}:{operation}:{}:{epoch}:{}", action.as_str(), hex(&random.0[16..])))
    }

    /// The token as it stands in `log_comment`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The query_id of the dispatch (D-2): derived, so that a running statement can be found by it.
    pub fn query_id(&self) -> String {
        format!("{TOKEN_PREFIX}-{}", &Canonical::new("query-id/v1").text(&self.0).digest().to_string()[..32])
    }

    /// What may be shown: the token itself stays between record and queue.
    pub fn digest(&self) -> Digest {
        Canonical::new("token/v1").text(&self.0).digest()
    }
}

impl fmt::Debug for CorrelationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorrelationToken({})", self.digest().short())
    }
}

impl TryFrom<String> for CorrelationToken {
    type Error = NotAToken;

    fn try_from(text: String) -> Result<Self, NotAToken> {
        let fits = text.len() <= limits::TOKEN_BYTES_MAX && text.starts_with(TOKEN_PREFIX);
        let clean = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'-'));
        if fits && clean { Ok(Self(text)) } else { Err(NotAToken) }
    }
}

impl From<CorrelationToken> for String {
    fn from(token: CorrelationToken) -> Self {
        token.0
    }
}

macro_rules! text_identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(String);

        impl $name {
            /// Takes a UUID in its usual form; `None` for anything else and for the nil UUID, which identifies nothing.
            pub fn parse(text: &str) -> Option<Self> {
                let groups: Vec<&str> = text.split('-').collect();
                let shaped = groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12]);
                let hex = text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
                let nil = text.bytes().all(|b| matches!(b, b'0' | b'-'));
                (shaped && hex && !nil).then(|| Self(text.to_ascii_lowercase()))
            }
            /// The UUID, lower case.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_identity! {
    /// `serverUUID()` of one member: the identity that rows are attributed by (B-2).
    ServerUuid
}
text_identity! {
    /// UUID of a table in an Atomic database.
    TableUuid
}
