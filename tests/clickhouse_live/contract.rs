//! What both server lines must do alike: the catalogs' columns, the texts of the DDL queue, and errors. A difference that is
//! handled is written down here.

use super::authority::inventory;
use super::authority::probes;
use super::{Live, clock, token};
use publication_e2e::Error;
use publication_e2e::cluster::CLUSTER;
use publication_operator::clickhouse::DistributedDdl;
use publication_operator::clickhouse::error::{KeeperError, ServerError};
use publication_operator::clickhouse::sql::literal;
use publication_protocol::identity::Action;
use publication_protocol::ports::Ddl;
use publication_protocol::queue::{QueueDoubt, QueueView, Sought, view};
use publication_protocol::sqltext::{Ddl as Kind, Statement, TableName, parse_statement};

/// Columns that the operator reads, and their types. `grants.is_wildcard` is not on 24.8: it is asked for first.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("clusters", "cluster", "String"),
    ("clusters", "shard_num", "UInt32"),
    ("clusters", "replica_num", "UInt32"),
    ("clusters", "host_name", "String"),
    ("clusters", "port", "UInt16"),
    ("clusters", "is_local", "UInt8"),
    ("clusters", "internal_replication", "UInt8"),
    ("databases", "engine", "String"),
    ("tables", "uuid", "UUID"),
    ("tables", "engine", "String"),
    ("tables", "engine_full", "String"),
    ("tables", "create_table_query", "String"),
    ("tables", "sorting_key", "String"),
    ("tables", "primary_key", "String"),
    ("tables", "partition_key", "String"),
    ("tables", "sampling_key", "String"),
    ("tables", "total_bytes", "Nullable(UInt64)"),
    ("tables", "loading_dependent_database", "Array(String)"),
    ("tables", "loading_dependent_table", "Array(String)"),
    ("replicas", "zookeeper_name", "String"),
    ("replicas", "zookeeper_path", "String"),
    ("replicas", "replica_name", "String"),
    ("replicas", "is_readonly", "UInt8"),
    ("replicas", "is_session_expired", "UInt8"),
    ("replicas", "queue_size", "UInt32"),
    ("replicas", "parts_to_check", "UInt32"),
    ("replicas", "lost_part_count", "UInt64"),
    ("replicas", "log_max_index", "UInt64"),
    ("replicas", "log_pointer", "UInt64"),
    ("replicas", "total_replicas", "UInt32"),
    ("replicas", "active_replicas", "UInt32"),
    ("replicas", "zookeeper_exception", "String"),
    ("replicas", "replica_is_active", "Map(String, UInt8)"),
    ("mutations", "is_done", "UInt8"),
    ("mutations", "mutation_id", "String"),
    ("processes", "query_id", "String"),
    ("processes", "initial_query_id", "String"),
    ("row_policies", "short_name", "String"),
    ("dictionaries", "source", "String"),
    ("server_settings", "value", "String"),
    ("distributed_ddl_queue", "entry", "String"),
    ("distributed_ddl_queue", "cluster", "String"),
    ("distributed_ddl_queue", "query", "String"),
    ("distributed_ddl_queue", "settings", "Map(String, String)"),
    ("distributed_ddl_queue", "query_create_time", "DateTime"),
    ("distributed_ddl_queue", "host", "Nullable(String)"),
    ("distributed_ddl_queue", "port", "Nullable(UInt16)"),
    (
        "distributed_ddl_queue",
        "status",
        "Nullable(Enum8('Inactive' = 0, 'Active' = 1, 'Finished' = 2, 'Removing' = 3, 'Unknown' = 4))",
    ),
    ("distributed_ddl_queue", "exception_code", "Nullable(UInt16)"),
    ("distributed_ddl_queue", "exception_text", "Nullable(String)"),
];

