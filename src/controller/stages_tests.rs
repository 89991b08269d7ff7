use super::super::status::project;
use super::*;
use build::{account, dispatched, inventory, prepared, record_in};
use publication_protocol::admission::Finding;
use publication_protocol::driver::Report;
use publication_protocol::identity::Action;
use publication_protocol::queue::Receipt;
use publication_protocol::record::{Slot, VerdictNote};
use std::collections::BTreeMap;

#[allow(dead_code)]
#[path = "../../protocol/tests/support/build.rs"]
mod build;

fn report(end: End) -> Report {
    Report::of_nothing(end, vec![])
}

fn of(record: Record, end: End, states: [MemberState; 2]) -> Report {
    let servers = record.payload.inventory.members.iter().map(|m| m.server_uuid.clone());
    let states = servers.zip(states).collect();
    Report { slot: Some(Slot { record, version: 7 }), states, converged: true, ..report(end) }
}

fn shown(old: &ClusterPublicationStatus, report: &Report) -> ClusterPublicationStatus {
    let facts = Facts {
        generation: Some(1),
        deleted: false,
        release_pending: false,
        uid: Some("uid-1".into()),
        operation: None,
        root: None,
        report,
    };
    project(old, &facts, &Time(k8s_openapi::jiff::Timestamp::from_second(100).unwrap()))
}

fn first(report: &Report) -> ClusterPublicationStatus {
    shown(&ClusterPublicationStatus::default(), report)
}

/// Type, status and reason, in the order of the stages.
fn stages(status: &ClusterPublicationStatus) -> Vec<(String, String)> {
    let order =
        ["Admitted", "CandidateConverged", "SlotAcquired", "Dispatched", "ReplicasCommitted", "CleanedUp"];
    let one = |kind: &str| {
        let c = status.conditions.iter().find(|c| c.type_ == kind).unwrap_or_else(|| panic!("{kind}"));
        (c.status.clone(), c.reason.clone())
    };
    order.into_iter().map(one).collect()
}

fn pairs(wanted: [(&str, &str); 6]) -> Vec<(String, String)> {
    wanted.map(|(status, reason)| (status.to_owned(), reason.to_owned())).to_vec()
}

fn message(status: &ClusterPublicationStatus, kind: &str) -> String {
    status.conditions.iter().find(|c| c.type_ == kind).map(|c| c.message.clone()).unwrap_or_default()
}

const UNKNOWN: (&str, &str) = ("Unknown", "NotReached");

fn refused(finding: Finding) -> ClusterPublicationStatus {
    let end = if finding.severity == publication_protocol::admission::Severity::Wait {
        End::Waiting
    } else {
        End::Stalled
    };
    first(&Report { findings: vec![finding], ..report(end) })
}

/// One condition says why, and Ready; nothing is said of stages that nobody has looked at.
#[test]
fn a_reason_is_told_by_the_condition_that_it_concerns() {
    let invalid = refused(Finding::block(ErrorCode::CandidateInvalid, "B-7", "is missing"));
    assert_eq!(
        stages(&invalid),
        pairs([("False", "CandidateInvalid"), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN])
    );
    let thin = refused(Finding::wait(ErrorCode::RowCountMismatch, "B-8", "4 counted"));
    assert_eq!(
        stages(&thin),
        pairs([("False", "Waiting"), ("False", "RowCountMismatch"), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN])
    );
    let held = refused(Finding::wait(ErrorCode::AuthorityConflict, "C-8", "held by shop/other"));
    assert_eq!(stages(&held), pairs([UNKNOWN, UNKNOWN, ("False", "Waiting"), UNKNOWN, UNKNOWN, UNKNOWN]));
    for (status, text) in [(invalid, "is missing"), (thin, "4 counted"), (held, "held by shop/other")] {
        let saying: Vec<&str> =
            status.conditions.iter().filter(|c| c.message.contains(text)).map(|c| c.type_.as_str()).collect();
        // The kstatus trio sums up, for readers that know nothing else.
        let stage = saying.iter().filter(|kind| !["Ready", "Reconciling", "Stalled"].contains(kind)).count();
        assert_eq!((stage, saying.contains(&"Ready")), (1, true), "{saying:?}");
    }
}

