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
    (701, ReadFailure::UnknownCluster),    // CLUSTER_DOESNT_EXIST
    (225, ReadFailure::KeeperUnavailable), // NO_ZOOKEEPER
    (242, ReadFailure::KeeperUnavailable), // TABLE_IS_READ_ONLY
    (668, ReadFailure::NotActivated), // INVALID_STATE: of a KeeperMap table, nothing else that we read has states
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

#[cfg(test)]
mod tests {
    use super::*;
    use publication_protocol::authority::Predicate;
    use publication_protocol::record::RawRow;

    fn insert() -> Mutation {
        Mutation::Insert(RawRow {
            target_key: String::new(),
            operation_id: String::new(),
            fence_token: String::new(),
            phase: String::new(),
            dispatch_epoch: 0,
            payload: String::new(),
            payload_sha256: String::new(),
        })
    }

    fn update() -> Mutation {
        let Mutation::Insert(row) = insert() else { unreachable!() };
        let text = String::new;
        let expected = Predicate { version: 1, operation_id: text(), fence_token: text(), phase: text() };
        Mutation::Update { row, expected }
    }

    const NODE_EXISTS: &str = "Code: 999. DB::Exception: Transaction failed (Node exists): Op #0, path: \
        /keeper_map/p/x/data/AWs=. (KEEPER_EXCEPTION) (version 26.9.2.1 (official build))";
    const BAD_VERSION: &str = "Code: 999. DB::Exception: Transaction failed (Bad version): Op #0, path: \
        /keeper_map/p/x/data/AWs=. (KEEPER_EXCEPTION) (version 26.9.2.1 (official build))";
    const OLD_INSERT: &str = "Code: 999. Coordination::Exception: Transaction failed: Op #0, path: \
        /keeper_map/p/x/data/AWs=. (KEEPER_EXCEPTION) (version 24.8.4.1 (official build))";
    const OLD_UPDATE: &str = "Code: 999. DB::Exception: Transaction failed: Op #0, path: \
        /keeper_map/p/x/data/AWs=. (KEEPER_EXCEPTION) (version 24.8.4.1 (official build))";
    const DOWN: &str = "Code: 999. DB::Exception: All connection tries failed while connecting to ZooKeeper. nodes: \
        127.0.0.1:14145\nPoco::Exception. Code: 1000, e.code() = 111, Connection refused (version 26.9.2.1), \
        127.0.0.1:14145\n: While executing StorageKeeperMapSource. (KEEPER_EXCEPTION)";

    // proves: C-5, K23
    #[test]
    fn keeper_errors_are_told_apart() {
        use MutationOutcome::{Conflict, Unknown};
        for (text, inserting, updating) in [
            (NODE_EXISTS, Conflict, Unknown),
            (BAD_VERSION, Unknown, Conflict),
            (OLD_INSERT, Conflict, Conflict),
            (OLD_UPDATE, Conflict, Conflict),
            (DOWN, Unknown, Unknown),
            (
                "Code: 999. Coordination::Exception: Connection loss, path /x. (KEEPER_EXCEPTION)",
                Unknown,
                Unknown,
            ),
            (
                "Code: 999. DB::Exception: Coordination error: Operation timeout. (KEEPER_EXCEPTION)",
                Unknown,
                Unknown,
            ),
            ("Code: 999. DB::Exception: Session expired. (KEEPER_EXCEPTION)", Unknown, Unknown),
            // About the server's session, in the words of a conflict.
            (
                "Code: 999. DB::Exception: Node exists, path: /clickhouse/sessions/x (KEEPER_EXCEPTION)",
                Unknown,
                Unknown,
            ),
            ("Code: 999. DB::Exception: Transaction failed (No node): Op #0, path: /x", Unknown, Unknown),
            (
                "Code: 999. DB::Exception: Transaction failed (Connection loss): Op #0, path: /x",
                Unknown,
                Unknown,
            ),
            ("Code: 999. DB::Exception: Transaction failed", Unknown, Unknown),
            // The words in another error.
            ("Code: 210. DB::Exception: Transaction failed (Node exists): Op #0, path: /x", Unknown, Unknown),
        ] {
            let error = ServerError::parse(text).unwrap();
            assert_eq!(mutation_outcome(&insert(), error), inserting, "INSERT: {text}");
            assert_eq!(mutation_outcome(&update(), error), updating, "UPDATE: {text}");
            let read =
                if error.code == 999 { ReadFailure::KeeperUnavailable } else { ReadFailure::Unavailable };
            assert_eq!(read_failure(error), read, "{text}");
        }
    }