// proves: B-4, E
pub async fn catalog_schemas(live: &Live) {
    let read = "SELECT table, name, type FROM system.columns WHERE database = 'system'";
    let rows = live.cluster.rows(0, read).await.unwrap();
    let found = |table: &str, name: &str| rows.iter().find(|row| row[0] == table && row[1] == name);
    let wrong: Vec<_> = COLUMNS
        .iter()
        .filter(|(table, name, kind)| found(table, name).is_none_or(|row| row[2] != *kind))
        .map(|(table, name, _)| (table, name, found(table, name)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

fn table(name: &str) -> TableName {
    TableName { database: "shop".into(), table: name.into() }
}

/// As the server prints what it was given, comments and spelling gone: what the queue's `query` shows.
// proves: D-3, S08
pub async fn query_texts(live: &Live) {
    let create = "CREATE TABLE IF NOT EXISTS shop.facade ON CLUSTER main (`k` String) ENGINE = KeeperMap('/x') PRIMARY KEY k";
    for (sent, stored, ddl) in [
        (
            "/* a comment */ EXCHANGE TABLES `shop`.`orders` AND `shop`.`orders__pub_1` ON CLUSTER `main` -- more",
            "EXCHANGE TABLES shop.orders AND shop.orders__pub_1 ON CLUSTER main",
            Kind::Exchange { target: table("orders"), candidate: table("orders__pub_1") },
        ),
        (
            "-- a comment\nRENAME TABLE `shop`.`orders__pub_1` TO `shop`.`orders__retired_x` ON CLUSTER `main`",
            "RENAME TABLE shop.orders__pub_1 TO shop.orders__retired_x ON CLUSTER main",
            Kind::Rename { from: table("orders__pub_1"), to: table("orders__retired_x") },
        ),
        (
            "DROP TABLE IF EXISTS `shop`.`orders__retired_x` ON CLUSTER `main`",
            "DROP TABLE IF EXISTS shop.orders__retired_x ON CLUSTER main",
            Kind::DropIfExists { table: table("orders__retired_x") },
        ),
        (
            "CREATE TABLE IF NOT EXISTS `shop`.`facade` ON CLUSTER `main` (k String) ENGINE = KeeperMap('/x') PRIMARY KEY k",
            create,
            Kind::CreateIfNotExists { table: table("facade") },
        ),
    ] {
        let text = format!("SELECT formatQuerySingleLine({})", literal(sent));
        let rows = live.cluster.rows(0, &text).await.unwrap();
        assert_eq!(rows, [[stored]]);
        assert_eq!(parse_statement(stored), Some(Statement { ddl, cluster: CLUSTER.into() }), "{stored}");
    }
}

/// One harmless statement with a comment and a token; then another one with the same token.
// proves: D-3, D-5, B-4, S08, S09
pub async fn tokens(live: &Live) {
    let ddl = DistributedDdl::new(live.connection(), clock());
    let token = token(8, Action::Bootstrap);
    let harmless =
        "/* a leading comment */ DROP TABLE IF EXISTS control.nobody ON CLUSTER main -- and another";
    let settings = [("log_comment", token.as_str())];
    let send = || live.cluster.members[0].sql_with(harmless, &settings);
    send().await.unwrap();
    let statement = Statement {
        ddl: Kind::DropIfExists { table: TableName { database: "control".into(), table: "nobody".into() } },
        cluster: CLUSTER.into(),
    };
    let inventory = inventory(&probes(&live.connection()).await);
    let sought = || Sought { token: &token, statement: &statement, bound: None, inventory: &inventory };
    let rows = ddl.scan(CLUSTER, std::slice::from_ref(&token)).await.unwrap();
    let QueueView::Terminal { binding, receipt } = view(&rows, sought()) else { panic!("{rows:?}") };
    assert!(receipt.is_success());
    assert_eq!((rows.len(), rows.iter().filter(|row| row.entry == binding.entry).count()), (2, 2));
    for row in &rows {
        assert_eq!(row.query, "DROP TABLE IF EXISTS control.nobody ON CLUSTER main");
    }
    // As it lies in Keeper.
    let entries = live.zookeeper.keeper().ddl_entries().await.unwrap();
    let own: Vec<_> = entries.iter().filter(|e| e.log_comment() == Some(token.as_str())).collect();
    assert_eq!(own.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), [binding.entry.as_str()]);
    assert!(!own[0].query.contains("comment") && !own[0].query.contains("another"), "{}", own[0].query);
    // The same token again: which of the two is ours cannot be known, so neither is, also for who has bound the first.
    send().await.unwrap();
    let rows = ddl.scan(CLUSTER, std::slice::from_ref(&token)).await.unwrap();
    assert_eq!(rows.len(), 4);
    for bound in [None, Some(&binding)] {
        let seen = view(&rows, Sought { bound, ..sought() });
        assert_eq!(seen, QueueView::Unknown(QueueDoubt::SeveralEntries), "{rows:?}");
    }
}

/// Statements that a server must refuse with this code, in the form that is read as its own word.
const REFUSED: &[(&str, u32)] = &[
    ("SELECT * FROM triage.nosuch", 60),
    ("SELECT * FROM nosuch.t", 81),
    ("SELECT FROM WHERE", 62),
    ("SELECT nosuch FROM triage.a", 47),
    ("SELECT nosuch(1)", 46),
    ("SELECT 1 SETTINGS nosuch = 1", 115),
    ("INSERT INTO triage.a (nosuch) VALUES (1)", 16),
    ("SELECT * FROM clusterAllReplicas('nosuch', system.one)", 701),
    ("EXCHANGE TABLES triage.a AND triage.nosuch", 60),
    ("RENAME TABLE triage.a TO triage.b", 57),
    ("EXCHANGE TABLES triage_memory.a AND triage_memory.b", 48),
    ("CREATE TABLE triage.other (k String, more String) ENGINE = KeeperMap('/triage') PRIMARY KEY k", 36),
    ("INSERT INTO triage.map SELECT 'x', 'second' SETTINGS keeper_map_strict_mode = 1", 999),
];

// proves: C-5, K23
pub async fn errors(live: &Live) {
    let member = &live.cluster.members[0];
    for statement in [
        "CREATE DATABASE triage ENGINE = Atomic",
        "CREATE DATABASE triage_memory ENGINE = Memory",
        "CREATE TABLE triage.a (id UInt64) ENGINE = MergeTree ORDER BY id",
        "CREATE TABLE triage.b (id UInt64) ENGINE = MergeTree ORDER BY id",
        "CREATE TABLE triage_memory.a (id UInt64) ENGINE = Memory",
        "CREATE TABLE triage_memory.b (id UInt64) ENGINE = Memory",
        "CREATE TABLE triage.map (k String, v String) ENGINE = KeeperMap('/triage') PRIMARY KEY k",
        "INSERT INTO triage.map SELECT 'x', 'first' SETTINGS keeper_map_strict_mode = 1",
    ] {
        member.sql(statement).await.unwrap();
    }
    for (statement, wanted) in REFUSED {
        let Err(Error::Sql { code, message, .. }) = member.sql(statement).await else {
            panic!("accepted: {statement}")
        };
        let read = ServerError::parse(&message);
        let codes = (code.and_then(|code: i32| u32::try_from(code).ok()), read.map(|error| error.code));
        assert_eq!(codes, (Some(*wanted), Some(*wanted)), "{statement}: {message}");
        // 24.8 does not say which conflict it is.
        let conflict = [KeeperError::NodeExists, KeeperError::Refused];
        let keeper = read.and_then(|error| error.keeper);
        assert_eq!(keeper.is_some_and(|keeper| conflict.contains(&keeper)), *wanted == 999, "{message}");
    }
    let value = live.cluster.rows(0, "SELECT v, _version FROM triage.map WHERE k = 'x'").await.unwrap();
    assert_eq!(value, [["first", "0"]]);
}
