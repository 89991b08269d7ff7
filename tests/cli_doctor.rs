//! The screens of `doctor`, from constructed evidence, and what each finding comes to.
#![allow(clippy::unwrap_used, clippy::panic)]

use publication_operator::api::PublicationCluster;
use publication_operator::cli::doctor::judge::{Seen, report};
use publication_operator::cli::doctor::report::{Check, Report, Step, Verdict};
use publication_operator::cli::doctor::screen;
use publication_operator::cli::doctor::selftest::Done;
use publication_operator::cli::output::{Format, render};
use publication_operator::cli::plan::report::Level;
use publication_operator::clickhouse::checkup::Checkup;
use publication_operator::clickhouse::probe::{EndpointProbe, Facade, ServerProbe};
use publication_protocol::facade::FacadeBinding;
use publication_protocol::identity::{Random, RootId, ServerUuid};
use publication_protocol::inventory::{ClusterRow, Inventory, Member};
use publication_protocol::ports::{AuthorityRead, MemberAnswer, MembersAnswer, ReadFailure};
use publication_protocol::preflight::{Backlog, EntryState, FailedRead, Grant};
use publication_protocol::record::VersionedRow;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DATABASE: &str = "publication";

fn root() -> RootId {
    RootId::draw(&Random([3; 32]))
}

fn server(n: u32) -> ServerUuid {
    ServerUuid::parse(&format!("00000000-0000-0000-0000-{n:012}")).unwrap()
}

fn label(n: u32) -> String {
    format!("ch-{n}.ch:8443")
}

