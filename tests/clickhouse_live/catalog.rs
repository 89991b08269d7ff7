//! What the catalogs say: members, tables under hostile names, running statements.

use super::Live;
use publication_e2e::cluster::CLUSTER;
use publication_operator::clickhouse::{MemberCatalog, MemberProcesses};
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::ports::{Catalog, MembersAnswer, MembersAsk, Processes, ReadFailure, Scope};
use serde_json::json;
use std::sync::Arc;

// proves: B-2, B-3, B-8, A-4
pub async fn members(live: &Live) {
    let cluster = &live.cluster;
    let database = "my-db";
    cluster.create_database("`my-db`").await.unwrap();
    let hostile = ["qry_1.cus", "order", "a`b", "a\\b", "таблица"];
    for name in hostile {
        let quoted = format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
        cluster.create_replicated("`my-db`", &quoted, "id UInt64, value String", "id").await.unwrap();
    }
    cluster.load_rows(database, "order", 10, 0).await.unwrap();
    for member in &cluster.members {
        member.sql("CREATE TABLE `my-db`.plain (id UInt64) ENGINE = MergeTree ORDER BY id").await.unwrap();
    }
    let connection = live.connection();
    let catalog = MemberCatalog::new(Arc::clone(&connection));
    let mut names: Vec<String> = hostile.iter().map(|n| (*n).to_owned()).collect();
    names.extend(["plain".to_owned(), "absent".to_owned()]);
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: database.into(),
        names: names.clone(),
        health_of: Some("order".into()),
        count_of: Some("order".into()),
    };
    let each = catalog.members(&ask(Scope::Each)).await;
    let all = catalog.members(&ask(Scope::Cluster)).await;
    for answer in [&each, &all] {
        check_members(live, answer, &hostile);
    }
    let sorted = |answer: MembersAnswer| {
        let mut members = answer.members;
        members.sort();
        members
    };
    // Both scopes say the same, field by field.
    assert_eq!(sorted(each), sorted(all));
    // A table that is nowhere has no count and no health, which is not a failure.
    let ask =
        MembersAsk { count_of: Some("nope".into()), health_of: Some("nope".into()), ..ask(Scope::Cluster) };
    let answer = catalog.members(&ask).await;
    assert_eq!(answer.members.len(), 2, "{answer:?}");
    assert!(answer.members.iter().all(|m| m.count.is_none() && m.health.is_none()));
    let ask = MembersAsk { scope: Scope::Each, ..ask };
    assert_eq!(catalog.members(&ask).await.members.len(), 2);
}

fn check_members(live: &Live, answer: &MembersAnswer, hostile: &[&str]) {
    assert!(answer.failures.is_empty(), "{answer:?}");
    let mut found: Vec<_> = answer.members.iter().map(|m| m.server_uuid.clone()).collect();
    let mut servers = live.servers();
    found.sort();
    servers.sort();
    assert_eq!(found, servers);
    for member in &answer.members {
        assert_eq!(member.database_engine.as_deref(), Some("Atomic"));
        assert_eq!((member.view.len(), member.count), (2, Some(10)));
        let health = member.health.as_ref().unwrap();
        assert_eq!((health.total_replicas, health.active_replicas, health.readonly), (2, 2, false));
        for name in hostile {
            let fact = &member.tables[*name];
            assert!(
                matches!(fact, TableFact::Generation { path_macros, .. } if *path_macros == ["{shard}"]),
                "{name}: {fact:?}"
            );
            assert_eq!(fact.identity(), answer.members[0].tables[*name].identity());
        }
        assert_eq!(member.tables["absent"], TableFact::Absent);
        let plain = TableFact::Other(NotAGeneration::Engine("MergeTree".into()));
        assert_eq!(member.tables["plain"], plain);
    }
}

// proves: K19, B-2
pub async fn hidden_is_not_absent(live: &Live) {
    let catalog = MemberCatalog::new(live.connection());
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: "my-db".into(),
        names: vec!["order".into(), "absent".into()],
        health_of: None,
        count_of: None,
    };
    let member = &live.cluster.members[1];
    let denied =
        serde_json::json!({"match": "EXISTS TABLE", "code": 497, "message": "u: Not enough privileges"});
    member.admin("POST", "/statements/fail", denied).await.unwrap();
    let label = format!("127.0.0.1:{}", member.spec.http_port);
    for (scope, answered) in [(Scope::Each, 1), (Scope::Cluster, 0)] {
        let answer = catalog.members(&ask(scope)).await;
        assert_eq!(answer.failures, [(label.clone(), ReadFailure::AccessDenied)], "{scope:?}");
        assert_eq!(answer.members.len(), answered);
    }
    member.admin("POST", "/statements/clear", serde_json::Value::Null).await.unwrap();
    assert_eq!(catalog.members(&ask(Scope::Each)).await.members.len(), 2);
}

// proves: J-3
pub async fn running_statements(live: &Live) {
    let processes = MemberProcesses::new(live.connection());
    let ids = ["chpub1-late".to_owned()];
    assert_eq!(processes.running(&ids).await, Some(false));
    let late = json!({"table": "processes", "rows": [{"query_id": "x", "initial_query_id": "chpub1-late"}]});
    live.cluster.members[1].admin("POST", "/system/overlay", late).await.unwrap();
    assert_eq!(processes.running(&ids).await, Some(true));
    assert_eq!(processes.running(&["chpub1-other".to_owned()]).await, Some(false));
    let clear = json!({"table": "processes"});
    live.cluster.members[1].admin("POST", "/system/clear", clear).await.unwrap();
}
