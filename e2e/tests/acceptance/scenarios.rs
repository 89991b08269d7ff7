//! Scenarios of the design's "Docker multi-node acceptance" that no other topic has: what changes between PREPARED and
//! the dispatch (S11), and every evidence of the queue that proves nothing (S13).

use crate::Case;
use crate::looks::{CANDIDATE, Generations, TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::evidence::check_one_shot;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, StatementKind};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};

pub const CASES: &[(&str, usize, Case)] = &[
    ("every_drift_blocks_before_mutation", 2, |s| Box::pin(every_drift(s))),
    ("no_doubtful_evidence_reaches_cleanup", 2, |s| Box::pin(every_doubt(s))),
];

/// A system table, shown otherwise, in what one identity or the inventory is made of and in nothing else.
struct Drift {
    what: &'static str,
    table: &'static str,
    on_every_member: bool,
    shown: fn(&str) -> Value,
    code: &'static str,
    named: &'static str,
}

/// `column` of this table is shown as `sql`.
fn of_table(db: &str, name: &str, column: &str, sql: &str) -> Value {
    let here = format!("database = '{db}' AND name = '{name}'");
    json!({"replace": {column: format!("if({here}, {sql}, {column})")}})
}

const DRIFTS: &[Drift] = &[
    Drift {
        what: "UUID of the candidate",
        table: "tables",
        on_every_member: false,
        shown: |db| of_table(db, CANDIDATE, "uuid", "toUUID('00000000-0000-4000-8000-000000000001')"),
        code: "CANDIDATE_INVALID",
        named: "another generation",
    },
    Drift {
        what: "engine of the candidate",
        table: "tables",
        on_every_member: false,
        shown: |db| {
            let other = "replaceOne(engine_full, 'ReplicatedMergeTree', 'ReplicatedReplacingMergeTree')";
            of_table(db, CANDIDATE, "engine_full", other)
        },
        code: "CANDIDATE_INVALID",
        named: "another generation",
    },
    Drift {
        what: "schema of the target",
        table: "tables",
        on_every_member: false,
        shown: |db| {
            let other = "replaceOne(create_table_query, '`value` String', '`value` Nullable(String)')";
            of_table(db, TARGET, "create_table_query", other)
        },
        code: "TARGET_INVALID",
        named: "another generation",
    },
    Drift {
        what: "Keeper path of the candidate",
        table: "replicas",
        on_every_member: false,
        shown: |db| {
            let here = format!("database = '{db}' AND table = '{CANDIDATE}'");
            json!({"replace": {"zookeeper_path": format!("if({here}, '/elsewhere/01', zookeeper_path)")}})
        },
        code: "CANDIDATE_INVALID",
        named: "another generation",
    },
    Drift {
        what: "a third member",
        table: "clusters",
        on_every_member: true,
        shown: |_| {
            json!({"rows": [{
                "cluster": "main", "shard_num": 1, "replica_num": 3, "host_name": "127.0.0.1", "port": 1,
                "internal_replication": 1, "is_local": 0,
            }]})
        },
        code: "INCOMPLETE_INVENTORY",
        named: "2 of 3 members answered",
    },
];

impl Stage {
    async fn shown_otherwise(&self, drift: &Drift) -> Result<()> {
        let mut overlay = (drift.shown)(&self.database);
        overlay["table"] = json!(drift.table);
        let from = usize::from(!drift.on_every_member);
        for member in self.env.cluster.members.iter().skip(from) {
            member.admin("POST", "/system/overlay", overlay.clone()).await?;
        }
        Ok(())
    }

    async fn shown_as_it_is(&self, drift: &Drift) -> Result<()> {
        for member in &self.env.cluster.members {
            member.admin("POST", "/system/clear", json!({"table": drift.table})).await?;
        }
        Ok(())
    }
}

/// It changes while PREPARED is in Keeper and D-1 has not begun: nothing is dispatched on what was bound before, and
/// what is there again is published once.
// proves: D-1, B-1, B-7, A-4, A-5, S11
async fn every_drift(s: &mut Stage) -> Result<()> {
    for drift in DRIFTS {
        s.fresh_database().await?;
        let played = one_drift(s, drift).await;
        s.shown_as_it_is(drift).await?;
        let generations = played.map_err(|e| Error::other(drift.what, e))?;
        let unchanged = [generations.before(), generations.before()];
        s.expect_tables(&unchanged).await?;
        s.nudge().await?;
        s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
        s.published(5).await?;
        s.expect_entries(1, 1, 1).await?;
        s.expect_executed(1, 1, 1).await?;
    }
    check_one_shot(&s.env.records())
}

