//! B-10: a statement that the servers refuse, or an authority that refuses, is the end of it. Nothing else is tried.
#![allow(clippy::panic)]

mod support;

use publication_protocol::authority::{MutationAnswer, MutationOutcome};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, End, Input};
use publication_protocol::sqltext::{Ddl, TableName};
use support::build::{CANDIDATE, TARGET, intent};
use support::run::until_quiet;
use support::stepper::Stepper;
use support::world::World;

fn table(name: &str) -> TableName {
    TableName { database: "db".into(), table: name.into() }
}

/// Codes of servers that cannot do it: not implemented, no such table, unknown setting, access, wrong database.
const REFUSALS: [u32; 6] = [48, 60, 115, 497, 80, 81];

// proves: B-10, K19
#[test]
fn whatever_the_servers_answer_the_one_statement_is_not_replaced_by_another() {
    for existing in [true, false] {
        for code in REFUSALS {
            for refusing in [&[0_usize, 1][..], &[1]] {
                let world = World::new(2, existing);
                for at in refusing {
                    world.lock().members[*at].refuses.insert("publish", code);
                }
                let report = until_quiet(&world, &intent());
                let all = refusing.len() == 2;
                let expected = if all { ErrorCode::FailedUnchanged } else { ErrorCode::PartialTerminal };
                assert_eq!((report.findings[0].code, report.end), (expected, End::Stalled), "{code}");
                let inner = world.lock();
                let sent: Vec<&Ddl> = inner.queue.iter().map(|entry| &entry.statement.ddl).collect();
                let only = if existing {
                    Ddl::Exchange { target: table(TARGET), candidate: table(CANDIDATE) }
                } else {
                    Ddl::Rename { from: table(CANDIDATE), to: table(TARGET) }
                };
                assert_eq!(sent, [&only], "{code}: {refusing:?}");
                assert_eq!(inner.counts.sends, 1);
            }
        }
    }
}

// proves: B-10, C-4, K23
#[test]
fn an_authority_that_refuses_strict_mode_is_not_asked_in_another_way() {
    // 115, unknown setting, is what a server without strict mode answers.
    for phase in ["PREPARED", "DISPATCHING"] {
        let world = World::new(2, true);
        let mut stepper = Stepper::new(&world, &intent());
        stepper.until_cas(phase);
        let before = world.counts();
        let refused = MutationAnswer { outcome: MutationOutcome::Refused, transport_calls: 1 };
        let report = match stepper.next(Input::Mutated(refused)) {
            Call::Finish(report) => report,
            call => panic!("{phase}: {call:?}"),
        };
        assert_eq!((report.findings[0].code, report.end), (ErrorCode::AccessDenied, End::Stalled), "{phase}");
        assert_eq!(
            report.findings[0].message,
            "the server refused the authority statement; check grants and settings of the user"
        );
        let after = world.counts();
        assert_eq!((after.mutations, after.sends), (before.mutations, 0), "{phase}");
    }
}
