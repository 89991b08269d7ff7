//! A: names, operation, tokens, generation and inventory identities.
#![allow(clippy::panic)]

mod support;

use publication_protocol::canonical::Digest;
use publication_protocol::generation::{
    EngineFull, NotAGeneration, Replication, TableFact, TableRow, table_fact,
};
use publication_protocol::identity::{
    Action, CorrelationToken, FenceToken, Invocation, NameError, Names, RootId, RowExpectation, TableUuid,
    operation_id, plan_digest, target_key,
};
use publication_protocol::inventory::Inventory;
use publication_protocol::limits::TOKEN_BYTES_MAX;
use std::collections::BTreeSet;
use support::build::{inventory, names, random, server};

// proves: A-1
#[test]
fn the_target_key_tells_root_cluster_database_and_target_apart() {
    let root = RootId::draw(&random(1));
    let keys: BTreeSet<Digest> = [
        target_key(root, "c", "d", "t"),
        target_key(RootId::draw(&random(2)), "c", "d", "t"),
        target_key(root, "c2", "d", "t"),
        target_key(root, "c", "d2", "t"),
        target_key(root, "c", "d", "t2"),
        target_key(root, "cd", "", "t"),
        target_key(root, "c", "dt", ""),
    ]
    .into();
    assert_eq!(keys.len(), 7);
    assert_eq!(target_key(root, "c", "d", "t"), target_key(root, "c", "d", "t"));
}

fn operation(
    kube: &str,
    namespace: &str,
    invocation: &Invocation,
    candidate: &str,
    rows: RowExpectation,
) -> Digest {
    let names = Names::new("c", "db", "t", candidate).expect("names");
    operation_id(kube, namespace, invocation, plan_digest(candidate, rows), RootId::draw(&random(1)), &names)
}

// proves: A-2
#[test]
fn the_operation_is_its_intent_and_nothing_else() {
    let rows = RowExpectation::Exact(10);
    let object = Invocation::Object("u".into());
    let base = || operation("k", "n", &object, "t__pub_1", rows);
    assert_eq!(base(), base(), "stable over restarts, workers, attempts: nothing of them goes in");
    let given = Invocation::Given("u".into());
    let between = RowExpectation::Between { min: 10, max: Some(10) };
    let open = RowExpectation::Between { min: 10, max: None };
    let all: BTreeSet<Digest> = [
        base(),
        operation("k2", "n", &object, "t__pub_1", rows),
        operation("k", "n2", &object, "t__pub_1", rows),
        operation("k", "n", &given, "t__pub_1", rows),
        operation("k", "n", &Invocation::Object("v".into()), "t__pub_1", rows),
        operation("k", "n", &object, "t__pub_2", rows),
        operation("k", "n", &object, "t__pub_1", between),
        operation("k", "n", &object, "t__pub_1", open),
    ]
    .into();
    assert_eq!(all.len(), 8);
}

// proves
#[test]
fn tokens_are_opaque_short_and_new_each_time() {
    let operation = Digest::of_bytes(b"o");
    let mut seen = BTreeSet::new();
    for action in [Action::Bootstrap, Action::Publish, Action::Retire, Action::Drop] {
        for epoch in [0, 1, u64::MAX] {
            for seed in 0..3 {
                let token = CorrelationToken::draw(operation, action, epoch, &random(seed));
                let text = token.as_str();
                assert!(text.len() <= TOKEN_BYTES_MAX, "{} bytes", text.len());
                assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b":_-".contains(&b)), "{text}");
                assert!(text.starts_with("chpub1:") && text.contains(action.as_str()));
                let random_part = text.rsplit(':').next().expect("a part");
                assert_eq!(random_part.len(), 32, "128 bits in hex");
                assert!(!format!("{token:?}").contains(random_part), "never shown");
                assert!(seen.insert(text.to_owned()) && seen.insert(token.query_id()));
                assert_eq!(CorrelationToken::try_from(text.to_owned()), Ok(token));
            }
        }
    }
    assert_ne!(FenceToken::draw(&random(1)), FenceToken::draw(&random(2)));
    assert_eq!(FenceToken::draw(&random(1)).to_string().len(), 32);
    for bad in ["", "chpub1 x", "other:1", "chpub1:ä", &format!("chpub1{}", "x".repeat(195))] {
        assert!(CorrelationToken::try_from((*bad).to_owned()).is_err(), "{bad}");
    }
}