async fn one_drift(s: &Stage, drift: &Drift) -> Result<Generations> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    let prepared = s.env.rule(s.fault(Fault::HoldAnswer, StatementKind::Insert))?;
    s.env.publish(&s.publication(5)).await?;
    prepared.reached(1, SOON).await?;
    expect("phase in Keeper", &s.slot().await?.phase.as_str(), &"PREPARED")?;
    s.shown_otherwise(drift).await?;
    prepared.release();
    let object = s.status(drift.code, |o| o["status"]["error"]["code"] == drift.code).await?;
    let message = text(&object["status"]["error"]["message"]);
    expect(message, &message.contains(drift.named), &true)?;
    s.poke().await?;
    expect("dispatching CAS requests", &s.cas_requests("DISPATCHING").len(), &0)?;
    expect("epoch in Keeper", &s.slot().await?.dispatch_epoch, &0)?;
    s.expect_entries(0, 0, 0).await?;
    s.expect_executed(0, 0, 0).await?;
    Ok(generations)
}

/// What the queue shows of the one entry, and the cause that status must give for it.
struct Doubt {
    what: &'static str,
    /// Rules of the queue's overlay for an entry with this token, of which member 1 listens on this port.
    rules: fn(&str, u16) -> Value,
    cause: &'static str,
}

/// The second member's row with these columns.
fn set(token: &str, port: u16, columns: &Value) -> Value {
    json!([{"token": token, "match": {"port": port}, "set": columns}])
}

/// One more row: the second member's with these columns.
fn more(token: &str, port: u16, columns: &Value) -> Value {
    json!([{"token": token, "match": {"port": port}, "duplicate": columns}])
}

const fn doubt(what: &'static str, cause: &'static str, rules: fn(&str, u16) -> Value) -> Doubt {
    Doubt { what, rules, cause }
}

const STATUS: &str = "QueueStatus";
const HOSTS: &str = "QueueHosts";

/// The truth is Finished with code 0 and no text on both members, which serve the new generation.
const DOUBTS: &[Doubt] = &[
    doubt("Removing", STATUS, |t, p| {
        set(t, p, &json!({"status": "Removing", "exception_code": null, "exception_text": null}))
    }),
    doubt("Removing, code 0", STATUS, |t, p| set(t, p, &json!({"status": "Removing"}))),
    doubt("Unknown", STATUS, |t, p| {
        set(t, p, &json!({"status": "Unknown", "exception_code": null, "exception_text": null}))
    }),
    doubt("NULL status", STATUS, |t, p| set(t, p, &json!({"status": null}))),
    doubt("Inactive with code and text", STATUS, |t, p| set(t, p, &json!({"status": "Inactive"}))),
    doubt("Inactive with a code", STATUS, |t, p| {
        set(t, p, &json!({"status": "Inactive", "exception_text": null}))
    }),
    doubt("Active with a text", STATUS, |t, p| {
        set(t, p, &json!({"status": "Active", "exception_code": null}))
    }),
    doubt("Finished, both NULL", STATUS, |t, p| {
        set(t, p, &json!({"exception_code": null, "exception_text": null}))
    }),
    doubt("Finished, NULL code", STATUS, |t, p| set(t, p, &json!({"exception_code": null}))),
    doubt("Finished, NULL text", STATUS, |t, p| set(t, p, &json!({"exception_text": null}))),
    doubt("Finished, code 0 and a text", STATUS, |t, p| set(t, p, &json!({"exception_text": "no"}))),
    doubt("Finished, code 48 and no text", STATUS, |t, p| set(t, p, &json!({"exception_code": 48}))),
    doubt("a missing host", HOSTS, |t, p| json!([{"token": t, "match": {"port": p}, "drop": true}])),
    doubt("an extra host", HOSTS, |t, p| more(t, p, &json!({"port": 1}))),
    doubt("the same host twice", HOSTS, |t, p| more(t, p, &json!({}))),
    doubt("the same host twice, contradicting", HOSTS, |t, p| {
        more(t, p, &json!({"status": "Active", "exception_code": null, "exception_text": null}))
    }),
    doubt("NULL host", HOSTS, |t, p| set(t, p, &json!({"host": null}))),
    doubt("NULL port", HOSTS, |t, p| set(t, p, &json!({"port": null}))),
    doubt(
        "a second entry of the token",
        "SeveralEntries",
        |t, _| json!([{"token": t, "duplicate": {"entry": "query-9999999999"}}]),
    ),
    doubt(
        "another entry of the token",
        "EntryChanged",
        |t, _| json!([{"token": t, "set": {"entry": "query-9999999999"}}]),
    ),
    doubt(
        "another statement",
        "ForeignStatement",
        |t, _| json!([{"token": t, "set": {"query": "DROP TABLE IF EXISTS shop.orders ON CLUSTER main"}}]),
    ),
    doubt(
        "a cluster that cannot be parsed",
        "EntryNotFound",
        |t, _| json!([{"token": t, "set": {"cluster": ""}}]),
    ),
    doubt("removed before it was proved", "EntryNotFound", |t, _| json!([{"token": t, "drop": true}])),
];

