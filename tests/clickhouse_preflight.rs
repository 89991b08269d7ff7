//! Preflight against the embedded cluster, on both engine lines: what the catalogs say arrives as the protocol's facts.

#![allow(clippy::unwrap_used, clippy::panic)] // the whole target is tests

mod clickhouse_support;

use clickhouse_support::live_spec;
use publication_e2e::cluster::{CLUSTER, ClickHouseCluster, Lane, PUBLISHER};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::workdir::WorkDir;
use publication_e2e::zookeeper::ZooKeeper;
use publication_operator::clickhouse::{Connection, MemberCatalog};
use publication_protocol::ports::Catalog;
use publication_protocol::preflight::{EntryState, Limits, MemberFacts, PreflightAnswer, PreflightAsk};
use publication_protocol::sqltext::TableName;
use std::sync::Arc;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(30);

async fn ask(cluster: &ClickHouseCluster, catalog: &MemberCatalog, backlog: bool) -> PreflightAnswer {
    let path = "SELECT zookeeper_path FROM system.replicas WHERE table = 'orders__pub_1'";
    let ask = PreflightAsk {
        cluster: CLUSTER.into(),
        database: "my_db".into(),
        target: "orders".into(),
        candidate: "orders__pub_1".into(),
        zookeeper_path: cluster.sql(0, path).await.unwrap().trim().to_owned(),
        backlog,
    };
    catalog.preflight(&ask).await
}

fn named(database: &str, table: &str) -> TableName {
    TableName { database: database.into(), table: table.into() }
}

// proves: B-9, K04, K08, K19, K21, K13
async fn facts_arrive(lane: Lane) {
    let work = WorkDir::new("preflight").unwrap();
    let zookeeper = ZooKeeper::start(&work.subdir("zookeeper").unwrap()).await.unwrap();
    let cluster = ClickHouseCluster::start(2, lane, zookeeper.address(), work.path()).await.unwrap();
    for table in ["orders", "orders__pub_1"] {
        cluster.table_with_rows("my_db", table, 5, 0).await.unwrap();
    }
    for statement in [
        "CREATE VIEW my_db.seen AS SELECT id FROM my_db.orders",
        "CREATE DICTIONARY my_db.lookup (id UInt64, value String) PRIMARY KEY id \
         SOURCE(CLICKHOUSE(DB 'my_db' TABLE 'orders')) LAYOUT(FLAT()) LIFETIME(0)",
    ] {
        cluster.sql(1, statement).await.unwrap();
    }
    let catalog = MemberCatalog::new(Arc::new(Connection::new(live_spec(&cluster, "control")).unwrap()));
    let answer = ask(&cluster, &catalog, false).await;
    assert_eq!((answer.failures.as_slice(), answer.members.len()), (&[][..], 2));
    assert_eq!(answer.facade, named("control", "publication_authority"));
    assert!(answer.backlog.is_empty());
    let second = cluster.members[1].spec.server_uuid.to_string();
    for facts in &answer.members {
        check(facts, facts.server_uuid.as_str() == second);
    }
    // An entry that one member has not begun is seen there, with its age; the other has finished it.
    cluster.member(1).unwrap().ddl_pause().await.unwrap();
    let create = "CREATE DATABASE later ON CLUSTER main";
    let sent =
        cluster.member(0).unwrap().sql_with(create, &[("distributed_ddl_task_timeout", "0")]).await.map(drop);
    eventually(WITHIN, "the entry waits for the second member alone", || async {
        let answer = ask(&cluster, &catalog, true).await;
        let rows: Vec<_> = answer.backlog.iter().map(|entry| (entry.port, entry.state)).collect();
        let seen = rows == [(cluster.members[1].spec.tcp_port, EntryState::Inactive)];
        Ok(Seen::when(seen && answer.failures.is_empty(), format!("{sent:?} {answer:?}")))
    })
    .await
    .unwrap();
}

fn check(facts: &MemberFacts, second: bool) {
    let defined: Vec<&str> = facts.definitions.iter().map(|d| d.name.table.as_str()).collect();
    let uses = facts.tables.iter().find(|t| t.name == "orders").unwrap();
    assert!(uses.bytes > 0);
    if second {
        assert!(defined.contains(&"seen") && defined.contains(&"lookup"), "{defined:?}");
        assert_eq!(uses.loading_dependents, [named("my_db", "lookup")]);
    } else {
        assert!(defined.is_empty() && uses.loading_dependents.is_empty(), "{facts:?}");
    }
    assert_eq!(facts.same_path, [named("my_db", "orders__pub_1")]);
    assert_eq!(facts.replicas.len(), 2);
    for set in &facts.replicas {
        let mut names = set.names.clone();
        names.sort();
        assert_eq!((set.total, names), (2, vec!["r1".to_owned(), "r2".to_owned()]));
        assert_eq!(set.own, if second { "r2" } else { "r1" });
    }
    let limits = Limits { drop_bytes_max: 50_000_000_000, checks_loading: true, checks_references: false };
    assert_eq!(facts.limits, limits);
    let own = facts.grants.iter().filter(|grant| grant.own && grant.grantee == PUBLISHER);
    assert!(own.map(|grant| grant.access.as_str()).any(|access| access == "CLUSTER"));
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_arrive_from_26_9() {
    facts_arrive(Lane::V26_9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_arrive_from_24_8() {
    facts_arrive(Lane::V24_8).await;
}