fn object(change: impl FnOnce(&mut Value)) -> PublicationCluster {
    let at = "2026-11-30T12:00:00Z";
    let ready = |kind: &str, reason: &str| json!({"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at});
    let mut object = json!({
        "apiVersion": "clickhouse.dpone.dev/v1alpha1",
        "kind": "PublicationCluster",
        "metadata": {"name": "analytics", "namespace": "platform", "generation": 2},
        "spec": {
            "clusterName": "main", "controlDatabase": DATABASE,
            "members": [{"endpoint": "https://ch-1.ch:8443"}, {"endpoint": "https://ch-2.ch:8443"}],
            "auth": {"secretRef": {"name": "ch-publisher"}},
            "access": [{"databases": [{"name": "shop"}, {"prefix": "mart_"}]}],
            "declare": {"noRetryingProxy": true},
        },
        "status": {
            "observedGeneration": 2, "facadeRoot": root().to_string(),
            "conditions": [ready("FacadeReady", "Agreed"), ready("Ready", "Admitted")],
        },
    });
    change(&mut object);
    serde_json::from_value(object).unwrap()
}

fn view(at: u32) -> Vec<ClusterRow> {
    let row = |n: u32| ClusterRow {
        shard: 1,
        replica: n,
        host: format!("ch-{n}.ch"),
        port: 9000,
        is_local: n == at,
        internal_replication: Some(true),
    };
    vec![row(1), row(2)]
}

fn inventory() -> Inventory {
    let member =
        |n| Member { shard: 1, replica: n, host: format!("ch-{n}.ch"), port: 9000, server_uuid: server(n) };
    Inventory { cluster: "main".into(), members: vec![member(1), member(2)] }
}

fn everything() -> Grant {
    Grant {
        grantee: "publisher".into(),
        own: true,
        access: "ALL".into(),
        database: None,
        table: None,
        column: None,
        revoked: false,
        wildcard: false,
    }
}

fn binding_row() -> VersionedRow {
    VersionedRow { row: FacadeBinding::of(&inventory()).encode(), version: 0 }
}

fn probe(n: u32) -> EndpointProbe {
    let answer = ServerProbe {
        server_uuid: server(n),
        host_name: format!("ch-{n}"),
        tcp_port: 9000,
        version: "26.9.1.1".into(),
        view: view(n),
        control_database_engine: Some("Atomic".into()),
        facades: vec![Facade::expected(DATABASE, root())],
        ddl_entry_format_version: Some(6),
    };
    EndpointProbe { label: label(n), answer: Ok(answer) }
}

fn healthy() -> Seen {
    let answer = |n| MemberAnswer {
        server_uuid: server(n),
        server_version: "26.9.1.1".into(),
        view: view(n),
        database_engine: Some("Atomic".into()),
        tables: BTreeMap::new(),
        health: None,
        count: None,
    };
    Seen {
        cluster: "platform/analytics".into(),
        object: Some(object(|_| ())),
        notes: vec![],
        probes: vec![probe(1), probe(2)],
        through: Some(MembersAnswer { members: vec![answer(1), answer(2)], failures: vec![] }),
        binding: Some(AuthorityRead {
            rows: [1, 2].map(|n| (server(n), Some(binding_row()))).into(),
            ..AuthorityRead::default()
        }),
        checkup: Some(Checkup {
            grants: [1, 2].map(|n| Ok((server(n), vec![everything()]))).into(),
            backlog: Ok(vec![]),
        }),
        ..Seen::default()
    }
}

fn of(seen: &mut Seen, n: usize) -> &mut ServerProbe {
    seen.probes[n - 1].answer.as_mut().unwrap()
}

fn judged(seen: &Seen, verdict: Verdict, code: u8) -> Report {
    let report = report(seen);
    assert_eq!((report.verdict, report.verdict.exit_code()), (verdict, code), "{}", screen::table(&report));
    report
}

#[test]
fn a_healthy_cluster() {
    let report = judged(&healthy(), Verdict::Healthy, 0);
    assert!(report.checks.iter().all(|check| check.level == Level::Ok) && report.unchecked.is_empty());
    insta::assert_snapshot!("healthy", screen::table(&report));
    insta::assert_snapshot!("healthy_json", render(&report, Format::Json, screen::table).unwrap());
    insta::assert_snapshot!("healthy_yaml", render(&report, Format::Yaml, screen::table).unwrap());
}

// proves: B-2
#[test]
fn one_silent_member_blocks_and_none_at_all_cannot_be_told() {
    let mut seen = healthy();
    seen.probes[1].answer = Err(ReadFailure::Unavailable);
    seen.through =
        Some(MembersAnswer { members: vec![], failures: vec![(label(1), ReadFailure::Unavailable)] });
    seen.binding.as_mut().unwrap().rows.truncate(1);
    seen.binding.as_mut().unwrap().failures.push((label(2), ReadFailure::Unavailable));
    let unread =
        FailedRead { endpoint: label(2), failure: ReadFailure::Unavailable, needs: "SELECT on system.*" };
    seen.checkup.as_mut().unwrap().grants[1] = Err(unread);
    insta::assert_snapshot!("unreachable", screen::table(&judged(&seen, Verdict::Blocked, 1)));

    for probe in &mut seen.probes {
        probe.answer = Err(ReadFailure::Unavailable);
    }
    (seen.through, seen.binding, seen.checkup) = (None, None, None);
    insta::assert_snapshot!("nobody", screen::table(&judged(&seen, Verdict::Unknown, 3)));
    for probe in &mut seen.probes {
        probe.answer = Err(ReadFailure::Credentials);
    }
    let report = judged(&seen, Verdict::Blocked, 1);
    assert_eq!(report.checks[0].code, Some("ACCESS_DENIED"));
}

// proves: B-5, B-6
#[test]
fn a_facade_that_is_gone_blocks_and_one_that_is_to_be_made_is_waited_for() {
    let mut seen = healthy();
    of(&mut seen, 2).facades.clear();
    seen.binding.as_mut().unwrap().failures.push((label(2), ReadFailure::NoTable));
    insta::assert_snapshot!("facade_partly", screen::table(&judged(&seen, Verdict::Waiting, 2)));

    of(&mut seen, 1).facades.clear();
    let lost = judged(&seen, Verdict::Blocked, 1);
    insta::assert_snapshot!("facade_lost", screen::table(&lost));

    seen.object = Some(object(|o| o["status"] = json!({"observedGeneration": 2})));
    judged(&seen, Verdict::Waiting, 2);

    let mut seen = healthy();
    let other = RootId::draw(&Random([4; 32]));
    of(&mut seen, 2).facades = vec![Facade::expected(DATABASE, other)];
    let two = judged(&seen, Verdict::Blocked, 1);
    assert_eq!((two.checks[0].rule, two.checks[0].check), ("B-5", "facade"));
}

// proves: B-5, C-13, J-4
#[test]
fn the_binding_is_this_clusters_and_read_alike() {
    let mut seen = healthy();
    seen.binding.as_mut().unwrap().rows[1].1 = None;
    let stale = judged(&seen, Verdict::Waiting, 2);
    assert_eq!(
        (stale.checks[0].rule, stale.checks[0].member.as_deref()),
        ("C-13", Some("ch-2.ch:9000 (replica 2)"))
    );

    let mut other = inventory();
    other.members.truncate(1);
    let row = VersionedRow { row: FacadeBinding::of(&other).encode(), version: 3 };
    for (_, found) in &mut seen.binding.as_mut().unwrap().rows {
        *found = Some(row.clone());
    }
    let replaced = judged(&seen, Verdict::Blocked, 1);
    assert_eq!(replaced.checks[0].code, Some("INCOMPLETE_INVENTORY"));
}

// proves: B-1, B-3, B-4
#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut seen = healthy();
    of(&mut seen, 1).version = "23.8.1".into();
    of(&mut seen, 2).control_database_engine = Some("Ordinary".into());
    of(&mut seen, 2).ddl_entry_format_version = Some(1);
    for n in [1, 2] {
        of(&mut seen, n).view[1].shard = 2;
    }
    let rows = seen.through.as_mut().unwrap();
    rows.members.iter_mut().for_each(|member| member.view[1].shard = 2);
    insta::assert_snapshot!("much_wrong", screen::table(&judged(&seen, Verdict::Blocked, 1)));
}

// proves: B-4, C-4, D-2, K13, K19
#[test]
fn warnings_hold_nothing_up() {
    let mut seen = healthy();
    seen.object = Some(object(|o| {
        o["spec"]["declare"] = json!({});
        o["spec"]["suspend"] = true.into();
    }));
    of(&mut seen, 2).version = "26.8.3.1".into();
    let checkup = seen.checkup.as_mut().unwrap();
    let on = |database: &str, access: &str| Grant {
        access: access.into(),
        database: Some(database.into()),
        ..everything()
    };
    let narrow = vec![
        Grant { access: "CLUSTER".into(), ..everything() },
        Grant { access: "SHOW".into(), ..everything() },
        on(DATABASE, "ALL"),
        on("shop", "SELECT"),
    ];
    checkup.grants[1] = Ok((server(2), narrow));
    let entry = |entry: &str, age_s| Backlog {
        entry: entry.into(),
        host: "ch-2.ch".into(),
        port: 9000,
        state: EntryState::Active,
        age_s,
    };
    checkup.backlog = Ok(vec![entry("query-0000000009", 40), entry("query-0000000007", 7_200)]);
    insta::assert_snapshot!("warnings", screen::table(&judged(&seen, Verdict::Healthy, 0)));

    let checkup = seen.checkup.as_mut().unwrap();
    checkup.grants[1] = Ok((server(2), vec![on("shop", "ALL")]));
    let lacking = judged(&seen, Verdict::Blocked, 1);
    let first = &lacking.checks[0];
    assert_eq!((first.check, first.code), ("grants", Some("ACCESS_DENIED")));
    for right in
        ["CLUSTER, SHOW TABLES ON *.*", "SELECT, INSERT, ALTER UPDATE ON publication.publication_authority"]
    {
        assert!(first.evidence.contains(right), "{first:?}");
    }
}

fn step(sql: &str, outcome: &str) -> Step {
    Step { sql: sql.into(), sent_to: "ch-1.ch:9000 (replica 1)".into(), outcome: outcome.into() }
}

fn check(level: Level, check: &'static str, evidence: &str) -> Check {
    let remedy = (level != Level::Ok).then(|| "Look at the queue.".to_owned());
    Check { level, check, rule: "D-3", code: None, member: None, evidence: evidence.into(), remedy }
}

#[test]
fn a_self_test_says_what_it_ran() {
    let mut seen = healthy();
    let checks = vec![
        check(Level::Unknown, "self-test: EXCHANGE", "EXCHANGE: the answer was lost; no entry in the queue"),
        check(Level::Ok, "self-test: clean-up", "the scratch tables are gone from every member"),
    ];
    let name =
        |what: &str| format!("`publication`.`publication_selftest_0123456789abcdef0123456789abcdef_{what}`");
    let exchange = format!("EXCHANGE TABLES {} AND {} ON CLUSTER `main`", name("a"), name("b"));
    let steps = vec![
        step(&exchange, "the answer was lost; no entry in the queue"),
        step(
            &format!("DROP TABLE IF EXISTS {} ON CLUSTER `main`", name("a")),
            "done on every member (query-0000000009)",
        ),
    ];
    seen.self_test = Some(Done { steps, checks });
    let report = judged(&seen, Verdict::Unknown, 3);
    insta::assert_snapshot!("self_test", screen::table(&report));
    let json: Value = serde_json::from_str(&render(&report, Format::Json, screen::table).unwrap()).unwrap();
    assert_eq!(json["selfTest"][0]["sql"], exchange.as_str());
}

#[test]
fn an_object_that_the_operator_has_not_examined() {
    let mut seen = healthy();
    seen.object = Some(object(|o| o["metadata"]["generation"] = 3.into()));
    judged(&seen, Verdict::Waiting, 2);
    let mut refused = |reason: &str| {
        seen.object = Some(object(|o| {
            o["status"]["conditions"][1]["status"] = "False".into();
            o["status"]["conditions"][1]["reason"] = reason.into();
        }));
        judged(&seen, Verdict::Healthy, 0)
    };
    assert_eq!(refused("EndpointUnavailable").checks[0].level, Level::Warn);
}

#[test]
fn an_object_that_is_not_there() {
    let seen = Seen { cluster: "platform/nowhere".into(), ..Seen::default() };
    judged(&seen, Verdict::Unknown, 3);
}
