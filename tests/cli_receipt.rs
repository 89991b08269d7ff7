//! The screens of `receipt` and `verify-receipt`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cli_support;

use cli_support::completed;
use publication_operator::cli::output::{Format, render};
use publication_operator::cli::receipt::report::{Report, Verdict};
use publication_operator::cli::receipt::screen;
use publication_protocol::ports::MembersAnswer;
use publication_protocol::receipt::{self, Document, Look, Scene, compare, verify};
use publication_protocol::record::Slot;

fn slot() -> Slot {
    Slot { record: completed(), version: 5 }
}

fn document() -> Document {
    let slot = slot();
    let look = |version, phase, class: &str| Look {
        at_ms: 1_796_000_000_000 + version,
        version,
        phase,
        classification: (!class.is_empty()).then(|| class.to_owned()),
        cause: None,
        evidence: None,
    };
    use publication_protocol::phase::Phase;
    let history = vec![
        look(1, Phase::Prepared, ""),
        look(2, Phase::Dispatching, "Ready"),
        look(3, Phase::RetireDispatching, "Committed"),
        look(4, Phase::DropDispatching, "Cleanup"),
        look(5, Phase::Completed, "Cleanup"),
    ];
    let scene = Scene::of_slot(&slot, "platform/analytics".into(), "0.1.0", 1_796_000_000_009);
    let servers = slot.record.payload.inventory.members.iter();
    let server_versions = servers.map(|m| (m.server_uuid.clone(), "24.8.4.1".to_owned())).collect();
    receipt::of(Scene { history, server_versions, ..scene }, None)
}

#[test]
fn a_receipt_for_people() {
    let document = document();
    assert_eq!(verify(&document), []);
    insta::assert_snapshot!(screen::document(&document));
    let json = render(&document, Format::Json, screen::document).unwrap();
    assert_eq!(Document::parse(&json), Ok(document));
}

// proves: H-2
#[test]
fn what_is_said_of_a_receipt() {
    let document = document();
    let mut screens = String::new();
    let mut show = |report: &Report, code: u8| {
        assert_eq!(report.verdict.exit_code(), code);
        screens += &format!("{}---\n", screen::report(report));
    };
    show(&Report::offline(&document, &[]), 0);
    let mut changed = document.clone();
    changed.account.dispatches.pop();
    show(&Report::offline(&document, &verify(&changed.sealed())), 1);
    show(&Report::unreadable(&Document::parse("{}").unwrap_err()), 1);
    let silent = compare(&document, Some(&slot()), &MembersAnswer::default());
    show(&Report::live(&document, &silent), 2);
    show(&Report::live(&document, &Default::default()), 0);
    let lost = compare(&document, None, &MembersAnswer::default());
    show(&Report::live(&document, &lost), 1);
    insta::assert_snapshot!(screens);
    insta::assert_snapshot!(
        "what_is_said_of_a_receipt_json",
        render(&Report::live(&document, &silent), Format::Json, screen::report).unwrap()
    );
    assert_eq!(Report::offline(&document, &[]).verdict, Verdict::Holds);
}
