//! Every statement as text, for ordinary and for hostile names; and quoting against the protocol's own parser.

use super::*;
use proptest::prelude::*;
use publication_protocol::authority::Predicate;
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, Random};
use publication_protocol::record::RawRow;
use publication_protocol::sqltext::{Token, parse_statement, tokenize};

const CLUSTERS: [&str; 2] = ["main", "ch-cluster"];
const DATABASES: [&str; 2] = ["shop", "my-db"];
const NAMES: [&str; 7] = ["orders", "qry_1.cus", "order", "a`b", "a\\b", "таблица", "it's; DROP TABLE x --"];

fn named(database: &str, table: &str) -> TableName {
    TableName { database: database.into(), table: table.into() }
}

fn statements(cluster: &str, database: &str, target: &str) -> Vec<Statement> {
    let candidate = format!("{target}__pub_1");
    let retired = format!("{target}__retired_0123456789abcdef");
    let kinds = [
        Ddl::Exchange { target: named(database, target), candidate: named(database, &candidate) },
        Ddl::Rename { from: named(database, &candidate), to: named(database, target) },
        Ddl::Rename { from: named(database, &candidate), to: named(database, &retired) },
        Ddl::DropIfExists { table: named(database, &retired) },
    ];
    kinds.into_iter().map(|ddl| Statement { ddl, cluster: cluster.into() }).collect()
}

fn raw_row() -> RawRow {
    let payload = r#"{"name":"a`b","other":"it's \\ \" таблица","q":"? ?? {x:String}"}"#.to_owned();
    RawRow {
        target_key: "k".repeat(4),
        operation_id: "o".repeat(4),
        fence_token: "f".repeat(4),
        phase: "PREPARED".into(),
        dispatch_epoch: 3,
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
        payload,
    }
}

// proves: K01
#[test]
fn distributed_statements() {
    let mut text = Vec::new();
    for (cluster, database) in CLUSTERS.into_iter().zip(DATABASES) {
        for name in NAMES {
            for wanted in statements(cluster, database, name) {
                text.push(statement(&wanted).unwrap().text().to_owned());
            }
        }
    }
    insta::assert_snapshot!(text.join("\n"));
}

/// One pair is exchanged, one table is renamed; a drop waits for nothing and needs nothing to be there.
// proves: B-10, K22
#[test]
fn there_are_three_forms_of_statement() {
    let texts: Vec<String> = statements("main", "shop", "orders")
        .iter()
        .map(|wanted| statement(wanted).unwrap().text().to_owned())
        .collect();
    assert_eq!(
        texts,
        [
            "EXCHANGE TABLES `shop`.`orders` AND `shop`.`orders__pub_1` ON CLUSTER `main`",
            "RENAME TABLE `shop`.`orders__pub_1` TO `shop`.`orders` ON CLUSTER `main`",
            "RENAME TABLE `shop`.`orders__pub_1` TO `shop`.`orders__retired_0123456789abcdef` ON CLUSTER `main`",
            "DROP TABLE IF EXISTS `shop`.`orders__retired_0123456789abcdef` ON CLUSTER `main`",
        ]
    );
}

// proves: B-6, K01
#[test]
fn facade_statements() {
    let root = RootId::draw(&Random([0xab; 32]));
    let text = CLUSTERS.into_iter().zip(DATABASES).map(|(cluster, database)| {
        format!("{}\n{}", create_facade(database, cluster, root).text(), facade_text(database, root).text())
    });
    insta::assert_snapshot!(text.collect::<Vec<_>>().join("\n"));
    let parsed = parse_statement(create_facade("my-db", "ch-cluster", root).text()).unwrap();
    assert_eq!(parsed.cluster, "ch-cluster");
    let table = named("my-db", FACADE_TABLE);
    assert_eq!(parsed.ddl, Ddl::CreateIfNotExists { table });
    assert!(statement(&parsed).is_none(), "a facade is created with its root or not at all");
}

// proves: C-2, C-3, K01
#[test]
fn mutations() {
    let row = raw_row();
    let expected = Predicate {
        version: 7,
        operation_id: row.operation_id.clone(),
        fence_token: row.fence_token.clone(),
        phase: "PREPARED".into(),
    };
    let insert = mutation("my-db", &Mutation::Insert(row.clone()));
    let update = mutation("my-db", &Mutation::Update { row, expected });
    insta::assert_snapshot!(format!("{}\n{}", insert.text(), update.text()));
}