/// As each member's engine shows the queue from now on.
async fn queue_shows(s: &Stage, rules: &Value) -> Result<()> {
    for member in &s.env.cluster.members {
        member.admin("POST", "/queue/overlay", json!({"rules": rules})).await?;
    }
    Ok(())
}

/// The EXCHANGE is through on every member, and the queue says one thing after another that does not prove it.
// proves: E, E-1, E-2, G-1, G-5, K12, S13
async fn every_doubt(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let generations = s.generations().await?;
    s.env.cluster.member(1)?.ddl_hold("EXCHANGE").await?;
    s.env.publish(&s.publication(5)).await?;
    s.status("PartialInProgress", |o| o["status"]["classification"] == "PartialInProgress").await?;
    let token = text(&s.slot().await?.payload["dispatches"][0]["token"]).to_owned();
    let port = s.env.cluster.member(1)?.spec.tcp_port;
    queue_shows(s, &(DOUBTS[0].rules)(&token, port)).await?;
    s.env.cluster.member(1)?.ddl_release("EXCHANGE").await?;
    s.exchange_ends().await?;
    for doubt in DOUBTS {
        queue_shows(s, &(doubt.rules)(&token, port)).await?;
        unproved(s, doubt.what, doubt.cause).await?;
    }
    queue_shows(s, &json!([])).await?;
    for member in &s.env.cluster.members {
        let broken =
            json!({"code": 341, "match": "distributed_ddl_queue", "where": "http", "user": "publisher"});
        member.admin("POST", "/statements/fail", broken).await?;
    }
    unproved(s, "a queue that cannot be read", "QueueUnreadable").await?;
    s.expect_tables(&[generations.after(), generations.after()]).await?;
    for member in &s.env.cluster.members {
        member.admin("POST", "/statements/clear", json!({})).await?;
    }
    s.nudge().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    s.expect_executed(1, 1, 1).await?;
    check_one_shot(&s.env.records())
}

/// Looked at under this evidence: unknown, for this cause, and no step further.
async fn unproved(s: &Stage, what: &str, cause: &str) -> Result<()> {
    let effects = s.effects();
    // The first may end a look that began before; the second saw it.
    s.poke().await?;
    s.poke().await?;
    let shown = eventually(SOON, &format!("{what}: {cause}"), || async {
        let object = s.env.publication(SPACE, &s.name()).await?;
        let status = &object["status"];
        let shown = status["classification"] == "OutcomeUnknown" && status["cause"] == cause;
        Ok(if shown { Seen::Done(object) } else { Seen::not_yet(status) })
    })
    .await?;
    expect(what, &text(&shown["status"]["error"]["code"]), &"OUTCOME_UNKNOWN")?;
    expect(&format!("{what}: statements with an effect"), &s.effects(), &effects)?;
    let slot = s.slot().await?;
    let stored = slot.payload["dispatches"][0]["receipt"].is_object();
    expect(&format!("{what}: phase and receipt"), &(slot.phase.as_str(), stored), &("IN_PROGRESS", false))?;
    s.expect_entries(1, 0, 0).await
}