/// The default columns show this condition's reason.
// proves: C-8
#[test]
fn who_waits_or_is_blocked_says_why_in_ready() {
    let reason = |report: &Report| {
        let status = first(report);
        status.conditions.iter().find(|c| c.type_ == "Ready").unwrap().reason.clone()
    };
    let held = |held| Report { held: Some(held), converged: true, ..report(End::Waiting) };
    assert_eq!(reason(&held(Held::Suspended)), "Suspended");
    assert_eq!(reason(&held(Held::Behind("shop/a".into()))), "Waiting");
    let finding = Finding::block(ErrorCode::DependentsPresent, "B-9", "x");
    assert_eq!(reason(&Report { findings: vec![finding], ..report(End::Stalled) }), "DependentsPresent");
    let waits = first(&held(Held::Behind("shop/a".into())));
    assert_eq!(
        stages(&waits)[1..3].to_vec(),
        pairs([UNKNOWN, ("True", "Converged"), ("False", "Waiting"), UNKNOWN, UNKNOWN, UNKNOWN])[1..3]
            .to_vec()
    );
}

// proves: H-2
#[test]
fn after_completion_every_stage_says_how_it_ended() {
    let done =
        of(record_in(Phase::Completed, 2), End::Succeeded, [MemberState::Cleaned, MemberState::Cleaned]);
    let status = first(&done);
    let wanted = pairs([
        ("True", "Admitted"),
        ("True", "Converged"),
        ("True", "Ended"),
        ("True", "Dispatched"),
        ("True", "Committed"),
        ("True", "Completed"),
    ]);
    assert_eq!(stages(&status), wanted);
    assert_eq!(message(&status, "Succeeded"), "proved on every replica");
    // Told by the record alone, after a status that was written in between.
    let between =
        of(record_in(Phase::InProgress, 2), End::Waiting, [MemberState::Committed, MemberState::Pending]);
    let old = first(&between);
    assert_eq!(stages(&old)[4].0, "False");
    let silent = Report { states: BTreeMap::new(), ..done };
    assert_eq!(stages(&shown(&old, &silent)), wanted);
    // Another operation has the slot by now.
    let listed = shown(&old, &report(End::Succeeded));
    assert!(stages(&listed).iter().all(|(status, _)| status == "True"), "{:?}", stages(&listed));
}

// proves: J-2
#[test]
fn an_end_by_verdict_is_not_told_as_a_cleanup() {
    let note = |decision: &str| VerdictNote {
        uid: "v".into(),
        decision: decision.into(),
        evidence: inventory(2).digest(),
        at_ms: 3,
    };
    let mut record = record_in(Phase::Committed, 2);
    record.phase = Phase::Completed;
    record.payload.verdicts = vec![note("Committed")];
    let states = [MemberState::Cleaned, MemberState::Cleaned];
    assert_eq!(stages(&first(&of(record, End::Succeeded, states.clone())))[5].1, "ByVerdict");
    let abandoned = of(record_in(Phase::Abandoned, 2), End::Failed, states);
    assert_eq!(stages(&first(&abandoned))[5], ("False".into(), "Abandoned".into()));
}

// proves: H-2
#[test]
fn a_repeated_invocation_shows_replicas_and_who_published() {
    let mut record = record_in(Phase::Completed, 2);
    record.payload.owner.uid = "another".into();
    record.payload.owner.name = "first".into();
    let status = first(&of(record, End::Succeeded, [MemberState::Cleaned, MemberState::Cleaned]));
    let states: Vec<&str> = status.replicas.iter().map(|r| r.state.as_str()).collect();
    assert_eq!((states, status.replicas_committed.as_deref()), (vec!["Cleaned", "Cleaned"], Some("2/2")));
    assert!(message(&status, "Succeeded").contains("ns/first"), "{}", message(&status, "Succeeded"));
    assert_eq!(status.conditions.iter().find(|c| c.type_ == "Ready").unwrap().reason, "AlreadyPublished");
}

