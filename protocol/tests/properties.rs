//! Properties over generated inputs.

mod support;

use proptest::prelude::*;
use publication_protocol::classify::{Classification, QueueSummary, classify};
use publication_protocol::identity::Names;
use publication_protocol::phase::Phase;
use publication_protocol::queue::{ExceptionText, QueueRow, QueueView, Sought, view};
use publication_protocol::record::{RawRow, Record};
use publication_protocol::replica::{MemberState, member_state};
use publication_protocol::sqltext::{
    Ddl, Statement, TableName, fingerprint, parse_statement, table_elements, tokenize,
};
use std::collections::BTreeMap;
use support::build::{RETIRED, entry_name, fact, inventory, queue_row, record_in, render};

fn name() -> impl Strategy<Value = String> {
    // Anything that a manifest may hold: no control characters, quotes and backslashes likely.
    prop_oneof![
        "[a-z_]{1,12}",
        "[ -~]{1,20}",
        "[`'\"\\\\. /*-]{1,8}",
        "\\PC{1,10}".prop_filter("no control characters", |s| !s.chars().any(char::is_control)),
    ]
}

fn table() -> impl Strategy<Value = TableName> {
    (name(), name()).prop_map(|(database, table)| TableName { database, table })
}

fn statement() -> impl Strategy<Value = Statement> {
    let ddl = prop_oneof![
        (table(), table()).prop_map(|(target, candidate)| Ddl::Exchange { target, candidate }),
        (table(), table()).prop_map(|(from, to)| Ddl::Rename { from, to }),
        table().prop_map(|table| Ddl::DropIfExists { table }),
    ];
    (ddl, name()).prop_map(|(ddl, cluster)| Statement { ddl, cluster })
}

fn queue_rows() -> impl Strategy<Value = Vec<QueueRow>> {
    let record = record_in(Phase::Dispatching, 3);
    let dispatch = record.last_dispatch().expect("dispatched").clone();
    let base = queue_row(&record, &dispatch, 1, Some(0));
    let status = prop::option::of(prop_oneof![
        Just("Finished".to_owned()),
        Just("Active".to_owned()),
        Just("Inactive".to_owned()),
        Just("Removing".to_owned()),
        ".{0,5}",
    ]);
    let text = prop_oneof![Just(ExceptionText::Null), Just(ExceptionText::Empty), Just(ExceptionText::Some)];
    let code = prop_oneof![Just(None), Just(Some(0)), Just(Some(48)), any::<i64>().prop_map(Some)];
    let host = prop::option::of(prop_oneof!["h[1-4]", ".{0,4}"]);
    let row = (1..3_u64, any::<bool>(), host, status, code, text, any::<bool>()).prop_map(
        move |(entry, own, host, status, code, text, same_query)| QueueRow {
            entry: entry_name(entry),
            token: if own { base.token.clone() } else { String::new() },
            cluster: base.cluster.clone(),
            query: if same_query { base.query.clone() } else { "DROP".into() },
            host,
            port: Some(9000),
            status,
            exception_code: code,
            exception_text: text,
        },
    );
    prop::collection::vec(row, 0..8)
}

fn see(rows: &[QueueRow]) -> QueueView {
    let record = record_in(Phase::Dispatching, 3);
    let dispatch = record.last_dispatch().expect("dispatched");
    let statement = record.statement(dispatch);
    view(
        rows,
        Sought {
            token: &dispatch.token,
            statement: &statement,
            bound: None,
            inventory: &record.payload.inventory,
        },
    )
}

