//! The evidence, read past the operator: tables on each replica, queue entries and slot in Keeper.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde_json::Value;
use uuid::Uuid;

use super::samples::Sample;
use super::terminal::{Terminal, WIDTH, elide, grouped};
use crate::ddl::{DdlEntry, count_kind};
use crate::environment::Environment;
use crate::error::{Context, Error, Result};
use crate::evidence::Slot;
use crate::manifests;

/// Leaves room for the names of conditions.
const MESSAGE_WIDTH: usize = 72;
/// In the order in which they come true.
const CONDITIONS: [&str; 7] = [
    "Admitted",
    "CandidateConverged",
    "SlotAcquired",
    "Dispatched",
    "ReplicasCommitted",
    "CleanedUp",
    "Succeeded",
];

pub fn expect<T: PartialEq + Debug>(what: &str, found: &T, wanted: &T) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    Err(Error::other(what, format!("found {found:?}, expected {wanted:?}")))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub rows: u64,
    pub generation: Uuid,
}

/// By replica, the tables of one target: itself, and whatever the operation made of it.
pub type Tables = Vec<BTreeMap<String, Table>>;

pub async fn tables(env: &Environment, sample: &Sample) -> Result<Tables> {
    let (database, target) = (&sample.database, &sample.target);
    let list = format!(
        "SELECT name, uuid FROM system.tables WHERE database = '{database}' \
         AND (name = '{target}' OR startsWith(name, '{target}__')) ORDER BY name"
    );
    let mut replicas = Vec::new();
    for member in &env.cluster.members {
        let mut found = BTreeMap::new();
        for row in member.rows(&list).await? {
            let [name, uuid] = row.as_slice() else {
                return Err(Error::other("system.tables", format!("{row:?}")));
            };
            let count = member.sql(&format!("SELECT count() FROM {database}.{name}")).await?;
            let rows = count.trim().parse().context("a count")?;
            found.insert(name.clone(), Table { rows, generation: uuid.parse().context("a UUID")? });
        }
        replicas.push(found);
    }
    Ok(replicas)
}

/// `names` says which generation is which for the reader.
pub fn show_tables(
    ui: &Terminal,
    env: &Environment,
    sample: &Sample,
    tables: &Tables,
    names: &[(Uuid, &str)],
) {
    let mut rows =
        vec![["member", "table", "      rows", "generation (UUID of the table)", ""].map(str::to_owned)];
    for (member, found) in env.cluster.members.iter().zip(tables) {
        for (name, table) in found {
            let which = names.iter().find(|(uuid, _)| *uuid == table.generation).map_or("", |(_, w)| w);
            rows.push([
                member.spec.shown(),
                format!("{}.{name}", sample.database),
                format!("{:>10}", grouped(table.rows)),
                table.generation.to_string(),
                which.to_owned(),
            ]);
        }
    }
    ui.table(&rows);
}

/// One table's generation, which must be the same on every replica.
pub fn generation(tables: &Tables, name: &str) -> Result<Uuid> {
    let mut all = tables.iter().map(|found| found.get(name).map(|table| table.generation));
    let first = all.next().flatten().context(format!("table {name}"))?;
    if all.all(|other| other == Some(first)) {
        return Ok(first);
    }
    Err(Error::other(name, "the replicas have different generations"))
}

/// Every replica serves exactly this table under the target's name, and has no other of this target.
pub fn expect_only(tables: &Tables, sample: &Sample, wanted: &Table) -> Result<()> {
    let only = BTreeMap::from([(sample.target.clone(), wanted.clone())]);
    expect("tables on each replica", tables, &vec![only; tables.len()])
}

/// No table of any name has this generation, on any replica.
pub async fn expect_dropped(env: &Environment, generation: Uuid) -> Result<()> {
    let statement = format!("SELECT database, name FROM system.tables WHERE uuid = '{generation}'");
    for member in &env.cluster.members {
        expect("tables of the old generation", &member.rows(&statement).await?, &Vec::new())?;
    }
    Ok(())
}

