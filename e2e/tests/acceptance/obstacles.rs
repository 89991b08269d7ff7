//! B: what stands in the way of a publication, with its code and what its message must name.

use crate::looks::{CANDIDATE, TARGET};
use serde_json::{Value, json};

/// What stands in the way on the members, in order. `{db}` is the case's database, `{other}` another one.
#[derive(Clone, Copy)]
pub enum Obstacle {
    /// Statements on every member.
    Everywhere(&'static [&'static str]),
    /// Statements on the second member.
    OnSecond(&'static [&'static str]),
    /// A system table of the second member, shown otherwise.
    Shown(&'static str, fn(&str) -> Value),
    /// A system table of every member, shown otherwise.
    ShownEverywhere(&'static str, fn(&str) -> Value),
    /// Reads of the operator that name this are refused on the second member.
    Denied(&'static str),
    /// A table of database `{other}` on the second member, in the replica set of this one.
    Joins(&'static str),
}

use Obstacle::{Denied, Everywhere, Joins, OnSecond, Shown, ShownEverywhere};

pub struct Refusal {
    pub target: bool,
    pub candidate: bool,
    pub obstacle: Obstacle,
    pub code: &'static str,
    pub named: &'static [&'static str],
}

/// Both names are there, and healthy.
const fn refusal(obstacle: Obstacle, code: &'static str, named: &'static [&'static str]) -> Refusal {
    Refusal { target: true, candidate: true, obstacle, code, named }
}

const SECOND: &str = "replica 2";
pub const MV: Obstacle = Everywhere(&[
    "CREATE MATERIALIZED VIEW {db}.orders_mv ENGINE = MergeTree ORDER BY id AS SELECT id FROM {db}.orders",
]);
pub const POLICY: Obstacle = Shown(
    "row_policies",
    |db| json!({"where": "0", "rows": [{"short_name": "tenant", "database": db, "table": TARGET}]}),
);

/// B-9, and what else preflight finds.
pub const IN_THE_WAY: &[Refusal] = &[
    refusal(MV, "DEPENDENTS_PRESENT", &["materialized view {db}.orders_mv reads orders", SECOND]),
    refusal(
        OnSecond(&[
            "CREATE TABLE {db}.inbox (id UInt64, value String) ENGINE = MergeTree ORDER BY id",
            "CREATE MATERIALIZED VIEW {db}.filler TO {db}.orders__pub_1 AS SELECT id, value FROM {db}.inbox",
        ]),
        "DEPENDENTS_PRESENT",
        &["materialized view {db}.filler writes to orders__pub_1", SECOND],
    ),
    refusal(
        OnSecond(&["CREATE VIEW {other}.seen AS SELECT id FROM {db}.orders"]),
        "DEPENDENTS_PRESENT",
        &["view {other}.seen reads orders", SECOND],
    ),
    refusal(
        OnSecond(&[
            "CREATE DICTIONARY {db}.lookup (id UInt64, value String) PRIMARY KEY id SOURCE(CLICKHOUSE(DB '{db}' TABLE 'orders')) LAYOUT(FLAT()) LIFETIME(0)",
        ]),
        "DEPENDENTS_PRESENT",
        &["dictionary {db}.lookup reads orders", SECOND],
    ),
    refusal(POLICY, "DEPENDENTS_PRESENT", &["row policy tenant is on orders", SECOND]),
    refusal(
        Shown("grants", |db| {
            let column = json!({"user_name": "analyst", "access_type": "SELECT", "database": db, "table": TARGET, "column": "id"});
            json!({"rows": [column]})
        }),
        "DEPENDENTS_PRESENT",
        &["column grant SELECT(id) to analyst is on orders and not on orders__pub_1", SECOND],
    ),
    refusal(Joins(CANDIDATE), "CANDIDATE_INVALID", &["{other}.joined", SECOND]),
    refusal(Joins(TARGET), "TARGET_INVALID", &["orders has 3 replicas", "(r9)", "replica 1"]),
    refusal(
        Shown(
            "server_settings",
            |_| json!({"replace": {"value": "if(name = 'max_table_size_to_drop', '1', value)"}}),
        ),
        "CAPABILITY_MISSING",
        &["target: orders has", "max_table_size_to_drop is 1", SECOND],
    ),
    refusal(
        Shown("grants", |_| json!({"where": "toString(access_type) NOT IN ('CLUSTER', 'DROP', 'ALL')"})),
        "ACCESS_DENIED",
        &["CLUSTER ON *.*", "DROP TABLE ON {db}.orders", "{db}.orders__retired_*", SECOND],
    ),
    refusal(Denied("row_policies"), "ACCESS_DENIED", &["SHOW ROW POLICIES ON *.*", "{second}"]),
    refusal(Denied("grants"), "ACCESS_DENIED", &["SHOW USERS, SHOW ROLES ON *.*", "{second}"]),
];

const fn no_target(obstacle: Obstacle, code: &'static str, named: &'static [&'static str]) -> Refusal {
    Refusal { target: false, candidate: true, obstacle, code, named }
}

const fn no_candidate(obstacle: Obstacle, code: &'static str, named: &'static [&'static str]) -> Refusal {
    Refusal { target: true, candidate: false, obstacle, code, named }
}

/// K18: what the names may not be.
pub const WRONG_KINDS: &[Refusal] = &[
    no_target(
        Everywhere(&["CREATE TABLE {db}.orders (id UInt64) ENGINE = MergeTree ORDER BY id"]),
        "TARGET_INVALID",
        &["target: orders is a MergeTree", "replica 1"],
    ),
    no_target(
        Everywhere(&["CREATE VIEW {db}.orders AS SELECT 1 AS id"]),
        "TARGET_INVALID",
        &["target: orders is a View", "replica 1"],
    ),
    no_target(
        Everywhere(&["CREATE TABLE {db}.orders (id UInt64) ENGINE = Distributed('main', '{db}', 'local')"]),
        "TARGET_INVALID",
        &["target: orders is a Distributed", "replica 1"],
    ),
    no_target(
        Everywhere(&[
            "CREATE DICTIONARY {db}.orders (id UInt64, value String) PRIMARY KEY id SOURCE(NULL()) LAYOUT(FLAT()) LIFETIME(0)",
        ]),
        "TARGET_INVALID",
        &["target: orders is a Dictionary", "replica 1"],
    ),
    no_target(
        OnSecond(&[
            "CREATE TABLE {db}.orders UUID '{own}' (id UInt64, value String) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id",
        ]),
        "TARGET_INVALID",
        &["target: orders is missing", "replica 1"],
    ),
    // K27: another tool stopped half-way.
    refusal(
        OnSecond(&[
            "RENAME TABLE {db}.orders TO {db}.orders__dbt_backup",
            "CREATE TABLE {db}.orders UUID '{own}' (id UInt64, value String) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id",
        ]),
        "TARGET_INVALID",
        &["target: orders is another generation on {h2} than", "{own} on {h2}"],
    ),
    no_candidate(Everywhere(&[]), "CANDIDATE_INVALID", &["candidate: orders__pub_1 is missing", "replica 1"]),
    no_candidate(
        Everywhere(&[
            "CREATE TABLE {db}.orders__pub_1 (id UInt64, value String) ENGINE = MergeTree ORDER BY id",
        ]),
        "CANDIDATE_INVALID",
        &["candidate: orders__pub_1 is a MergeTree", "replica 1"],
    ),
    no_candidate(
        Everywhere(&["CREATE VIEW {db}.orders__pub_1 AS SELECT 1 AS id"]),
        "CANDIDATE_INVALID",
        &["candidate: orders__pub_1 is a View", "replica 1"],
    ),
    no_candidate(
        OnSecond(&[
            "CREATE TABLE {db}.orders__pub_1 UUID '{own}' (id UInt64, value String) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id",
        ]),
        "CANDIDATE_INVALID",
        &["candidate: orders__pub_1 is missing", "replica 1"],
    ),
    no_candidate(
        Everywhere(&[
            "CREATE TABLE {db}.orders__pub_1 (id UInt64, value String) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{db}/orders__pub_1/r', '{replica}') ORDER BY id",
        ]),
        "CANDIDATE_INVALID",
        &["candidate: orders__pub_1 is another generation", SECOND],
    ),
];

/// B-3, K18: databases.
pub const WRONG_DATABASES: &[Refusal] = &[
    refusal(
        Shown("databases", |db| json!({"where": format!("name != '{db}'")})),
        "TARGET_INVALID",
        &["database: {db} does not exist", SECOND],
    ),
    refusal(
        Shown(
            "databases",
            |db| json!({"replace": {"engine": format!("if(name = '{db}', 'Ordinary', engine)")}}),
        ),
        "TARGET_INVALID",
        &["database: {db} has the engine Ordinary", SECOND],
    ),
    refusal(
        ShownEverywhere(
            "databases",
            |db| json!({"replace": {"engine": format!("if(name = '{db}', 'Replicated', engine)")}}),
        ),
        "TARGET_INVALID",
        &["database: {db} has the engine Replicated", "replica 1"],
    ),
];

/// B-1, K07, K08: topologies.
pub const WRONG_TOPOLOGIES: &[Refusal] = &[
    refusal(
        ShownEverywhere("clusters", |_| json!({"replace": {"shard_num": "replica_num"}})),
        "UNSUPPORTED_TOPOLOGY",
        &["2 shards"],
    ),
    refusal(
        ShownEverywhere("clusters", |_| json!({"replace": {"internal_replication": "0"}})),
        "UNSUPPORTED_TOPOLOGY",
        &["internal_replication is off"],
    ),
    refusal(
        Shown("clusters", |_| json!({"replace": {"is_local": "0"}})),
        "INCOMPLETE_INVENTORY",
        &["replica 2", "takes 0 rows of the cluster for itself"],
    ),
    refusal(
        Shown("clusters", |_| json!({"replace": {"is_local": "1"}})),
        "INCOMPLETE_INVENTORY",
        &["takes 2 rows of the cluster for itself"],
    ),
    refusal(
        Shown("clusters", |_| json!({"where": "cluster != 'main'"})),
        "INCOMPLETE_INVENTORY",
        &["replica 2", "another system.clusters"],
    ),
];
