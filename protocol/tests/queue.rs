//! E and D-3..D-5: what queue rows mean.
#![allow(clippy::panic)]

mod support;

use publication_protocol::phase::Phase;
use publication_protocol::queue::{
    Binding, ExceptionText, HostResult, QueueDoubt, QueueRow, QueueView, Sought, host_result, view,
};
use publication_protocol::record::Record;
use support::build::{queue_row, record_in};

// proves: E, O08
#[test]
fn every_cell_of_the_host_table() {
    use ExceptionText::{Empty, Null, Some as Text};
    let codes = [None, Some(-1), Some(0), Some(48), Some(i64::from(u32::MAX) + 1)];
    let statuses = [
        None,
        Some("Inactive"),
        Some("Active"),
        Some("Finished"),
        Some("Removing"),
        Some("Unknown"),
        Some("finished"),
        Some(""),
    ];
    for status in statuses {
        for code in codes {
            for text in [Null, Empty, Text] {
                let expected = match (status, code, text) {
                    (Some("Inactive"), None, Null) | (Some("Active"), None, Null) => HostResult::InProgress,
                    (Some("Finished"), Some(0), Empty) => HostResult::TerminalSuccess,
                    (Some("Finished"), Some(48), Text) => HostResult::TerminalFailure(48),
                    _ => HostResult::Unknown,
                };
                assert_eq!(host_result(status, code, text), expected, "{status:?} {code:?} {text:?}");
            }
        }
    }
}

fn dispatching() -> Record {
    record_in(Phase::Dispatching, 2)
}

fn rows(record: &Record, codes: [Option<u32>; 2]) -> Vec<QueueRow> {
    let dispatch = record.last_dispatch().expect("dispatched");
    vec![queue_row(record, dispatch, 1, codes[0]), queue_row(record, dispatch, 2, codes[1])]
}

fn seen(record: &Record, rows: &[QueueRow], bound: Option<&Binding>) -> QueueView {
    let dispatch = record.last_dispatch().expect("dispatched");
    let statement = record.statement(dispatch);
    let inventory = &record.payload.inventory;
    view(rows, Sought { token: &dispatch.token, statement: &statement, bound, inventory })
}

fn doubt(record: &Record, rows: &[QueueRow]) -> QueueDoubt {
    match seen(record, rows, None) {
        QueueView::Unknown(doubt) => doubt,
        other => panic!("{other:?}"),
    }
}

