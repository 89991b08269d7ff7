//! B over answers of members: each wrong input gives its finding, with member and field named. And D-1.
#![allow(clippy::panic, clippy::semicolon_if_nothing_returned, clippy::type_complexity)]

mod support;

use publication_protocol::admission::{Bound, Finding, Revalidation, Severity, admit, revalidate};
use publication_protocol::code::ErrorCode;
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::identity::RowExpectation;
use publication_protocol::phase::Phase;
use publication_protocol::ports::{Health, MembersAnswer, ReadFailure};
use support::build::{
    CANDIDATE, NEW, OLD, TARGET, admissible, answer, fact, generation, inventory, names, record_in, server,
};

type Change = fn(&mut MembersAnswer);

fn judged(change: Change) -> Result<Bound, Vec<Finding>> {
    let mut answer = admissible(2);
    change(&mut answer);
    admit(&names(), RowExpectation::Exact(10), false, &answer)
}

fn found(change: Change) -> Finding {
    let findings = judged(change).expect_err("not admitted");
    findings.into_iter().next().expect("a finding")
}

/// One input, its code and rule, and what its message must name.
fn refused(cases: &[(Change, ErrorCode, &'static str, Severity, &[&str])]) {
    for (at, (change, code, rule, severity, named)) in cases.iter().enumerate() {
        let finding = found(*change);
        assert_eq!(
            (finding.code, finding.rule, finding.severity),
            (*code, *rule, *severity),
            "case {at}: {finding:?}"
        );
        for name in *named {
            assert!(finding.message.contains(name), "case {at}: {name} in {}", finding.message);
        }
    }
}

// proves: B-1, B-7, B-8, K08
#[test]
fn what_is_admitted_is_bound() {
    let bound = judged(|_| {}).expect("admitted");
    let expected = Bound {
        inventory: inventory(2),
        predecessor: Some(generation(OLD)),
        desired: generation(NEW),
        row_count: 10,
    };
    assert_eq!(bound, expected);
    let absent = judged(|a| {
        a.members.iter_mut().for_each(|m| {
            m.tables.insert(TARGET.into(), TableFact::Absent);
        })
    });
    assert_eq!(absent.expect("admitted").predecessor, None);
    // K08: numbers 1 and 3 are accepted; rows in any order give the same binding.
    let gap = judged(|a| {
        for member in &mut a.members {
            member.view[1].replica = 3;
            member.view.reverse();
        }
        a.members.reverse();
    });
    assert_eq!(gap.expect("admitted").inventory.members[1].replica, 3);
}

// proves: B-1, K07, K08
#[test]
fn wrong_topologies_k07_k08() {
    use ErrorCode::{IncompleteInventory, UnsupportedTopology};
    use Severity::Block;
    let block = |change: Change, code, rule, named: &'static [&'static str]| {
        refused(&[(change, code, rule, Block, named)])
    };
    block(
        |a| a.members.iter_mut().for_each(|m| m.view[1].shard = 2),
        UnsupportedTopology,
        "B-1",
        &["2 shards"],
    );
    block(
        |a| a.members.iter_mut().for_each(|m| m.view[1].replica = 1),
        UnsupportedTopology,
        "B-1",
        &["listed twice"],
    );
    block(
        |a| a.members.iter_mut().for_each(|m| m.view[1].host = "h1".into()),
        UnsupportedTopology,
        "B-1",
        &["h1:9000"],
    );
    let off: Change = |a| a.members.iter_mut().for_each(|m| m.view[0].internal_replication = Some(false));
    block(off, UnsupportedTopology, "B-1", &["internal_replication"]);
    let lacking: Change = |a| a.members.iter_mut().for_each(|m| m.view[0].internal_replication = None);
    block(lacking, UnsupportedTopology, "B-1", &["internal_replication"]);
    block(
        |a| a.members.iter_mut().for_each(|m| m.view.truncate(1)),
        UnsupportedTopology,
        "B-1",
        &["1 replicas"],
    );
    block(
        |a| a.members.iter_mut().for_each(|m| m.view.clear()),
        UnsupportedTopology,
        "B-1",
        &["clusterName"],
    );
    let knows_nothing: Change = |a| a.members[0].view.clear();
    block(knows_nothing, IncompleteInventory, "B-2", &["000000000001", "another system.clusters"]);
    block(|a| a.members[1].view[0].port = 9440, IncompleteInventory, "B-2", &["000000000002"]);
    block(
        |a| a.members[1].view[1].is_local = false,
        IncompleteInventory,
        "B-2",
        &["h2:9000 (replica 2", "000000000002", "is_local"],
    );
    block(|a| a.members[1].view[0].is_local = true, IncompleteInventory, "B-2", &["000000000002", "2 rows"]);
    let twice: Change = |a| {
        a.members.iter_mut().for_each(|m| {
            let again = m.view[0].clone();
            m.view.push(again);
        })
    };
    block(twice, UnsupportedTopology, "B-1", &["listed twice"]);
    // The platform's declaration counts where the column is lacking, and only there.
    let declared = |change: Change| {
        let mut answer = admissible(2);
        change(&mut answer);
        admit(&names(), RowExpectation::Exact(10), true, &answer).is_ok()
    };
    assert!(declared(lacking) && !declared(off));
}

// proves: B-2, K09
#[test]
fn partial_duplicate_and_failed_answers_are_no_evidence_k09() {
    use ErrorCode::{AccessDenied, AuthorityUnavailable, EndpointUnavailable, IncompleteInventory};
    let missing = found(|a| {
        a.members.pop();
    });
    assert_eq!((missing.code, missing.rule), (IncompleteInventory, "B-2"));
    assert!(missing.message.contains("1 of 2"));
    let twice = found(|a| a.members[1].server_uuid = server(1));
    assert!(twice.message.contains("answers twice"), "{twice:?}");
    // Both take the first row for themselves: the second row's member never answered.
    let one_row = found(|a| a.members[1].view.iter_mut().for_each(|row| row.is_local = row.replica == 1));
    assert_eq!((one_row.code, one_row.rule), (IncompleteInventory, "B-2"), "{one_row:?}");
    for (failure, code, severity) in [
        (ReadFailure::Unavailable, EndpointUnavailable, Severity::Wait),
        (ReadFailure::Malformed, EndpointUnavailable, Severity::Block),
        (ReadFailure::Credentials, AccessDenied, Severity::Block),
        (ReadFailure::AccessDenied, AccessDenied, Severity::Block),
        (ReadFailure::NoTable, AuthorityUnavailable, Severity::Block),
        (ReadFailure::KeeperUnavailable, AuthorityUnavailable, Severity::Wait),
        (ReadFailure::NotActivated, AuthorityUnavailable, Severity::Wait),
        (ReadFailure::WrongServer, IncompleteInventory, Severity::Block),
    ] {
        let mut answer = admissible(2);
        answer.failures.push(("h2:9000".into(), failure));
        let findings = admit(&names(), RowExpectation::Exact(10), false, &answer).expect_err("failed");
        assert_eq!((findings[0].code, findings[0].severity), (code, severity), "{failure:?}");
        assert!(findings[0].message.contains("h2:9000"));
    }
    let silent = found(|a| {
        a.members[1].tables.remove(TARGET);
        a.members[0].tables.remove(TARGET);
    });
    assert_eq!((silent.rule, silent.severity), ("B-2", Severity::Wait), "not said is not absent");
}

// proves: B-3, B-7, K18
#[test]
fn wrong_objects_k18() {
    use ErrorCode::{CandidateInvalid, TargetInvalid};
    let h2 = "h2:9000 (replica 2)";
    for engine in ["Replicated", "Ordinary", "Lazy"] {
        let mut answer = admissible(2);
        answer.members[1].database_engine = Some(engine.into());
        let findings = admit(&names(), RowExpectation::Exact(10), false, &answer).expect_err(engine);
        assert_eq!((findings[0].code, findings[0].rule), (TargetInvalid, "B-3"));
        assert!(findings[0].message.contains(h2) && findings[0].message.contains(engine));
    }
    assert!(found(|a| a.members[1].database_engine = None).message.contains("does not exist"));
    for kind in ["View", "Distributed", "MergeTree", "Dictionary"] {
        for (name, code) in [(TARGET, TargetInvalid), (CANDIDATE, CandidateInvalid)] {
            let mut answer = admissible(2);
            answer.members[1]
                .tables
                .insert(name.into(), TableFact::Other(NotAGeneration::Engine(kind.into())));
            let findings = admit(&names(), RowExpectation::Exact(10), false, &answer).expect_err(kind);
            assert_eq!((findings[0].code, findings[0].rule), (code, "B-7"));
            assert!(findings[0].message.contains(h2) && findings[0].message.contains(kind));
        }
    }
    let some_only = found(|a| {
        a.members[1].tables.insert(TARGET.into(), TableFact::Absent);
    });
    assert!(some_only.code == TargetInvalid && some_only.message.contains("missing on h2:9000 (replica 2)"));
    let none = found(|a| {
        a.members[1].tables.insert(CANDIDATE.into(), TableFact::Absent);
    });
    assert!(none.code == CandidateInvalid && none.message.contains("missing on h2:9000 (replica 2)"));
}

// proves: B-7, A-4, K04, K27
#[test]
fn mixed_and_colliding_generations_k04_k27() {
    use ErrorCode::{CandidateInvalid, TargetInvalid};
    let block = |change: Change, code, named: &'static [&'static str]| {
        refused(&[(change, code, "B-7", Severity::Block, named)]);
    };
    let mixed: Change = |a| {
        a.members[1].tables.insert(TARGET.into(), fact(7, 2));
    };
    // K27: left by another tool; who has what is said.
    const UUIDS: &[&str] = &[
        "11111111-0000-0000-0000-000000000001 on h1:9000 (replica 1)",
        "another generation on h2:9000 (replica 2)",
    ];
    block(mixed, TargetInvalid, UUIDS);
    let mixed: Change = |a| {
        a.members[1].tables.insert(CANDIDATE.into(), fact(7, 2));
    };
    block(mixed, CandidateInvalid, &["replica 2", "another generation"]);
    let same: Change = |a| {
        for (at, member) in a.members.iter_mut().enumerate() {
            member.tables.insert(CANDIDATE.into(), fact(OLD, at as u32 + 1));
        }
    };
    block(same, CandidateInvalid, &["target itself"]);
    let path: Change = |a| {
        spoil_candidates(a, |fact| {
            let TableFact::Generation { identity, .. } = fact else { return };
            identity.zookeeper_path = generation(OLD).zookeeper_path;
        })
    };
    block(path, CandidateInvalid, &["target's replication path"]);
    let replica: Change = |a| {
        spoil_candidates(a, |fact| {
            let TableFact::Generation { replica_name, .. } = fact else { return };
            *replica_name = "r1".into();
        })
    };
    block(replica, CandidateInvalid, &["replica 2", "replica name"]);
    let renames: Change = |a| spoil_candidates(a, with_table_macro);
    block(renames, CandidateInvalid, &["{table}", "{uuid}"]);
    // The target is renamed as well, by the exchange and by the retire step.
    let renames: Change = |a| {
        a.members.iter_mut().for_each(|m| {
            m.tables.get_mut(TARGET).into_iter().for_each(with_table_macro);
        })
    };
    block(renames, TargetInvalid, &["{table}", "replica 1"]);
}