/// An endpoint that fails says nothing about what was admitted and dispatched long ago.
// proves: F-3
#[test]
fn trouble_after_a_dispatch_leaves_the_stages_as_they_were() {
    let under_way =
        of(record_in(Phase::InProgress, 2), End::Waiting, [MemberState::Committed, MemberState::Pending]);
    let before = first(&under_way);
    let trouble = Finding::wait(ErrorCode::EndpointUnavailable, "B-2", "h1: no answer");
    let after = shown(&before, &Report { findings: vec![trouble], ..report(End::Waiting) });
    assert_eq!(stages(&after), stages(&before));
    assert!(message(&after, "Ready").contains("h1"));
}

/// What is sent later never takes the publication's own result away.
// proves: E, D-6
#[test]
fn the_publishing_statement_keeps_its_result_and_the_cleanup_has_its_own() {
    let publish = dispatched(
        prepared(2, true),
        Phase::Dispatching,
        Action::Publish,
        build::CANDIDATE,
        Some(build::TARGET),
    );
    let mut record = dispatched(account(publish), Phase::DropPending, Action::Drop, build::RETIRED, None);
    let codes = BTreeMap::from([(build::server(1), 0), (build::server(2), 359)]);
    record.payload.dispatches[1].receipt = Some(Receipt::of(codes));
    let retired = MemberState::Retired(build::RETIRED.into());
    let status = first(&of(record, End::Stalled, [MemberState::Cleaned, retired]));
    let told: Vec<_> = status
        .replicas
        .iter()
        .map(|r| {
            let cleanup = r.cleanup.clone().unwrap();
            (
                r.statement.clone().unwrap(),
                r.exception_code,
                cleanup.action,
                cleanup.result,
                cleanup.exception_code,
            )
        })
        .collect();
    let good = "TerminalSuccess".to_owned();
    assert_eq!(
        told,
        [
            (good.clone(), None, "Drop".to_owned(), good.clone(), None),
            (good.clone(), None, "Drop".to_owned(), "TerminalFailure".to_owned(), Some(359)),
        ]
    );
    let action = |s: &Option<crate::api::StatementStatus>| s.as_ref().and_then(|s| s.action.clone());
    assert_eq!(action(&status.publication).as_deref(), Some("Publish"));
    assert_eq!(action(&status.cleanup).as_deref(), Some("Drop"));
    // A failed publication shows its codes.
    let mut failed = record_in(Phase::Committed, 2);
    failed.phase = Phase::InProgress;
    let codes = BTreeMap::from([(build::server(1), 0), (build::server(2), 48)]);
    failed.payload.dispatches[0].receipt = Some(Receipt::of(codes));
    let status = first(&of(failed, End::Stalled, [MemberState::Committed, MemberState::Pending]));
    assert_eq!((status.replicas[1].exception_code, status.replicas[1].cleanup.clone()), (Some(48), None));
}

/// The deadline ends waiting; what was waited for stays to be read, and no slot is claimed.
#[test]
fn a_deadline_leaves_the_stage_that_was_waited_at() {
    let thin = refused(Finding::wait(ErrorCode::RowCountMismatch, "B-8", "4 counted"));
    let late = Finding::block(ErrorCode::AdmissionDeadline, "api", "passed");
    let status = shown(&thin, &Report { findings: vec![late], ..report(End::Failed) });
    assert_eq!(
        stages(&status),
        pairs([
            ("False", "Waiting"),
            ("False", "RowCountMismatch"),
            ("False", "Released"),
            UNKNOWN,
            UNKNOWN,
            UNKNOWN
        ])
    );
    assert_eq!(status.outcome, Some(Outcome::Failed));
}
