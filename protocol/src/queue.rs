//! D-3..D-6 and E: what the distributed DDL queue says, as one type for every shape it can have.

use crate::canonical::{Canonical, Digest};
use crate::identity::{CorrelationToken, ServerUuid};
use crate::inventory::{Inventory, Member};
use crate::sqltext::{Statement, parse_statement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One row of `system.distributed_ddl_queue`: one entry on one host. Exception text is reduced to what the
/// rules ask, so that server messages cannot travel further.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueRow {
    /// Entry name (`query-0000000001`).
    pub entry: String,
    /// `settings['log_comment']`.
    pub token: String,
    /// Cluster parsed by the server from the stored text.
    pub cluster: String,
    /// Stored text.
    pub query: String,
    /// Host, as in `system.clusters.host_name`.
    pub host: Option<String>,
    /// Native port.
    pub port: Option<u16>,
    /// Raw status.
    pub status: Option<String>,
    /// Exception code.
    pub exception_code: Option<i64>,
    /// Exception text.
    pub exception_text: ExceptionText,
}

/// What is kept of an exception text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExceptionText {
    /// SQL NULL.
    Null,
    /// Empty string.
    Empty,
    /// Some text.
    Some,
}

/// E, per host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostResult {
    /// Not finished there.
    InProgress,
    /// Finished without error.
    TerminalSuccess,
    /// Finished with this error code.
    TerminalFailure(u32),
    /// Evidence that proves nothing.
    Unknown,
}

/// E: the exhaustive table.
pub fn host_result(status: Option<&str>, code: Option<i64>, text: ExceptionText) -> HostResult {
    match (status, code, text) {
        #[cfg(planted)]
        (Some("Finished"), None | Some(0), _) if planted!(FinishedWithoutCode) => HostResult::TerminalSuccess,
        (Some("Inactive" | "Active"), None, ExceptionText::Null) => HostResult::InProgress,
        (Some("Finished"), Some(0), ExceptionText::Empty) => HostResult::TerminalSuccess,
        (Some("Finished"), Some(code), ExceptionText::Some) if code > 0 => {
            u32::try_from(code).map_or(HostResult::Unknown, HostResult::TerminalFailure)
        }
        _ => HostResult::Unknown,
    }
}

/// D-6: the terminal result of one entry on every member, as stored in the record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Receipt {
    /// Error code by member; 0 = success.
    pub codes: BTreeMap<ServerUuid, u32>,
    /// C-9: older epochs keep only the digest of their codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Digest>,
}

impl Receipt {
    /// Whether every member finished without error.
    pub fn is_success(&self) -> bool {
        self.folded.is_none() && self.codes.values().all(|code| *code == 0)
    }

    /// A complete receipt.
    pub fn of(codes: BTreeMap<ServerUuid, u32>) -> Self {
        Self { codes, folded: None }
    }

    /// Keeps only the digest of the codes (C-9).
    pub fn fold(&mut self) {
        if self.folded.is_none() {
            let start = Canonical::new("receipt/v1");
            let all =
                self.codes.iter().fold(start, |d, (s, code)| d.text(s.as_str()).number(u64::from(*code)));
            self.folded = Some(all.digest());
            self.codes.clear();
        }
    }
}

/// D-4: the entry that a dispatch is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Entry name.
    pub entry: String,
    /// Digest of its stored text.
    pub query_digest: Digest,
}

/// Why the queue gives no answer (F-3: every unknown outcome carries a cause).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueDoubt {
    /// No entry has the token. Never proof that nothing was queued.
    NotFound,
    /// Several entries have the token.
    SeveralEntries,
    /// The entry is another one than the bound one.
    EntryChanged,
    /// The stored text differs between rows or from the bound digest.
    QueryChanged,
    /// The stored text is not the statement that was sent.
    ForeignStatement,
    /// Hosts are missing, duplicated, foreign or NULL (E-1).
    Hosts,
    /// A host's status or exception evidence proves nothing (E).
    Status,
    /// The queue could not be read.
    Unreadable,
}

/// The queue's answer about one dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QueueView {
    /// E-2: at least one host is not finished, none is unknown.
    InProgress {
        /// The entry.
        binding: Binding,
        /// By member.
        hosts: BTreeMap<ServerUuid, HostResult>,
    },
    /// E-2: finished everywhere.
    Terminal {
        /// The entry.
        binding: Binding,
        /// By member.
        receipt: Receipt,
    },
    /// Nothing can be said.
    Unknown(QueueDoubt),
}

/// What a dispatch is looked up by.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// Its token.
    pub token: &'a CorrelationToken,
    /// What was sent.
    pub statement: &'a Statement,
    /// What it is bound to already.
    pub bound: Option<&'a Binding>,
    /// The hosts it must have.
    pub inventory: &'a Inventory,
}