fn with_table_macro(fact: &mut TableFact) {
    let TableFact::Generation { path_macros, .. } = fact else { return };
    path_macros.push("{table}".into());
}

fn spoil_candidates(answer: &mut MembersAnswer, spoil: fn(&mut TableFact)) {
    for member in &mut answer.members {
        member.tables.get_mut(CANDIDATE).into_iter().for_each(spoil);
    }
}

// proves: B-8, K25
#[test]
fn every_field_of_an_unhealthy_candidate_is_named_k25() {
    let cases: [(fn(&mut Health), &str); 11] = [
        (|h| h.queue_size = 3, "queue_size = 3"),
        (|h| h.readonly = true, "is_readonly = 1"),
        (|h| h.session_expired = true, "is_session_expired = 1"),
        (|h| h.lost_parts = 1, "lost_part_count = 1"),
        (|h| h.parts_to_check = 2, "parts_to_check = 2"),
        (|h| h.active_replicas = 1, "active_replicas = 1 of 2"),
        (|h| h.total_replicas = 1, "total_replicas = 1 of 2"),
        (|h| h.log_pointer = 4, "log_pointer = 4 behind 4"),
        (|h| h.keeper_exception = true, "zookeeper_exception"),
        (|h| h.queue_exception = true, "last_queue_update_exception"),
        (|h| h.unfinished_mutations = 1, "1 unfinished mutations"),
    ];
    for (spoil, field) in cases {
        let mut answer = admissible(2);
        spoil(answer.members[1].health.as_mut().expect("health"));
        let findings = admit(&names(), RowExpectation::Exact(10), false, &answer).expect_err(field);
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!((finding.code, finding.severity), (ErrorCode::CandidateNotConverged, Severity::Wait));
        assert!(
            finding.message.contains(field) && finding.message.contains("h2:9000 (replica 2)"),
            "{finding:?}"
        );
    }
}

