//! J-1: what the evidence digest is made of, and what it leaves out.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use publication_protocol::canonical::Digest;
use publication_protocol::evidence::{queue_digest, tokens};
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::identity::Action;
use publication_protocol::phase::Phase;
use publication_protocol::ports::ReadFailure;
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::record::Record;
use publication_protocol::verdict::Afresh;
use support::build::{
    ALIEN, CANDIDATE, NEW, OLD, RETIRED, TARGET, dispatched, prepared, queue_row, record_in, server,
};
use support::verdicts::{afresh, put};

fn unfinished(record: &Record, at: u32) -> QueueRow {
    queue_row(record, record.last_dispatch().unwrap(), at, None)
}

// proves: J-1
#[test]
fn the_digest_is_independent_of_order_times_and_health() {
    let record = record_in(Phase::InProgress, 2);
    let rows = vec![unfinished(&record, 1), unfinished(&record, 2)];
    let base = Afresh { rows: Some(rows), ..afresh(record, [Some(OLD); 2]) };
    let mut same = base.clone();
    same.members.members.reverse();
    same.members.members.iter_mut().for_each(|member| member.view.reverse());
    same.rows.as_mut().unwrap().reverse();
    // Picked up is as unfinished as not picked up.
    same.rows.as_mut().unwrap()[0].status = Some("Inactive".into());
    let payload = &mut same.slot.record.payload;
    (payload.updated_ms, payload.prepared_ms, payload.dispatches[0].at_ms) = (99, 98, 97);
    for member in &mut same.members.members {
        member.health = None;
        member.count = None;
        member.server_version = "26.1".into();
    }
    same.deadlines_past = false;
    same.running = None;
    assert_eq!(same.digest(), base.digest());
}

// proves: J-1
#[test]
fn the_digest_changes_with_everything_that_a_decision_rests_on() {
    let record = record_in(Phase::DropPending, 2);
    let rows = vec![unfinished(&record, 1), unfinished(&record, 2)];
    let base = Afresh { rows: Some(rows), ..afresh(record, [Some(NEW); 2]) };
    let mut changes: Vec<(&str, Afresh)> = Vec::new();
    let mut change = |what, how: &dyn Fn(&mut Afresh)| {
        let mut changed = base.clone();
        how(&mut changed);
        changes.push((what, changed));
    };
    change("version", &|a| a.slot.version += 1);
    change("fence", &|a| a.slot.record.fence = prepared_fence());
    change("phase", &|a| a.slot.record.phase = Phase::DropDispatching);
    change("receipt", &|a| a.slot.record.payload.dispatches[0].receipt = None);
    for name in [TARGET, CANDIDATE, RETIRED] {
        change(name, &|a| put(a, 1, name, support::build::fact(ALIEN, 2)));
        change("no generation", &|a| put(a, 1, name, TableFact::Other(NotAGeneration::NoUuid)));
        change("unsaid", &|a| drop(a.members.members[0].tables.remove(name)));
    }
    change("a member is gone", &|a| drop(a.members.members.pop()));
    change("a member twice", &|a| a.members.members.push(a.members.members[0].clone()));
    change("another server", &|a| a.members.members[1].server_uuid = server(8));
    change("another view", &|a| a.members.members[1].view[0].host = "x".into());
    change("a failure", &|a| a.members.failures.push(("x".into(), ReadFailure::Unavailable)));
    change("unreadable queue", &|a| a.rows = None);
    change("empty queue", &|a| a.rows = Some(vec![]));
    change("finished", &|a| {
        let row = &mut a.rows.as_mut().unwrap()[0];
        (row.status, row.exception_code) = (Some("Finished".into()), Some(0));
        row.exception_text = ExceptionText::Empty;
    });
    change("another entry", &|a| a.rows.as_mut().unwrap()[0].entry = "query-0000000077".into());
    change("a row twice", &|a| {
        let row = a.rows.as_ref().unwrap()[0].clone();
        a.rows.as_mut().unwrap().push(row);
    });
    let mut digests: Vec<Digest> = changes.iter().map(|(_, a)| a.digest()).collect();
    for (what, changed) in &changes {
        assert_ne!(changed.digest(), base.digest(), "{what}");
    }
    digests.sort();
    let all = digests.len();
    digests.dedup();
    // "No generation" and "unsaid" of three names each are all different.
    assert_eq!(digests.len(), all);
    assert_ne!(queue_digest(None), queue_digest(Some(&[])));
}

fn prepared_fence() -> publication_protocol::identity::FenceToken {
    publication_protocol::identity::FenceToken::draw(&support::build::random(4_711))
}

// proves: J-1, J-3
#[test]
fn a_final_slot_asks_for_the_tokens_of_its_fences() {
    let open = dispatched(prepared(2, true), Phase::Dispatching, Action::Publish, CANDIDATE, Some(TARGET));
    let token = open.last_dispatch().unwrap().token.clone();
    assert_eq!(tokens(&open), vec![token.clone()]);
    let ended = Record { phase: Phase::Abandoned, ..open };
    assert_eq!(tokens(&ended), vec![token]);
    assert!(tokens(&record_in(Phase::Completed, 2)).is_empty());
}