    // proves: C-5, K19, K23
    #[test]
    fn codes_are_told_apart() {
        use MutationOutcome::{Refused, Unknown};
        for (code, mutation, read) in [
            (62, Refused, ReadFailure::Malformed),
            (60, Refused, ReadFailure::NoTable),
            (81, Refused, ReadFailure::NoTable),
            (115, Refused, ReadFailure::Malformed),
            (164, Refused, ReadFailure::AccessDenied),
            (192, Refused, ReadFailure::Credentials),
            (193, Refused, ReadFailure::Credentials),
            (194, Refused, ReadFailure::Credentials),
            (452, Refused, ReadFailure::AccessDenied),
            (497, Refused, ReadFailure::AccessDenied),
            (516, Refused, ReadFailure::Credentials),
            (36, Unknown, ReadFailure::Unavailable),
            (159, Unknown, ReadFailure::Unavailable),
            (202, Unknown, ReadFailure::Unavailable),
            (209, Unknown, ReadFailure::Unavailable),
            (210, Unknown, ReadFailure::Unavailable),
            (225, Unknown, ReadFailure::KeeperUnavailable),
            (241, Unknown, ReadFailure::Unavailable),
            (242, Unknown, ReadFailure::KeeperUnavailable),
            (279, Unknown, ReadFailure::Unavailable),
            (394, Unknown, ReadFailure::Unavailable),
            (668, Unknown, ReadFailure::NotActivated),
            (425, Unknown, ReadFailure::Unavailable),
            (701, Unknown, ReadFailure::UnknownCluster),
            (999, Unknown, ReadFailure::KeeperUnavailable),
            (4_000_000_000, Unknown, ReadFailure::Unavailable),
        ] {
            let error = ServerError::parse(&format!("Code: {code}. DB::Exception: text. (NAME)")).unwrap();
            assert_eq!(error.code, code);
            for asked in [insert(), update()] {
                assert_eq!(mutation_outcome(&asked, error), mutation, "{code}");
            }
            assert_eq!(read_failure(error), read, "{code}");
        }
    }

    // proves: C-5
    #[test]
    fn only_a_whole_exception_is_one() {
        for text in [
            "",
            "Code: 62",
            "Code: 62. ",
            "Code: 62. DB::Exc",
            "Code: x. DB::Exception: y",
            "Code: 99999999999. DB::Exception: y",
            "503 Service Unavailable",
            "<html>Code: 62. DB::Exception: y</html>",
            "Code: 62. some proxy's Exception: y",
            "Poco::Exception. Code: 1000, e.code() = 111, Connection refused",
        ] {
            assert_eq!(ServerError::parse(text), None, "{text}");
        }
        let net = ServerError::parse("\n Code: 279. DB::NetException: All tries failed.").unwrap();
        assert_eq!((net.code, net.keeper), (279, None));
        let late = format!("h\t9000\t0\nPoco. Code: 1000, Connection refused\n{NODE_EXISTS}");
        assert_eq!(ServerError::find(&late).unwrap().keeper, Some(KeeperError::NodeExists));
        assert_eq!(ServerError::find("127.0.0.1\t9000\t0\t\t1\t0\n"), None);
    }
}