fn state() -> impl Strategy<Value = MemberState> {
    (0..4_u64, 0..4_u64, 0..4_u64, 0..6_u8).prop_map(|(target, candidate, retired, answered)| {
        let record = record_in(Phase::RetirePending, 2);
        let names = ["t".to_owned(), record.payload.names.candidate.clone(), RETIRED.to_owned()];
        let facts = [target, candidate, retired].map(|n| match n {
            0 => publication_protocol::generation::TableFact::Absent,
            n => fact(n, 1),
        });
        let tables: BTreeMap<_, _> =
            names.into_iter().zip(facts).take(if answered == 0 { 2 } else { 3 }).collect();
        member_state(&record, &tables)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    // proves, O02
    #[test]
    fn inventory_digests_do_not_depend_on_order(order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle()) {
        let base = inventory(6);
        let mut shuffled = base.clone();
        shuffled.members = order.into_iter().map(|at| base.members[at].clone()).collect();
        prop_assert_eq!(base.digest(), shuffled.digest());
    }

    // proves: D-3
    #[test]
    fn a_rendered_statement_is_read_back_whatever_the_names(statement in statement()) {
        prop_assert_eq!(parse_statement(&render(&statement)), Some(statement));
    }

    // proves: D-3
    #[test]
    fn nothing_may_stand_behind_a_statement(statement in statement(), tail in "[a-z0-9=,]{1,9}") {
        let text = format!("{} {tail}", render(&statement));
        prop_assert_eq!(parse_statement(&text), None);
    }

    // proves: D-3, A-4
    #[test]
    fn parsers_are_total(text in ".{0,80}") {
        let _ = (parse_statement(&text), table_elements(&text));
        if let Some(tokens) = tokenize(&text) {
            prop_assert_eq!(fingerprint(&tokens), fingerprint(&tokens));
        }
    }

    // proves: A-8
    #[test]
    fn a_candidate_belongs_to_one_target(a in "[a-z_]{1,9}(__pub)?_{0,2}", b in "[a-z_]{1,9}(__pub)?_{0,2}", suffix in "[a-z0-9_]{1,9}") {
        let candidate = format!("{a}__pub_{suffix}");
        let both = Names::new("c", "d", &a, &candidate).is_ok() && Names::new("c", "d", &b, &candidate).is_ok();
        prop_assert!(!both || a == b, "{candidate} of {a} and {b}");
    }

    // proves: E-1, E-2, D-3
    #[test]
    fn a_queue_view_never_panics_and_never_depends_on_row_order(rows in queue_rows()) {
        let seen = see(&rows);
        let reversed: Vec<QueueRow> = rows.iter().rev().cloned().collect();
        prop_assert_eq!(&seen, &see(&reversed));
        if let QueueView::Terminal { receipt, .. } = &seen {
            prop_assert_eq!(receipt.codes.len(), 3, "terminal needs every member");
        }
    }

    // proves: F-1
    #[test]
    fn the_classifier_is_total_and_final_phases_do_nothing(
        at in 0..11_usize, states in prop::collection::vec(state(), 0..6), drift: bool, rows in queue_rows()
    ) {
        let members: Vec<&MemberState> = states.iter().collect();
        let phase = Phase::ALL[at];
        let class = classify(phase, &members, QueueSummary::of_view(&see(&rows)), drift);
        prop_assert_eq!(class == Classification::Nothing, phase.is_final());
        prop_assert_eq!(class.code().is_some(), class.cause().is_some()
            || matches!(class, Classification::PartialTerminal | Classification::FailedUnchanged));
    }

    // proves: C-9
    #[test]
    fn records_round_trip_and_hostile_rows_are_refused(
        at in 0..11_usize, members in 2..9_u32, cut in 0..4_000_usize, junk in ".{0,60}"
    ) {
        let record = record_in(Phase::ALL[at], members);
        let row = record.encode();
        prop_assert_eq!(Record::decode(&row), Ok(record));
        let payload: String = row.payload.chars().take(cut.min(row.payload.len() - 1)).collect();
        let truncated = RawRow { payload, ..row.clone() };
        prop_assert!(Record::decode(&truncated).is_err(), "truncated");
        let sha = publication_protocol::canonical::Digest::of_bytes(junk.as_bytes()).to_string();
        let replaced = RawRow { payload: junk, payload_sha256: sha, ..row };
        prop_assert!(Record::decode(&replaced).is_err(), "junk");
    }
}