// proves: D-1, K08
#[test]
fn a_replica_outside_of_the_cluster_is_preflights_matter_and_releases_at_d1() {
    let extra: Change = |a| {
        let health = a.members[1].health.as_mut().expect("health");
        (health.total_replicas, health.active_replicas) = (3, 3);
    };
    assert!(judged(extra).is_ok());
    let mut answer = admissible(2);
    extra(&mut answer);
    let Revalidation::Changed(finding) = revalidate(&record_in(Phase::Prepared, 2), false, &answer) else {
        panic!("not released")
    };
    assert_eq!(finding.code, ErrorCode::CandidateInvalid);
    assert!(finding.message.contains("3 replicas in Keeper, the cluster has 2"));
}

// proves: B-8
#[test]
fn rows_must_be_counted_everywhere_and_meet_the_expectation() {
    let off = found(|a| a.members[1].count = Some(9));
    assert_eq!((off.code, off.severity), (ErrorCode::RowCountMismatch, Severity::Wait));
    assert!(off.message.contains("9 counted on h2:9000 (replica 2)") && off.message.contains("exactly 10"));
    // What was not read is not fine, on any one member.
    for unread in
        [(|a: &mut MembersAnswer| a.members[1].health = None) as Change, |a| a.members[1].count = None]
    {
        let finding = found(unread);
        assert_eq!((finding.code, finding.severity), (ErrorCode::CandidateNotConverged, Severity::Wait));
        assert!(finding.message.contains("replica 2"), "{finding:?}");
    }
    let between = |counts: [u64; 2]| {
        let mut answer = admissible(2);
        answer.members.iter_mut().zip(counts).for_each(|(m, count)| m.count = Some(count));
        let rows = RowExpectation::Between { min: 5, max: Some(10) };
        admit(&names(), rows, false, &answer).map(|b| b.row_count).map_err(|f| f[0].code)
    };
    assert_eq!(between([5, 5]), Ok(5));
    assert_eq!(between([5, 6]), Err(ErrorCode::CandidateNotConverged));
    assert_eq!(between([4, 4]), Err(ErrorCode::RowCountMismatch));
    assert_eq!(between([11, 10]), Err(ErrorCode::RowCountMismatch));
    let zero = RowExpectation::Exact(0);
    assert!(zero.admits(0) && !zero.admits(1));
    assert!(RowExpectation::Between { min: 1, max: None }.admits(u64::MAX));
}

