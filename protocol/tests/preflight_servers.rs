//! Preflight over facts of members: paths, replica sets, drop limit, rights, versions, backlog.
#![allow(clippy::panic)]

mod support;

use publication_protocol::admission::Severity;
use publication_protocol::code::ErrorCode;
use publication_protocol::ports::ReadFailure;
use publication_protocol::preflight::{Backlog, EntryState, FailedRead, Grant, PreflightAnswer};
use support::facts::{SECOND, granted, judged, one, says, table, unobstructed};

type Change = fn(&mut PreflightAnswer);

// proves: K04, B-7
#[test]
fn a_path_that_another_table_has_is_refused_naming_the_owner() {
    let finding = one(judged(true, &[], |a| {
        a.members[1].same_path.push(table("an", "t_cand"));
    }));
    assert_eq!((finding.code, finding.severity), (ErrorCode::CandidateInvalid, Severity::Block));
    says(&finding, &["an.t_cand", SECOND, "{uuid}"]);
}

// proves: K08, B-7
#[test]
fn a_replica_outside_of_the_cluster_is_refused() {
    for (at, field, code) in
        [(0, "target: t", ErrorCode::TargetInvalid), (1, "candidate: t__pub_1", ErrorCode::CandidateInvalid)]
    {
        let extra = one(judged(true, &[], |a| {
            let set = &mut a.members[1].replicas[at];
            set.total = 3;
            set.names.push("r9".into());
        }));
        assert_eq!((extra.code, extra.severity, extra.rule), (code, Severity::Block, "B-7"));
        says(&extra, &[field, "3 replicas", "cluster has 2", "(r9)", SECOND]);
        // As many as there are members, but not theirs.
        let other = one(judged(true, &[], |a| a.members[1].replicas[at].names[0] = "r9".into()));
        assert_eq!(other.code, code);
        let few = one(judged(true, &[], |a| a.members[1].replicas[at].total = 1));
        assert_eq!((few.code, few.severity), (code, Severity::Block));
        let silent = judged(true, &[], |a| {
            a.members[1].replicas.remove(at);
        });
        assert_eq!(silent[0].severity, Severity::Wait, "{silent:?}");
    }
}

// proves: K21
#[test]
fn a_predecessor_above_the_drop_limit_blocks_before_anything_is_written() {
    let large: Change = |a| {
        a.members[1].tables.iter_mut().for_each(|t| t.bytes = 50_001);
    };
    let finding = one(judged(true, &[], large));
    assert_eq!((finding.code, finding.severity), (ErrorCode::CapabilityMissing, Severity::Block));
    says(&finding, &["target: t has 50001 bytes", SECOND, "max_table_size_to_drop is 50000", "359"]);
    // Nothing is dropped where there was no target; 0 is no limit; the limit itself may be dropped.
    assert_eq!(judged(false, &[], large), vec![]);
    let unlimited = judged(true, &[], |a| {
        large(a);
        a.members[1].limits.drop_bytes_max = 0;
    });
    assert_eq!(unlimited, vec![]);
    assert_eq!(judged(true, &[], |a| a.members[1].tables[0].bytes = 50_000), vec![]);
}

fn scoped(access: &str, database: &str, on: Option<&str>) -> Grant {
    Grant { database: Some(database.into()), table: on.map(Into::into), ..granted(access) }
}

/// What docs/security.md would tell the platform to grant, and nothing more.
fn least() -> Vec<Grant> {
    let mut grants = vec![granted("CLUSTER"), granted("SHOW TABLES")];
    grants.extend(["SELECT", "INSERT", "CREATE TABLE", "DROP TABLE"].map(|right| scoped(right, "db", None)));
    let facade = Some("publication_authority");
    grants.extend(["SELECT", "INSERT", "ALTER UPDATE"].map(|right| scoped(right, "publication", facade)));
    grants
}

// proves: K19
#[test]
fn the_least_rights_suffice_and_each_of_them_is_missed() {
    assert_eq!(judged(true, &[], |a| a.members[1].grants = least()), vec![]);
    let missed = [
        ("CLUSTER", "CLUSTER ON *.*"),
        ("SELECT", "SELECT ON db.t"),
        ("INSERT", "INSERT ON db.t"),
        ("CREATE TABLE", "CREATE TABLE ON db.t"),
        ("DROP TABLE", "db.t__retired_*"),
        ("ALTER UPDATE", "ALTER UPDATE ON publication.publication_authority"),
    ];
    for (right, said) in missed {
        let finding = one(judged(true, &[], |a| {
            a.members[1].grants = least().into_iter().filter(|g| g.access != right).collect();
        }));
        assert_eq!((finding.code, finding.severity), (ErrorCode::AccessDenied, Severity::Block));
        says(&finding, &[said, SECOND]);
    }
    let nothing = one(judged(true, &[], |a| a.members[1].grants.clear()));
    says(&nothing, &["CLUSTER, SHOW TABLES ON *.*"]);
}

