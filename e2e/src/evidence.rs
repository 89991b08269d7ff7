//! What the tests count: statements at the proxies, calls at the API server, the slot's row in Keeper.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::keeper::KeeperRow;
use crate::kubernetes::{ApiCall, GROUP};
use crate::proxy::{Record, StatementKind};

fn is_on_cluster(record: &Record) -> bool {
    record.statement.text.contains("ON CLUSTER")
}

/// Versioned writes of the authority: strict INSERT and `ALTER … UPDATE`. The binding row that the PublicationCluster's
/// bootstrap inserts is one too: clear the logs once the cluster is ready.
pub fn authority_mutations(records: &[Record]) -> Vec<&Record> {
    let writes = |r: &&Record| {
        matches!(r.statement.kind, StatementKind::Insert | StatementKind::Update) && !is_on_cluster(r)
    };
    records.iter().filter(writes).collect()
}

/// Statements for all members, of one kind or of any.
pub fn dispatches(records: &[Record], kind: Option<StatementKind>) -> Vec<&Record> {
    let wanted = |r: &&Record| {
        let of_kind = kind.is_none_or(|kind| kind == r.statement.kind);
        r.statement.kind.is_mutation() && is_on_cluster(r) && of_kind
    };
    records.iter().filter(wanted).collect()
}

/// Reads of the DDL queue.
pub fn queue_scans(records: &[Record]) -> Vec<&Record> {
    let scans = |r: &&Record| {
        r.statement.kind == StatementKind::Select && r.statement.text.contains("distributed_ddl_queue")
    };
    records.iter().filter(scans).collect()
}

/// Every statement with an effect has a query_id of its own, was sent once, and had a connection to itself.
pub fn check_one_shot(records: &[Record]) -> Result<()> {
    let mut ids = BTreeSet::new();
    let mut on_connection = BTreeMap::<_, usize>::new();
    for record in records {
        *on_connection.entry((record.member, record.connection)).or_default() += 1;
    }
    for record in records.iter().filter(|r| r.statement.kind.is_mutation()) {
        let say = |what: &str| Error::other(what, format!("{record:?}"));
        let id = record.statement.query_id.as_deref().filter(|id| !id.is_empty());
        if !ids.insert(id.ok_or_else(|| say("a mutation without query_id"))?) {
            return Err(say("a query_id used twice"));
        }
        if on_connection.get(&(record.member, record.connection)) != Some(&1) {
            return Err(say("a mutation on a shared connection"));
        }
    }
    Ok(())
}

/// Writes of objects of our group by this user, status included, that the server accepted.
pub fn writes<'a>(calls: &'a [ApiCall], user: &str, resource: &str, name: &str) -> Vec<&'a ApiCall> {
    let wanted = |c: &&ApiCall| {
        let write = matches!(c.verb.as_str(), "create" | "update" | "patch" | "delete");
        write
            && c.user == user
            && c.group == GROUP
            && c.resource == resource
            && c.name == name
            && c.code < 300
    };
    calls.iter().filter(wanted).collect()
}

/// GETs and LISTs of our kinds by this user.
pub fn reads<'a>(calls: &'a [ApiCall], user: &str) -> Vec<&'a ApiCall> {
    let wanted =
        |c: &&ApiCall| matches!(c.verb.as_str(), "get" | "list") && c.user == user && c.group == GROUP;
    calls.iter().filter(wanted).collect()
}

/// The value of a row of the control table, decoded from ClickHouse's binary form.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    pub target_key: String,
    pub operation_id: String,
    pub fence_token: String,
    pub phase: String,
    pub dispatch_epoch: u64,
    pub payload: Value,
    pub payload_sha256: String,
    pub version: i32,
}

impl Slot {
    pub fn decode(row: &KeeperRow) -> Result<Self> {
        let mut bytes = row.data.as_slice();
        let slot = Self {
            target_key: row.key.clone(),
            operation_id: string(&mut bytes)?,
            fence_token: string(&mut bytes)?,
            phase: string(&mut bytes)?,
            dispatch_epoch: u64::from_le_bytes(take(&mut bytes, 8)?.try_into().context("dispatch_epoch")?),
            payload: serde_json::from_str(&string(&mut bytes)?).context("payload")?,
            payload_sha256: text(take(&mut bytes, 64)?)?,
            version: row.version,
        };
        if bytes.is_empty() { Ok(slot) } else { Err(Error::other("slot row", "bytes left over")) }
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(count).context("slot row: cut off")?;
    *bytes = rest;
    Ok(head)
}

fn text(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).context("slot row: not UTF-8")
}

/// A length in groups of seven bits, then the bytes.
fn string(bytes: &mut &[u8]) -> Result<String> {
    let mut length = 0usize;
    for shift in (0..28).step_by(7) {
        let byte = take(bytes, 1)?[0];
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return text(take(bytes, length)?);
        }
    }
    Err(Error::other("slot row", "a length beyond reason"))
}