// proves: D-1, C-10
#[test]
fn right_before_the_dispatch_everything_must_hold_as_bound() {
    let record = record_in(Phase::Prepared, 2);
    let again = |change: Change| {
        let mut answer = admissible(2);
        change(&mut answer);
        revalidate(&record, false, &answer)
    };
    assert_eq!(again(|_| {}), Revalidation::Holds);
    let changed: [(Change, &str); 5] = [
        (
            |a| {
                for (at, member) in a.members.iter_mut().enumerate() {
                    member.tables.insert(TARGET.into(), fact(7, at as u32 + 1));
                }
            },
            "target: is no longer",
        ),
        (
            |a| {
                for (at, member) in a.members.iter_mut().enumerate() {
                    member.tables.insert(CANDIDATE.into(), fact(7, at as u32 + 1));
                }
            },
            "candidate: is no longer",
        ),
        (
            |a| {
                let tables = [(TARGET, Some(OLD)), (CANDIDATE, Some(NEW))];
                a.members = (1..=3).map(|at| answer(3, at, &tables)).collect();
            },
            "inventory",
        ),
        (|a| a.members[0].health.iter_mut().for_each(|h| h.queue_size = 1), "queue_size"),
        (|a| a.members.iter_mut().for_each(|m| m.count = Some(11)), "11 counted"),
    ];
    for (change, named) in changed {
        match again(change) {
            Revalidation::Changed(finding) => assert!(finding.message.contains(named), "{finding:?}"),
            other => panic!("{named}: {other:?}"),
        }
    }
    let unreadable: [Change; 3] = [
        |a| a.failures.push(("h2:9000".into(), ReadFailure::Unavailable)),
        |a| {
            a.members.pop();
        },
        |a| {
            a.members[1].tables.remove(CANDIDATE);
        },
    ];
    for change in unreadable {
        assert!(matches!(again(change), Revalidation::Unreadable(_)), "waited for, not released (C-10)");
    }
}

// proves: B-2
#[test]
fn every_member_that_failed_alike_is_named_within_a_bound() {
    use publication_protocol::admission::read_failures;
    use publication_protocol::ports::ReadFailure::{Credentials, Unavailable};
    assert_eq!(read_failures(&[]), None);
    let failures = [
        ("h1:1".to_owned(), Unavailable),
        ("h2:1".to_owned(), Credentials),
        ("h3:1".to_owned(), Unavailable),
    ];
    let finding = read_failures(&failures).unwrap();
    assert!(finding.message.starts_with("h1:1, h3:1: no usable answer"), "{}", finding.message);
    let many: Vec<_> = (1..=64).map(|n| (format!("h{n}:1"), Unavailable)).collect();
    let message = read_failures(&many).unwrap().message;
    assert!(message.contains("h8:1 and 56 more: ") && message.len() < 256, "{message}");
}