// proves: K19
#[test]
fn roles_groups_prefixes_and_revocations_are_understood() {
    let role = |mut grants: Vec<Grant>| {
        grants.iter_mut().for_each(|g| g.grantee = "publishers".into());
        grants
    };
    let wildcard = |right: &str| Grant { wildcard: true, ..scoped(right, "db", Some("t")) };
    let groups = ["SHOW", "SELECT", "INSERT", "ALTER", "CREATE", "DROP", "CLUSTER"].map(granted).to_vec();
    let mut prefixes: Vec<Grant> =
        least().into_iter().filter(|g| g.database.as_deref() != Some("db")).collect();
    prefixes.extend(["SELECT", "INSERT", "CREATE TABLE", "DROP TABLE"].map(wildcard));
    let revoked = |access: &str, on: &str| {
        let mut grants = groups.clone();
        grants.push(Grant { revoked: true, ..scoped(access, "db", Some(on)) });
        grants
    };
    let mut by_role_and_revoked_from_user = role(groups.clone());
    by_role_and_revoked_from_user.push(Grant { revoked: true, ..scoped("SELECT", "db", Some("t")) });
    let mut foreign = groups.clone();
    foreign.iter_mut().for_each(|g| g.own = false);
    let column = Grant { column: Some("id".into()), ..granted("CLUSTER") };
    let cases = [
        (role(least()), true),
        (groups.clone(), true),
        (prefixes, true),
        (revoked("SELECT", "other"), true),
        (revoked("SELECT", "t"), false),
        (revoked("DROP TABLE", "t__pub_1"), false),
        (by_role_and_revoked_from_user, true),
        (foreign, false),
        (vec![column], false),
    ];
    for (at, (grants, suffice)) in cases.into_iter().enumerate() {
        let found = judged(true, &[], |a| a.members[1].grants.clone_from(&grants));
        assert_eq!(found.is_empty(), suffice, "case {at}: {found:?}");
    }
}

// proves: K19, B-9
#[test]
fn tables_are_seen_only_through_a_right_that_is_whole() {
    // A catalog hides the tables of `secret`, and what depends on the target there, when this is all that shows them.
    let taken = |access: &str| Grant { revoked: true, ..scoped(access, "secret", None) };
    let without = || least().into_iter().filter(|g| g.access != "SHOW TABLES").collect::<Vec<_>>();
    let with = |more: &[Grant]| [without(), more.to_vec()].concat();
    let cases = [
        (with(&[granted("SELECT")]), true),
        (with(&[granted("SELECT"), taken("SELECT")]), false),
        (with(&[granted("SELECT"), taken("SELECT"), granted("INSERT")]), true),
        (with(&[granted("CREATE"), taken("CREATE TABLE")]), false),
        (with(&[granted("SELECT"), taken("ALL")]), false),
        (with(&[granted("SHOW"), granted("SELECT"), taken("SELECT")]), true),
        // The other way round: a table that may be read is seen.
        (with(&[granted("SHOW"), granted("SELECT"), taken("SHOW TABLES")]), true),
        (with(&[granted("SHOW"), taken("SHOW TABLES")]), false),
    ];
    for (at, (grants, suffice)) in cases.into_iter().enumerate() {
        let found = judged(true, &[], |a| a.members[1].grants.clone_from(&grants));
        assert_eq!(found.is_empty(), suffice, "case {at}: {found:?}");
        if !suffice {
            says(&one(found), &["SHOW TABLES ON *.*", SECOND]);
        }
    }
}

// proves: K19, B-2
#[test]
fn refused_reads_are_listed_by_member_and_others_wait() {
    let failed = |failure, needs| FailedRead { endpoint: "h2:8443".into(), failure, needs };
    let denied = one(judged(true, &[], |a| {
        a.members.pop();
        a.failures = vec![
            failed(ReadFailure::AccessDenied, "SHOW ROW POLICIES ON *.*"),
            failed(ReadFailure::AccessDenied, "SHOW USERS, SHOW ROLES ON *.*"),
        ];
    }));
    assert_eq!((denied.code, denied.severity), (ErrorCode::AccessDenied, Severity::Block));
    says(&denied, &["h2:8443", "SHOW ROW POLICIES ON *.*; SHOW USERS, SHOW ROLES ON *.*"]);
    let down = one(judged(true, &[], |a| {
        a.members.pop();
        a.failures = vec![failed(ReadFailure::Unavailable, "")];
    }));
    assert_eq!((down.code, down.severity), (ErrorCode::EndpointUnavailable, Severity::Wait));
    // A member that is silent without a failure to show for it, or answers twice.
    let silent = one(judged(true, &[], |a| {
        a.members.pop();
    }));
    assert_eq!(silent.severity, Severity::Wait);
    says(&silent, &[SECOND, "0 answers"]);
    let twice = one(judged(true, &[], |a| a.members.extend(unobstructed(1, true).members)));
    says(&twice, &["replica 1", "2 answers"]);
}

// proves: B-4, K13
#[test]
fn mixed_versions_and_a_backlog_are_said_and_hold_nothing_back() {
    let mixed = one(judged(true, &[], |a| a.members[1].server_version = "25.9".into()));
    assert_eq!(mixed.severity, Severity::Warn);
    says(&mixed, &["25.8 on h1:9000 (replica 1)", "25.9 on h2:9000 (replica 2)"]);
    let entry = |name: &str, host: &str, age_s| Backlog {
        entry: name.into(),
        host: host.into(),
        port: 9000,
        state: EntryState::Active,
        age_s,
    };
    let waits = one(judged(true, &[], |a| {
        a.backlog = vec![
            entry("query-0000000008", "h2", 5),
            entry("query-0000000007", "h2", 7_200),
            entry("query-0000000001", "elsewhere", 9_999),
        ];
    }));
    assert_eq!(waits.severity, Severity::Warn);
    says(&waits, &["query-0000000007", SECOND, "7200 s"]);
}