/// D-3, D-4, D-5, E: reads the rows of a scan for one dispatch. Total.
pub fn view(rows: &[QueueRow], sought: Sought<'_>) -> QueueView {
    let own: Vec<&QueueRow> = rows.iter().filter(|row| row.token == sought.token.as_str()).collect();
    #[cfg(planted)]
    let own = newest(own);
    match bind(&own, sought) {
        Ok(binding) => {
            let hosts: Vec<String> = sought.inventory.members.iter().map(Member::endpoint).collect();
            aggregate(&own, binding, sought.inventory, &hosts)
        }
        Err(doubt) => QueueView::Unknown(doubt),
    }
}

/// J-4: an entry older than a Rebound keeps its own host set, and is judged on the hosts that are still members. A host
/// that a new server took over counts: that server finds the entry in Keeper and runs it.
pub fn view_of_survivors(rows: &[QueueRow], sought: Sought<'_>, hosts: &[String]) -> QueueView {
    let own: Vec<&QueueRow> = rows.iter().filter(|row| row.token == sought.token.as_str()).collect();
    match bind(&own, sought) {
        Ok(binding) => aggregate(&own, binding, sought.inventory, hosts),
        Err(doubt) => QueueView::Unknown(doubt),
    }
}

/// `NewestOfTwoEntries`.
#[cfg(planted)]
fn newest(mut own: Vec<&QueueRow>) -> Vec<&QueueRow> {
    let newest = own.iter().map(|row| row.entry.clone()).max();
    own.retain(|row| !planted!(NewestOfTwoEntries) || Some(&row.entry) == newest.as_ref());
    own
}

fn bind(own: &[&QueueRow], sought: Sought<'_>) -> Result<Binding, QueueDoubt> {
    let entries: BTreeSet<&str> = own.iter().map(|row| row.entry.as_str()).collect();
    let mut names = entries.into_iter();
    let (Some(entry), None) = (names.next(), names.next()) else {
        return Err(if own.is_empty() { QueueDoubt::NotFound } else { QueueDoubt::SeveralEntries });
    };
    let queries: BTreeSet<&str> = own.iter().map(|row| row.query.as_str()).collect();
    let (Some(query), 1) = (queries.first(), queries.len()) else {
        return Err(QueueDoubt::QueryChanged);
    };
    let foreign_cluster = own.iter().any(|row| row.cluster != sought.statement.cluster);
    let ours = !foreign_cluster && parse_statement(query).as_ref() == Some(sought.statement);
    if !ours && !planted!(AnyStatementText) {
        return Err(QueueDoubt::ForeignStatement);
    }
    let query_digest = Canonical::new("queue-text/v1").text(query).digest();
    match sought.bound.filter(|_| !planted!(EntryMayChange)) {
        Some(bound) if bound.entry != entry => Err(QueueDoubt::EntryChanged),
        Some(bound) if bound.query_digest != query_digest => Err(QueueDoubt::QueryChanged),
        _ => Ok(Binding { entry: entry.to_owned(), query_digest }),
    }
}

/// E-1, E-2. `expected` is the entry's host set; the inventory has the members that count.
fn aggregate(own: &[&QueueRow], binding: Binding, inventory: &Inventory, expected: &[String]) -> QueueView {
    let mut seen = BTreeSet::new();
    let mut hosts = BTreeMap::new();
    for row in own {
        let (Some(host), Some(port)) = (&row.host, row.port) else {
            return QueueView::Unknown(QueueDoubt::Hosts);
        };
        let endpoint = format!("{host}:{port}");
        if !expected.contains(&endpoint) || !seen.insert(endpoint) {
            return QueueView::Unknown(QueueDoubt::Hosts);
        }
        if let Some(member) = inventory.by_endpoint(host, port) {
            let result = host_result(row.status.as_deref(), row.exception_code, row.exception_text);
            hosts.insert(member.server_uuid.clone(), result);
        }
    }
    // Nobody left who could have run it proves nothing.
    if (seen.len() != expected.len() && !planted!(MissingHostsIgnored)) || hosts.is_empty() {
        return QueueView::Unknown(QueueDoubt::Hosts);
    }
    if hosts.values().any(|result| *result == HostResult::Unknown) {
        return QueueView::Unknown(QueueDoubt::Status);
    }
    let codes: Option<BTreeMap<ServerUuid, u32>> = hosts
        .iter()
        .map(|(server, result)| match result {
            HostResult::TerminalSuccess => Some((server.clone(), 0)),
            HostResult::TerminalFailure(code) => Some((server.clone(), *code)),
            HostResult::InProgress | HostResult::Unknown => None,
        })
        .collect();
    match codes {
        Some(codes) => QueueView::Terminal { binding, receipt: Receipt::of(codes) },
        None => QueueView::InProgress { binding, hosts },
    }
}
