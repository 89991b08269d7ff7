//! Evidence read from Keeper itself: DDL entries and KeeperMap rows, without ClickHouse in between.

use std::time::Duration;

use base64::Engine;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use zookeeper_client as zk;

use crate::ddl::{DdlEntry, parse_finished};
use crate::error::{Context, Result};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
pub const DDL_QUEUE: &str = "/clickhouse/task_queue/ddl";
pub const KEEPER_MAP_PREFIX: &str = "/keeper_map";

/// One row of a KeeperMap table as it lies in Keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperRow {
    pub znode: String,
    /// The String key the znode name encodes; the name itself when it encodes none.
    pub key: String,
    pub data: Vec<u8>,
    /// What ClickHouse shows as `_version`.
    pub version: i32,
}

#[derive(Debug, Clone)]
pub struct Keeper {
    address: String,
}

impl Keeper {
    pub fn new(address: String) -> Self {
        Self { address }
    }

    /// A session of its own; ended when dropped.
    pub async fn client(&self) -> Result<zk::Client> {
        let connector = zk::Client::connector().with_connection_timeout(CONNECT_WITHIN);
        let connected = tokio::time::timeout(CONNECT_WITHIN * 2, connector.connect(&self.address)).await;
        connected.context("connect to Keeper")?.context("connect to Keeper")
    }

    /// Every entry of the DDL queue, oldest first. No queue yet is an empty queue.
    pub async fn ddl_entries(&self) -> Result<Vec<DdlEntry>> {
        let client = self.client().await?;
        let mut entries = Vec::new();
        for name in children(&client, DDL_QUEUE).await? {
            if name.starts_with("query-") {
                // An entry that the cleaner removes while we read is no entry.
                entries.extend(read_entry(&client, name).await?);
            }
        }
        Ok(entries)
    }

    /// Rows of the KeeperMap table with this root (`'/path'` of its engine clause, without the server's prefix).
    pub async fn keeper_map_rows(&self, root: &str) -> Result<Vec<KeeperRow>> {
        let client = self.client().await?;
        let data = format!("{KEEPER_MAP_PREFIX}/{}/data", root.trim_matches('/'));
        let mut rows = Vec::new();
        for name in children(&client, &data).await? {
            if let Some((bytes, stat)) = read(&client, &format!("{data}/{name}")).await? {
                let key = decode_key(&name).unwrap_or_else(|| name.clone());
                rows.push(KeeperRow { znode: name, key, data: bytes, version: stat.version });
            }
        }
        Ok(rows)
    }

    /// Takes a row away, as a Keeper that was restored to a state before it.
    pub async fn forget_row(&self, root: &str, row: &KeeperRow) -> Result<()> {
        let path = format!("{KEEPER_MAP_PREFIX}/{}/data/{}", root.trim_matches('/'), row.znode);
        self.client().await?.delete(&path, None).await.context(format!("delete {path}"))
    }

    /// Roots of all KeeperMap tables, as `keeper_map_rows` takes them (searched to a depth of four).
    pub async fn keeper_map_roots(&self) -> Result<Vec<String>> {
        let client = self.client().await?;
        let (mut roots, mut queue) = (Vec::new(), vec![String::new()]);
        while let Some(path) = queue.pop() {
            let names = children(&client, &format!("{KEEPER_MAP_PREFIX}{path}")).await?;
            if names.iter().any(|n| n == "data") && names.iter().any(|n| n == "metadata") {
                roots.push(path);
            } else if path.matches('/').count() < 4 {
                queue.extend(names.iter().map(|n| format!("{path}/{n}")));
            }
        }
        roots.sort();
        Ok(roots)
    }
}

async fn read_entry(client: &zk::Client, name: String) -> Result<Option<DdlEntry>> {
    let path = format!("{DDL_QUEUE}/{name}");
    let Some((bytes, _)) = read(client, &path).await? else { return Ok(None) };
    let mut entry = DdlEntry::parse(&name, &String::from_utf8_lossy(&bytes))?;
    entry.active = children(client, &format!("{path}/active")).await?;
    for host in children(client, &format!("{path}/finished")).await? {
        if let Some((bytes, _)) = read(client, &format!("{path}/finished/{host}")).await? {
            entry.finished.insert(host, parse_finished(&String::from_utf8_lossy(&bytes))?);
        }
    }
    Ok(Some(entry))
}

async fn children(client: &zk::Client, path: &str) -> Result<Vec<String>> {
    match client.list_children(path).await {
        Ok(mut names) => {
            names.sort();
            Ok(names)
        }
        Err(zk::Error::NoNode) => Ok(Vec::new()),
        Err(e) => Err(e).context(format!("list {path}")),
    }
}

async fn read(client: &zk::Client, path: &str) -> Result<Option<(Vec<u8>, zk::Stat)>> {
    match client.get_data(path).await {
        Ok(found) => Ok(Some(found)),
        Err(zk::Error::NoNode) => Ok(None),
        Err(e) => Err(e).context(format!("read {path}")),
    }
}

/// KeeperMap names a row base64url(binary key); a String key is its length and its bytes.
fn decode_key(name: &str) -> Option<String> {
    let decode = |engine: &GeneralPurpose| engine.decode(name).ok();
    let bytes = decode(&URL_SAFE).or_else(|| decode(&URL_SAFE_NO_PAD))?;
    let (mut length, mut shift, mut at) = (0usize, 0, 0);
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte & 0x80 == 0 {
            break;
        }
        if shift > 28 {
            return None;
        }
    }
    let key = bytes.get(at..)?;
    (key.len() == length).then(|| String::from_utf8(key.to_vec()).ok())?
}