// proves: A-5, O02
#[test]
fn the_inventory_digest_knows_members_and_not_their_order() {
    let base = inventory(3);
    let mut turned = base.clone();
    turned.members.reverse();
    assert_eq!(base.digest(), turned.digest());
    let changes: [fn(&mut Inventory); 6] = [
        |i| i.cluster = "c2".into(),
        |i| i.members[0].shard = 2,
        |i| i.members[0].replica = 9,
        |i| i.members[0].host = "h9".into(),
        |i| i.members[0].port = 9440,
        |i| i.members[0].server_uuid = server(9),
    ];
    let mut seen = BTreeSet::from([base.digest(), inventory(2).digest()]);
    for change in changes {
        let mut other = base.clone();
        change(&mut other);
        assert!(seen.insert(other.digest()));
    }
}

// proves: A-8, K01
#[test]
fn hostile_names_of_k01_are_accepted_and_reserved_ones_refused() {
    let odd = [
        "qry_1.cus",
        "order",
        "a`b",
        "a\\b",
        "таблица",
        "a__pub",
        "x_",
        "my-table",
        "it's",
        "a \"b\" c",
        "`",
        ".",
    ];
    for target in odd {
        let names = Names::new("ch-cluster", "my-db", target, &format!("{target}__pub_1")).expect(target);
        let retired = names.retired(&random(1));
        assert!(retired.starts_with(&format!("{target}__retired_")));
        assert_ne!(retired, names.retired(&random(2)), "one for each retire epoch");
    }
    let refused =
        |target: &str, candidate: &str| Names::new("c", "d", target, candidate).expect_err(candidate);
    assert_eq!(refused("a__pub_b", "a__pub_b__pub_1"), NameError::ReservedInfix);
    assert_eq!(refused("a__retired_b", "a__retired_b__pub_1"), NameError::ReservedInfix);
    for candidate in ["t", "t__pub_", "t__pub__1", "u__pub_1", "t__pub_-", "t_pub_1", "at__pub_1"] {
        assert_eq!(refused("t", candidate), NameError::NotACandidate, "{candidate}");
    }
    // `a__pub` + `__pub_1` would be a candidate of target `a`, were the suffix free to begin with `_`.
    assert_eq!(refused("a", "a__pub__pub_1"), NameError::NotACandidate);
    for (target, candidate) in [("", "__pub_1"), ("t\n", "t\n__pub_1"), ("t\0", "t\0__pub_1")] {
        assert_eq!(refused(target, candidate), NameError::Malformed { field: "target" });
    }
    let long = "c".repeat(201);
    assert_eq!(refused(&long, &format!("{long}__pub_1")), NameError::Malformed { field: "target" });
}

