//! B-6 (m), F-2: when the loss of the records in Keeper may be accepted.
#![allow(clippy::panic)]

mod support;

use futures::executor::block_on;
use publication_protocol::admission::{Finding, Severity};
use publication_protocol::code::ErrorCode;
use publication_protocol::identity::{Names, RootId};
use publication_protocol::intent::Intent;
use publication_protocol::limits::STALE_READ_MS_MAX;
use publication_protocol::loss::{Borne, Relying, accepted, is_lost, may_end};
use publication_protocol::phase::Phase;
use publication_protocol::ports::{AuthorityRead, ControlTable};
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::record::VersionedRow;
use publication_protocol::sqltext::TableName;
use std::collections::BTreeSet;
use support::build::{intent, now, queue_row, random, record_in, root};
use support::ports::Worker;
use support::world::World;

fn relying() -> Relying {
    let names = Names::new("c", "db", "orders", "orders__pub_1").expect("good names");
    Relying { object: "shop/orders".into(), names }
}

fn borne(database: &str, table: &str) -> Borne {
    let table = TableName { database: database.into(), table: table.into() };
    Borne { member: "replica 2 (h2:9000)".into(), table }
}

fn refused(result: Result<(), Finding>) -> String {
    let finding = result.expect_err("refused");
    assert_eq!(
        (finding.code, finding.severity, finding.rule),
        (ErrorCode::AuthorityLost, Severity::Block, "B-6")
    );
    finding.message
}

fn row(code: Option<u32>) -> QueueRow {
    let record = record_in(Phase::Dispatching, 2);
    queue_row(&record, record.last_dispatch().expect("a dispatch"), 1, code)
}

// proves: B-6
#[test]
fn only_the_lost_root_is_accepted() {
    let lost = BTreeSet::from([root()]);
    assert_eq!(accepted(&root().to_string(), &lost), Ok(root()));
    let other = RootId::draw(&random(3));
    for field in [String::new(), other.to_string(), root().to_string().to_uppercase(), "yes".into()] {
        let message = refused(accepted(&field, &lost).map(|_| ()));
        assert!(message.contains(&root().to_string()), "names what to accept: {message}");
    }
    // Without any root there is nothing to accept, and an empty field accepts nothing.
    assert!(accepted("", &BTreeSet::new()).is_err());
}

// proves: B-6
#[test]
fn nothing_ends_while_a_statement_of_ours_may_still_run() {
    assert_eq!(may_end(&[relying()], &[], &[]), Ok(()));
    assert_eq!(may_end(&[relying()], &[row(Some(0)), row(Some(48))], &[]), Ok(()));
    let raw = |status: &str, code, text| QueueRow {
        status: Some(status.into()),
        exception_code: code,
        exception_text: text,
        ..row(None)
    };
    let unfinished = [
        row(None),
        QueueRow { status: None, ..row(Some(0)) },
        raw("Removing", None, ExceptionText::Null),
        raw("Finished", None, ExceptionText::Null),
        raw("Unheard", Some(0), ExceptionText::Empty),
    ];
    for open in unfinished {
        let message = refused(may_end(&[relying()], &[row(Some(0)), open.clone()], &[]));
        assert!(message.contains(&open.entry), "{message}");
        // Nobody relies on it: the facade's own CREATE may be under way just as well.
        refused(may_end(&[], std::slice::from_ref(&open), &[]));
        // Somebody else's entry is none of our business.
        for token in ["", "chpub12:x", "other"] {
            let foreign = QueueRow { token: token.into(), ..open.clone() };
            assert_eq!(may_end(&[relying()], &[foreign], &[]), Ok(()));
        }
    }
}

// proves: B-6
#[test]
fn nothing_ends_while_a_late_statement_could_move_a_table() {
    for name in ["orders__pub_1", "orders__retired_0123456789abcdef", "orders__retired_"] {
        let message = refused(may_end(&[relying()], &[], &[borne("db", name)]));
        for part in [&format!("db.{name}")[..], "shop/orders", "replica 2", "private names"] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }
    let harmless = [
        borne("db", "orders"),
        borne("db", "orders__pub_2"),
        borne("db", "orders_private"),
        borne("db", "orders2__retired_0123456789abcdef"),
        borne("other", "orders__pub_1"),
    ];
    assert_eq!(may_end(&[relying()], &[], &harmless), Ok(()));
    assert_eq!(may_end(&[], &[], &[borne("db", "orders__pub_1")]), Ok(()), "of nobody that is given up");
    // Long lists are cut, and say so.
    let many: Vec<Borne> = (0..9).map(|n| borne("db", &format!("orders__retired_{n}"))).collect();
    assert!(refused(may_end(&[relying()], &[], &many)).contains("and 6 more"));
}

fn read(world: &World) -> AuthorityRead {
    block_on(Worker::new(world).read_all(&intent().key().to_string()))
}

fn holding(phase: Phase, version: u64) -> World {
    let world = World::new(2, true);
    world.lock().slot.push(VersionedRow { row: record_in(phase, 2).encode(), version });
    world
}

// proves: F-2, B-6, C-13
#[test]
fn with_the_facade_there_only_what_is_lost_ends() {
    let shown = Intent { witnessed: Some((root(), 5)), ..intent() };
    let look =
        |world: &World, at: u64, since: &mut Option<u64>| is_lost(&shown, &read(world), now(at), since);
    // In flight, and as new as it was shown: it is not given up, whatever the platform accepts.
    let mut since = None;
    assert_eq!(look(&holding(Phase::InProgress, 5), 1, &mut since), Ok(false));
    assert_eq!(since, None);
    // The row is gone, or the facade is another one.
    let empty = World::new(2, true);
    assert_eq!(look(&empty, 1, &mut since), Ok(true));
    let moved = Intent { root: RootId::draw(&random(3)), ..shown.clone() };
    assert_eq!(is_lost(&moved, &read(&empty), now(1), &mut since), Ok(true));
    assert_eq!(since, None);
    // Older than shown: only when it stays so, and on every member.
    let older = holding(Phase::Prepared, 4);
    let waits = look(&older, 1_000, &mut since).expect_err("may be a stale read");
    assert_eq!((waits.severity, waits.rule), (Severity::Wait, "C-13"));
    assert!(look(&older, 1_000 + STALE_READ_MS_MAX, &mut since).is_err());
    assert_eq!(look(&older, 1_001 + STALE_READ_MS_MAX, &mut since), Ok(true));
    assert_eq!(look(&older, 1_002 + STALE_READ_MS_MAX, &mut since), Ok(true));
    older.lock().members[1].up = false;
    let silent = look(&older, 2_000 + STALE_READ_MS_MAX, &mut since).expect_err("may hold the newer record");
    assert_eq!((silent.severity, since), (Severity::Wait, None));
}
