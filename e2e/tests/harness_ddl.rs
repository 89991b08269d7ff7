//! The harness's own reading of DDL entries, on texts as ClickHouse writes them. Needs no service.

#![allow(clippy::unwrap_used)] // helpers of tests are tests as well

use publication_e2e::ddl::{DdlEntry, count_kind, parse_finished};

fn entry(name: &str, query: &str) -> DdlEntry {
    let text = format!(
        "version: 5\nquery: {query}\nhosts: ['127%2E0%2E0%2E1:19000','127%2E0%2E0%2E1:19001']\n\
         initiator: 127.0.0.1:19000\nsettings: log_comment = 'pub:1:2', max_threads = 4\n\
         tracing: 00000000-0000-0000-0000-000000000000\n0\n\n0\ninitial_query_id: abc\n"
    );
    DdlEntry::parse(name, &text).unwrap()
}

#[test]
fn an_entry_is_read_whole() {
    let mut entry =
        entry("query-0000000007", "EXCHANGE TABLES shop.orders AND shop.orders__pub_1 ON CLUSTER main");
    assert_eq!(entry.version, 5);
    assert_eq!(entry.kind(), "EXCHANGE");
    assert_eq!(entry.hosts, ["127%2E0%2E0%2E1:19000", "127%2E0%2E0%2E1:19001"]);
    assert_eq!(entry.initiator, "127.0.0.1:19000");
    assert_eq!(entry.log_comment(), Some("pub:1:2"));
    assert_eq!(entry.settings["max_threads"], "4");
    assert!(!entry.is_terminal_everywhere());
    for host in entry.hosts.clone() {
        entry.finished.insert(host, (0, String::new()));
    }
    assert!(entry.is_terminal_everywhere());
}

#[test]
fn escapes_and_quotes_are_undone() {
    let text = "version: 2\nquery: DROP TABLE `a\\\\b`.`c\\td` ON CLUSTER main\nhosts: ['h:1']\n\
                initiator: h:1\nsettings: a = 'x, y', b = 'it\\'s', c = 1.5\n";
    let entry = DdlEntry::parse("query-0000000000", text).unwrap();
    assert_eq!(entry.query, "DROP TABLE `a\\b`.`c\td` ON CLUSTER main");
    assert_eq!(entry.settings["a"], "x, y");
    assert_eq!(entry.settings["b"], "it's");
    assert_eq!(entry.settings["c"], "1.5");
    let old = "version: 1\nquery: DROP TABLE a.b\nhosts: ['h:1']\ninitiator: h:1\n";
    assert!(DdlEntry::parse("query-0000000001", old).unwrap().settings.is_empty());
    assert!(DdlEntry::parse("query-0000000002", "hosts: []\n").is_err());
}

#[test]
fn entries_are_counted_by_kind_and_whole_name() {
    let entries = [
        entry(
            "query-0000000000",
            "CREATE TABLE shop.orders ON CLUSTER main UUID 'x' (`id` UInt64) ENGINE = Log",
        ),
        entry("query-0000000001", "EXCHANGE TABLES shop.orders AND shop.orders__pub_1 ON CLUSTER main"),
        entry("query-0000000002", "EXCHANGE TABLES shop.orders2 AND shop.orders2__pub_1 ON CLUSTER main"),
        entry("query-0000000003", "DROP TABLE IF EXISTS shop.`orders__retired_1` ON CLUSTER main"),
    ];
    assert_eq!(count_kind(&entries, "EXCHANGE", None), 2);
    assert_eq!(count_kind(&entries, "EXCHANGE", Some("shop.orders")), 1);
    assert_eq!(count_kind(&entries, "EXCHANGE", Some("shop.orders__pub_1")), 1);
    assert_eq!(count_kind(&entries, "DROP", Some("shop.orders__retired_1")), 1);
    assert_eq!(count_kind(&entries, "CREATE", Some("shop.orders")), 1);
    assert_eq!(count_kind(&entries, "EXCHANGE", Some("orders")), 0);
}

#[test]
fn a_finished_node_has_code_and_message() {
    assert_eq!(parse_finished("0\n").unwrap(), (0, String::new()));
    assert_eq!(parse_finished("60\nCode: 60. No \\'t\\'\n").unwrap(), (60, "Code: 60. No 't'".to_owned()));
    assert!(parse_finished("").is_err());
}