// proves: B-2, K01
#[test]
fn reads() {
    let (cluster, database) = ("ch-cluster", "my-db");
    let names = ["a`b", "a\\b", "it's"];
    let token = CorrelationToken::draw(Digest::of_bytes(b"o"), Action::Publish, 1, &Random([1; 32]));
    let inner = [
        identity(),
        cluster_rows(cluster),
        database_engine(database),
        tables(database, &names),
        replication(database, &names),
        health(database, names[0]),
        unfinished_mutations(database, names[1]),
        count(database, names[2]),
        server(),
        facades(),
        settings(&["a"]),
        borne(database, &names, &["it's", "t"]),
    ];
    let mut text: Vec<String> = inner.iter().map(|inner| inner.here().text().to_owned()).collect();
    text.push(tables(database, &names).everywhere(cluster).text().to_owned());
    text.push(exists(database, names[0]).text().to_owned());
    text.push(slot(database, "k'").text().to_owned());
    text.push(all_ours("it's").text().to_owned());
    text.push(queue("it's", &[token.clone(), token]).text().to_owned());
    insta::assert_snapshot!(text.join("\n"));
}

// proves: B-9, K01
#[test]
fn preflight_reads() {
    let (database, names) = ("my-db", ["a`b", "it's"]);
    let inner = [
        definitions("a`b.c"),
        definitions("``"),
        configured_dictionaries(),
        table_uses(database, &names),
        row_policies(database, &names),
        system_column("grants", "is_wildcard"),
        grants(database, &names, true),
        grants(database, &names, false),
        same_path("/p/it's"),
        replica_sets(database, &names),
        limits(),
    ];
    let mut text: Vec<String> = inner.iter().map(|inner| inner.here().text().to_owned()).collect();
    text.push(backlog("it's").text().to_owned());
    insta::assert_snapshot!(text.join("\n"));
}

/// A self-test has statements for its own tables only, and the queue shows them as they were meant.
// proves: C-2, C-3, D-3, K01
#[test]
fn self_test_statements() {
    let scratch = Scratch::draw("my-db", "ch-cluster", &Random([0xab; 32]));
    let steps = [
        ScratchStep::CreateMap,
        ScratchStep::CreateFirst,
        ScratchStep::CreateSecond,
        ScratchStep::Exchange,
        ScratchStep::DropMap,
        ScratchStep::DropFirst,
        ScratchStep::DropSecond,
    ];
    let mut text = Vec::new();
    for step in steps {
        let sql = scratch.sql(step);
        assert_eq!(parse_statement(sql.text()), Some(scratch.statement(step)));
        text.push(sql.text().to_owned());
    }
    text.push(scratch.mutation(&Mutation::Insert(raw_row())).text().to_owned());
    text.push(scratch.row("self'test").text().to_owned());
    text.push(own_grants(true).here().text().to_owned());
    insta::assert_snapshot!(text.join("\n"));
    assert!(scratch.names().iter().all(|name| text[..7].iter().any(|sql| sql.contains(name.as_str()))));
}

// proves: D-3, K01
#[test]
fn what_is_sent_parses_to_what_was_meant() {
    for name in NAMES {
        for wanted in statements("ch-cluster", "my-db", name) {
            assert_eq!(parse_statement(statement(&wanted).unwrap().text()), Some(wanted));
        }
    }
}

#[test]
fn statements_do_not_show_in_debug_output() {
    let text = format!("{:?} {:?}", count("shop", "orders").here(), identity());
    assert!(!text.contains("SELECT") && !text.contains("orders"), "{text}");
}

proptest! {
    // proves: K01
    #[test]
    fn quoted_names_come_back(name in any::<String>()) {
        prop_assert_eq!(tokenize(&identifier(&name)), Some(vec![Token::Quoted(name.clone())]));
        prop_assert_eq!(tokenize(&literal(&name)), Some(vec![Token::Text(name)]));
    }

    // proves: D-3, K01
    #[test]
    fn statements_come_back(database in any::<String>(), table in "\\PC{1,40}", cluster in "\\PC{1,20}") {
        for wanted in statements(&cluster, &database, &table) {
            let sent = statement(&wanted).map(|sql| sql.text().to_owned());
            prop_assert_eq!(sent.as_deref().and_then(parse_statement), Some(wanted));
        }
    }
}