// proves: A-8, K02
#[test]
fn names_that_could_never_be_dropped_are_refused_k02() {
    let (database, target) = ("d".repeat(100), "c".repeat(100));
    let error = Names::new("c", &database, &target, &format!("{target}__pub_1")).expect_err("too long");
    assert!(matches!(error, NameError::TooLong { field: "retired name", bytes: 226 }), "{error:?}");
    // Percent-escaped: three bytes each.
    let target = "-".repeat(70);
    assert!(matches!(
        Names::new("c", "db", &target, &format!("{target}__pub_1")),
        Err(NameError::TooLong { .. })
    ));
    let target = "c".repeat(80);
    assert!(Names::new("c", &database, &target, &format!("{target}__pub_1")).is_ok());
    // The longest name that a manifest may have; what its retired name would be is what counts.
    let told = |database: &str, target: &str| {
        let names = Names::new("c", database, target, &format!("{target}__pub_1"));
        names.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(
        told("d", &"x".repeat(200)),
        Err("candidate: a name has 1 to 200 bytes and no control characters".to_owned())
    );
    assert_eq!(
        told("d", &"x".repeat(193)),
        Err("retired name: 220 escaped bytes with its database, 213 allowed; shorten it".to_owned())
    );
    assert_eq!(told("d", &"x".repeat(186)), Ok(()));
}

const UUID: &str = "0f0f0f0f-1111-2222-3333-444444444444";

fn engine(text: &str) -> Option<EngineFull> {
    EngineFull::parse(text, &TableUuid::parse(UUID).expect("a UUID"))
}

// proves: A-4, K03
#[test]
fn engine_spellings_of_k03() {
    for text in [
        "ReplicatedMergeTree ORDER BY tuple()",
        "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY tuple() SETTINGS index_granularity = 8192",
        "ReplicatedReplacingMergeTree(ver) ORDER BY id",
        "ReplicatedReplacingMergeTree('/p','{replica}',ver,is_deleted) PRIMARY KEY id ORDER BY (id,d) TTL d + toIntervalDay(1) SETTINGS storage_policy = 'hot'",
        "ReplicatedCollapsingMergeTree('/p/it\\'s','r1',sign) ORDER BY id",
        "ReplicatedMergeTree('/p','r1',d,(id,d),8192)",
    ] {
        assert!(engine(text).is_some(), "{text}");
    }
    for text in ["MergeTree ORDER BY id", "", "Distributed('c', 'd', 't')", "ReplicatedMergeTree('/p"] {
        assert!(engine(text).is_none(), "{text}");
    }
    let digest = |text: &str| engine(text).expect(text).digest();
    let base = digest("ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id");
    let literal =
        format!("ReplicatedMergeTree('/clickhouse/tables/{UUID}/{{shard}}', 'server-7') ORDER BY id");
    assert_eq!(base, digest(&literal), "UUID literal, and a replica name that differs per member");
    for other in [
        "ReplicatedMergeTree('/clickhouse/tables/{uuid}/other', '{replica}') ORDER BY id",
        "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY d",
        "ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id",
        "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id TTL d + 1",
        "ReplicatedMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}') ORDER BY id SETTINGS storage_policy = 'hot'",
    ] {
        assert_ne!(base, digest(other), "{other}");
    }
    // A column argument is no replica name: nothing of it is made a placeholder.
    assert_ne!(
        digest("ReplicatedReplacingMergeTree(a, b) ORDER BY id"),
        digest("ReplicatedReplacingMergeTree(a, c) ORDER BY id")
    );
    // K04: what the server refuses to rename.
    let macros = engine("ReplicatedMergeTree('/t/{shard}/{database}/{table}', '{replica}') ORDER BY id");
    assert_eq!(macros.expect("parses").path_macros, ["{shard}", "{database}", "{table}"]);
}

fn row(elements: &str) -> TableRow {
    TableRow {
        uuid: UUID.into(),
        engine: "ReplicatedMergeTree".into(),
        engine_full: "ReplicatedMergeTree('/p/{uuid}', '{replica}') ORDER BY id".into(),
        create_query: format!("CREATE TABLE db.t ({elements}) ENGINE = X"),
        keys: ["id".into(), "id".into(), String::new(), String::new()],
        replication: Some(Replication {
            zookeeper_name: "default".into(),
            zookeeper_path: "/p/1".into(),
            replica_name: "r1".into(),
        }),
    }
}

fn digest_of(row: &TableRow) -> Digest {
    table_fact(row).identity().unwrap_or_else(|| panic!("{row:?}")).digest()
}

// proves: A-4, O02
#[test]
fn any_semantic_change_of_a_table_changes_its_identity() {
    let base = "`id` UInt64, `d` Date";
    let digest = digest_of(&row(base));
    assert_eq!(
        digest,
        digest_of(&row("`id` UInt64 COMMENT 'x', d Date")),
        "comments and quoting do not count"
    );
    let mut seen = BTreeSet::from([digest]);
    for elements in [
        "`id` UInt32, `d` Date",
        "`d` Date, `id` UInt64",
        "`id` UInt64 DEFAULT 1, `d` Date",
        "`id` UInt64 MATERIALIZED 1, `d` Date",
        "`id` UInt64 CODEC(ZSTD(1)), `d` Date",
        "`id` UInt64, `d` Date TTL d + 1",
        "`id` UInt64, `d` Date, INDEX i id TYPE minmax GRANULARITY 1",
        // K03: equal in engine_full, different in a projection.
        "`id` UInt64, `d` Date, PROJECTION p (SELECT id ORDER BY d)",
        "`id` UInt64, `d` Date, CONSTRAINT c CHECK id > 1",
        "`id` UInt64, `d` Date, `e` String DEFAULT 'a'",
        "`id` UInt64, `d` Date, `e` String DEFAULT 'b'",
    ] {
        assert!(seen.insert(digest_of(&row(elements))), "{elements}");
    }
    let changes: [fn(&mut TableRow); 8] = [
        |r| r.uuid = "0f0f0f0f-1111-2222-3333-444444444445".into(),
        |r| r.keys[0] = "(id, d)".into(),
        |r| r.keys[1] = "d".into(),
        |r| r.keys[2] = "toYYYYMM(d)".into(),
        |r| r.keys[3] = "id".into(),
        |r| r.engine_full.push_str(" SETTINGS a = 1"),
        |r| r.replication.as_mut().expect("replicated").zookeeper_path = "/p/2".into(),
        |r| r.replication.as_mut().expect("replicated").zookeeper_name = "aux".into(),
    ];
    for change in changes {
        let mut other = row(base);
        change(&mut other);
        assert!(seen.insert(digest_of(&other)), "{other:?}");
    }
    let mut other = row(base);
    other.replication.as_mut().expect("replicated").replica_name = "r2".into();
    assert_eq!(digest, digest_of(&other), "the replica's name is not part of it");
}

// proves: A-4, B-7
#[test]
fn what_is_no_generation_says_why() {
    let why = |change: fn(&mut TableRow)| {
        let mut row = row("id UInt64");
        change(&mut row);
        match table_fact(&row) {
            TableFact::Other(why) => why,
            other => panic!("{other:?}"),
        }
    };
    for engine in ["View", "Distributed", "MergeTree", "Dictionary", "Replicated", "SharedMergeTree"] {
        let mut row = row("id UInt64");
        row.engine = engine.into();
        assert_eq!(table_fact(&row), TableFact::Other(NotAGeneration::Engine(engine.into())));
    }
    assert_eq!(why(|r| r.uuid = "00000000-0000-0000-0000-000000000000".into()), NotAGeneration::NoUuid);
    assert_eq!(why(|r| r.uuid.clear()), NotAGeneration::NoUuid);
    assert_eq!(why(|r| r.replication = None), NotAGeneration::NotInReplicas);
    assert_eq!(why(|r| r.create_query = "CREATE VIEW x".into()), NotAGeneration::Unparseable);
    assert_eq!(why(|r| r.engine_full = "ReplicatedMergeTree('/p".into()), NotAGeneration::Unparseable);
    assert_eq!(why(|r| r.keys[0] = "'".into()), NotAGeneration::Unparseable);
}

// proves: A-8
#[test]
fn the_names_used_by_these_tests_are_good() {
    assert_eq!(names().retired(&random(1)).len(), "t__retired_".len() + 16);
}