/// What the object itself says of its way, one line for each condition.
pub fn show_conditions(ui: &Terminal, object: &Value) {
    let mut rows = vec![["condition", "status", "reason", "message"].map(str::to_owned)];
    for kind in CONDITIONS {
        let Some(condition) = manifests::condition(object, kind) else { continue };
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        rows.push([text("type"), text("status"), text("reason"), elide(&text("message"), MESSAGE_WIDTH)]);
    }
    ui.table(&rows);
}

/// The entries of one operation, oldest first: their correlation token names it.
pub async fn entries(env: &Environment, operation: &str) -> Result<Vec<DdlEntry>> {
    let all = env.ddl_entries().await?;
    Ok(all.into_iter().filter(|e| e.log_comment().is_some_and(|token| token.contains(operation))).collect())
}

pub fn show_entries(ui: &Terminal, env: &Environment, entries: &[DdlEntry]) {
    for entry in entries {
        let statement = entry.query.replace('`', "");
        ui.text(&elide(&format!("{}  {statement}", entry.name), WIDTH));
        let token = entry.log_comment().map_or_else(|| "no log_comment".to_owned(), short_token);
        ui.text(&format!("{:width$}  {token}  {}", "", hosts(env, entry), width = entry.name.len()));
    }
}

/// Which hosts have finished, with ClickHouse's code; 0 is success.
fn hosts(env: &Environment, entry: &DdlEntry) -> String {
    let mut said = Vec::new();
    for member in &env.cluster.members {
        let state = match entry.finished.get(&member.spec.ddl_host_id()) {
            Some((code, _)) => format!("finished, code {code}"),
            None if entry.active.contains(&member.spec.ddl_host_id()) => "active".to_owned(),
            None => "not begun".to_owned(),
        };
        said.push(format!("{}: {state}", member.spec.shown()));
    }
    said.join("   ")
}

/// `log_comment` is `chpub1:<operation>:<action>:<epoch>:<fence>`; digests are cut for the eye.
fn short_token(token: &str) -> String {
    let cut = |part: &str| if part.len() >= 32 { format!("{}…", &part[..12]) } else { part.to_owned() };
    token.split(':').map(cut).collect::<Vec<_>>().join(":")
}

/// Counts statements by kind, and requires that every host has finished every one with code 0.
pub fn expect_entries(env: &Environment, entries: &[DdlEntry], wanted: &[(&str, usize)]) -> Result<()> {
    for (kind, count) in wanted {
        expect(&format!("{kind} entries in Keeper"), &count_kind(entries, kind, None), count)?;
    }
    let total: usize = wanted.iter().map(|(_, count)| count).sum();
    expect("entries of this operation in Keeper", &entries.len(), &total)?;
    let hosts: Vec<String> = env.cluster.members.iter().map(|m| m.spec.ddl_host_id()).collect();
    for entry in entries {
        for host in &hosts {
            let code = entry.finished.get(host).map(|(code, _)| *code);
            expect(&format!("code of {} on {host}", entry.name), &code, &Some(0))?;
        }
    }
    Ok(())
}

/// EXCHANGE entries in all of Keeper that move this candidate, whoever wrote them.
pub async fn exchanges(env: &Environment, sample: &Sample) -> Result<usize> {
    let candidate = format!("{}.{}", sample.database, sample.candidate);
    Ok(count_kind(&env.ddl_entries().await?, "EXCHANGE", Some(&candidate)))
}

pub async fn slot(env: &Environment, operation: &str) -> Result<Slot> {
    let slots = env.slots().await?;
    slots.into_iter().find(|slot| slot.operation_id == operation).context("the operation's slot in Keeper")
}

pub fn show_slot(ui: &Terminal, sample: &Sample, slot: &Slot) {
    let heading = ["slot of", "phase", "version", "dispatches", "operation"].map(str::to_owned);
    let row = [
        format!("{}.{}", sample.database, sample.target),
        slot.phase.clone(),
        slot.version.to_string(),
        slot.dispatch_epoch.to_string(),
        slot.operation_id.clone(),
    ];
    ui.table(&[heading, row]);
}
