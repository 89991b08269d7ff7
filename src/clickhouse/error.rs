//! Server errors as codes. Texts are read once, here, and dropped: they may quote names, values and SQL.

use publication_protocol::authority::{Mutation, MutationOutcome};
use publication_protocol::ports::ReadFailure;

/// What error 999 says of a strict write: conflicts and hardware errors share that code (C-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeeperError {
    /// Keeper refused the write: a strict INSERT found the key.
    NodeExists,
    /// Keeper refused the write: a strict UPDATE found another version.
    BadVersion,
    /// Keeper refused the write and the server does not say why, as 24.8 does. It says so only of errors that Keeper
    /// gives after looking at the data, never of hardware errors.
    Refused,
    /// Connection loss, operation timeout, expired session, or anything else: the write may have happened.
    Other,
}

/// An exception that the server reported, in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerError {
    /// ClickHouse's code.
    pub code: u32,
    /// Only with code 999.
    pub keeper: Option<KeeperError>,
}

const KEEPER_EXCEPTION: u32 = 999;

impl ServerError {
    /// Reads `Code: N. DB::Exception: …`, the form that a server gives its errors; none for anything else (a
    /// proxy's page, a bare status, a code without its text: those prove nothing).
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.trim_start().strip_prefix("Code: ")?;
        let (code, rest) = rest.split_once(". ")?;
        let (origin, message) = rest.split_once("Exception: ")?;
        if !origin.contains("::") || origin.contains(char::is_whitespace) {
            return None;
        }
        let code = code.parse().ok()?;
        Some(Self { code, keeper: (code == KEEPER_EXCEPTION).then(|| keeper_error(message)) })
    }

    /// An exception written into the body of an answer that had begun as a success.
    pub fn find(body: &str) -> Option<Self> {
        body.match_indices("Code: ").find_map(|(at, _)| Self::parse(&body[at..]))
    }
}

/// Only the message of the write's own transaction counts. The same words stand in messages about the server's
/// session with Keeper, which say nothing of the write.
fn keeper_error(message: &str) -> KeeperError {
    let Some(rest) = message.strip_prefix("Transaction failed") else { return KeeperError::Other };
    match rest.split_once(": Op #") {
        Some((" (Node exists)", _)) => KeeperError::NodeExists,
        Some((" (Bad version)", _)) => KeeperError::BadVersion,
        Some(("", _)) => KeeperError::Refused,
        _ => KeeperError::Other,
    }
}

/// Codes that a server gives before it does anything of a strict INSERT or UPDATE. A code that is missing here may
/// be given after the write as well: then nothing is known.
const REFUSED_BEFORE_WRITING: &[u32] = &[
    16,  // NO_SUCH_COLUMN_IN_TABLE
    46,  // UNKNOWN_FUNCTION
    47,  // UNKNOWN_IDENTIFIER
    60,  // UNKNOWN_TABLE
    62,  // SYNTAX_ERROR
    81,  // UNKNOWN_DATABASE
    115, // UNKNOWN_SETTING
    164, // READONLY
    192, // UNKNOWN_USER
    193, // WRONG_PASSWORD
    194, // REQUIRED_PASSWORD
    452, // SETTING_CONSTRAINT_VIOLATION
    497, // ACCESS_DENIED
    516, // AUTHENTICATION_FAILED
];

/// C-5: what an exception says about a mutation.
pub fn mutation_outcome(mutation: &Mutation, error: ServerError) -> MutationOutcome {
    match (mutation, error.keeper) {
        (Mutation::Insert(_), Some(KeeperError::NodeExists | KeeperError::Refused))
        | (Mutation::Update { .. }, Some(KeeperError::BadVersion | KeeperError::Refused)) => {
            MutationOutcome::Conflict
        }
        (_, Some(_)) => MutationOutcome::Unknown,
        (_, None) if REFUSED_BEFORE_WRITING.contains(&error.code) => MutationOutcome::Refused,
        (_, None) => MutationOutcome::Unknown,
    }
}

/// What a code says about a read. Everything else is [`ReadFailure::Unavailable`]: it may pass.
const READ_FAILURES: &[(u32, ReadFailure)] = &[
    (192, ReadFailure::Credentials),
    (193, ReadFailure::Credentials),
    (194, ReadFailure::Credentials),
    (516, ReadFailure::Credentials),
    (164, ReadFailure::AccessDenied), // READONLY: the user may not set the bounds of a read
    (452, ReadFailure::AccessDenied), // SETTING_CONSTRAINT_VIOLATION
    (497, ReadFailure::AccessDenied),
    (60, ReadFailure::NoTable),
    (81, ReadFailure::NoTable),
    (225, ReadFailure::KeeperUnavailable), // NO_ZOOKEEPER
    (242, ReadFailure::KeeperUnavailable), // TABLE_IS_READ_ONLY
    (KEEPER_EXCEPTION, ReadFailure::KeeperUnavailable),
    (16, ReadFailure::Malformed), // no such column, function, setting: not a catalog that we know
    (46, ReadFailure::Malformed),
    (47, ReadFailure::Malformed),
    (62, ReadFailure::Malformed),
    (115, ReadFailure::Malformed),
];

/// What an exception says about a read.
pub fn read_failure(error: ServerError) -> ReadFailure {
    let known = READ_FAILURES.iter().find(|(code, _)| *code == error.code);
    known.map_or(ReadFailure::Unavailable, |(_, failure)| *failure)
}