// proves: E-2, D-3, O07
#[test]
fn hosts_are_aggregated_and_unknown_dominates() {
    let record = dispatching();
    let codes = |view: QueueView| match view {
        QueueView::Terminal { receipt, .. } => receipt.codes.into_values().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(codes(seen(&record, &rows(&record, [Some(0), Some(0)]), None)), [0, 0]);
    assert_eq!(codes(seen(&record, &rows(&record, [Some(0), Some(48)]), None)), [0, 48]);
    // K13: Inactive or Active anywhere is in flight, whatever failed elsewhere.
    for codes in [[Some(48), None], [None, Some(0)], [None, None]] {
        let view = seen(&record, &rows(&record, codes), None);
        assert!(matches!(view, QueueView::InProgress { .. }), "{codes:?}: {view:?}");
    }
    for code in [Some(0), Some(48), None] {
        let mut rows = rows(&record, [code, code]);
        rows[1].status = Some("Removing".into());
        assert_eq!(doubt(&record, &rows), QueueDoubt::Status, "{code:?}");
    }
}

// proves: E-1, E, O09, K12
#[test]
fn missing_extra_duplicate_and_null_hosts_are_unknown() {
    let record = dispatching();
    let good = rows(&record, [Some(0), Some(0)]);
    assert_eq!(doubt(&record, &good[..1]), QueueDoubt::Hosts, "missing");
    let mut extra = good.clone();
    extra.push(QueueRow { host: Some("h3".into()), ..good[0].clone() });
    assert_eq!(doubt(&record, &extra), QueueDoubt::Hosts, "extra");
    let mut duplicate = good.clone();
    duplicate.push(good[0].clone());
    assert_eq!(doubt(&record, &duplicate), QueueDoubt::Hosts, "the same host twice (K12)");
    for break_row in [
        (|row: &mut QueueRow| row.host = None) as fn(&mut QueueRow),
        |row| row.port = None,
        |row| row.port = Some(9440),
    ] {
        let mut rows = good.clone();
        break_row(&mut rows[1]);
        assert_eq!(doubt(&record, &rows), QueueDoubt::Hosts);
    }
}

// proves: E, D-3, K12
#[test]
fn each_null_of_k12_alone_proves_nothing() {
    let record = dispatching();
    for (break_row, expected) in [
        (
            (|row: &mut QueueRow| row.status = Some("Removing".into())) as fn(&mut QueueRow),
            QueueDoubt::Status,
        ),
        (|row| row.exception_code = None, QueueDoubt::Status),
        (|row| row.exception_text = ExceptionText::Null, QueueDoubt::Status),
        (|row| row.status = None, QueueDoubt::Status),
        (|row| row.status = Some("Unknown".into()), QueueDoubt::Status),
        (|row| row.host = None, QueueDoubt::Hosts),
        (|row| row.cluster = String::new(), QueueDoubt::ForeignStatement),
        (|row| row.query = String::new(), QueueDoubt::QueryChanged),
        (|row| row.query.push_str(" SYNC"), QueueDoubt::QueryChanged),
    ] {
        let mut rows = rows(&record, [Some(0), Some(0)]);
        break_row(&mut rows[1]);
        assert_eq!(doubt(&record, &rows), expected);
    }
    assert_eq!(doubt(&record, &[]), QueueDoubt::NotFound, "zero rows");
}

// proves: D-3, D-5, O07, O10, K14
#[test]
fn one_entry_is_found_by_its_token_and_by_nothing_else() {
    let record = dispatching();
    let good = rows(&record, [Some(0), Some(0)]);
    // K14: an entry of the same text without our token is not ours.
    let twin = |token: &str, row: &QueueRow| QueueRow {
        entry: "query-0000000077".into(),
        token: token.into(),
        ..row.clone()
    };
    let mut with_twin = good.clone();
    with_twin.extend(good.iter().map(|row| twin("", row)));
    assert!(matches!(
        seen(&record, &with_twin, None),
        QueueView::Terminal { binding, .. } if binding.entry == good[0].entry
    ));
    let only_twin: Vec<QueueRow> = good.iter().map(|row| twin("", row)).collect();
    assert_eq!(doubt(&record, &only_twin), QueueDoubt::NotFound);
    let mut doubled = good.clone();
    doubled.extend(good.iter().map(|row| twin(&row.token, row)));
    assert_eq!(doubt(&record, &doubled), QueueDoubt::SeveralEntries);
}

// proves: D-3
#[test]
fn a_foreign_statement_under_our_token_is_not_ours() {
    let record = dispatching();
    for query in [
        "EXCHANGE TABLES `db`.`t` AND `db`.`t__pub_2` ON CLUSTER `c`",
        "EXCHANGE TABLES `db`.`t__pub_1` AND `db`.`t` ON CLUSTER `c`",
        "EXCHANGE TABLES `other`.`t` AND `db`.`t__pub_1` ON CLUSTER `c`",
        "EXCHANGE TABLES `db`.`t` AND `db`.`t__pub_1` ON CLUSTER `d`",
        "RENAME TABLE `db`.`t__pub_1` TO `db`.`t` ON CLUSTER `c`",
        "DROP TABLE IF EXISTS `db`.`t__pub_1` ON CLUSTER `c`",
        "EXCHANGE TABLES `db`.`t` AND `db`.`t__pub_1` ON CLUSTER `c` SETTINGS x = 1",
        "not SQL at all '",
    ] {
        let mut rows = rows(&record, [Some(0), Some(0)]);
        rows.iter_mut().for_each(|row| row.query = query.into());
        assert_eq!(doubt(&record, &rows), QueueDoubt::ForeignStatement, "{query}");
    }
    let mut rows = rows(&record, [Some(0), Some(0)]);
    rows.iter_mut().for_each(|row| row.cluster = "d".into());
    assert_eq!(doubt(&record, &rows), QueueDoubt::ForeignStatement, "cluster column");
}

// proves: D-4, D-5, O07
#[test]
fn a_bound_entry_must_stay_the_same() {
    let record = dispatching();
    let good = rows(&record, [None, None]);
    let QueueView::InProgress { binding, .. } = seen(&record, &good, None) else { panic!("in progress") };
    assert!(matches!(seen(&record, &good, Some(&binding)), QueueView::InProgress { .. }));
    let other = Binding { entry: "query-0000000099".into(), ..binding.clone() };
    assert_eq!(seen(&record, &good, Some(&other)), QueueView::Unknown(QueueDoubt::EntryChanged));
    let mut changed = good.clone();
    changed.iter_mut().for_each(|row| row.query = row.query.replace("TABLES", "TABLES /* again */"));
    assert_eq!(seen(&record, &changed, Some(&binding)), QueueView::Unknown(QueueDoubt::QueryChanged));
    assert_eq!(seen(&record, &[], Some(&binding)), QueueView::Unknown(QueueDoubt::NotFound), "gone (D-5)");
}
