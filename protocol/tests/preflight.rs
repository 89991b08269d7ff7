//! Preflight over facts of members: each obstacle gives its finding, with member, object and remedy; and where the
//! driver puts it.
#![allow(clippy::panic)]

mod support;

use publication_protocol::admission::Severity;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Call, End, Input};
use publication_protocol::preflight::{
    ConfiguredDictionary, Definition, DependentKind, Grant, MemberFacts, Policy, PreflightAnswer,
};
use std::collections::BTreeSet;
use support::build::{CANDIDATE, TARGET, intent};
use support::facts::{SECOND, is_of_candidate, judged, one, says, table, unobstructed};
use support::stepper::Stepper;
use support::world::World;

type Change<'a> = &'a dyn Fn(&mut PreflightAnswer);

fn second(change: impl FnOnce(&mut MemberFacts)) -> impl FnOnce(&mut PreflightAnswer) {
    |answer| change(&mut answer.members[1])
}

fn define(engine: &str, name: &str, text: &str) -> Definition {
    Definition { name: table("db", name), engine: engine.into(), create_query: text.into() }
}

#[test]
fn nothing_in_the_way_is_nothing_found() {
    assert_eq!(judged(true, &[], |_| {}), vec![]);
    assert_eq!(judged(false, &[], |_| {}), vec![]);
}

/// Kind, name, text, and what the finding says of it.
const DEFINED: &[(&str, &str, &str, &str)] = &[
    (
        "MaterializedView",
        "mv",
        "CREATE MATERIALIZED VIEW db.mv (`id` UInt64) ENGINE = MergeTree ORDER BY id AS SELECT id FROM db.t",
        "materialized view db.mv reads t on",
    ),
    (
        "MaterializedView",
        "mv",
        "CREATE MATERIALIZED VIEW db.mv TO db.t (`id` UInt64) AS SELECT id FROM db.other",
        "materialized view db.mv writes to t on",
    ),
    (
        "MaterializedView",
        "mv",
        "CREATE MATERIALIZED VIEW db.mv TO db.`t__pub_1` (`id` UInt64) AS SELECT id FROM db.other",
        "materialized view db.mv writes to t__pub_1 on",
    ),
    (
        "View",
        "v",
        "CREATE VIEW db.v (`id` UInt64) AS SELECT 1 WHERE 1 IN (SELECT id FROM db.t)",
        "view db.v reads t on",
    ),
    ("View", "v", "CREATE VIEW db.v AS SELECT * FROM remote('h1', db, t)", "view db.v reads t on"),
    ("View", "v", "CREATE VIEW db.v AS SELECT * FROM cluster('c', 'db', 't')", "view db.v reads t on"),
    (
        "LiveView",
        "v",
        "CREATE LIVE VIEW db.v AS SELECT * FROM db.t__pub_1 AS x",
        "view db.v reads t__pub_1 on",
    ),
    (
        "Dictionary",
        "d",
        "CREATE DICTIONARY db.d (`id` UInt64) PRIMARY KEY id SOURCE(CLICKHOUSE(DB 'db' TABLE 't')) LAYOUT(FLAT())",
        "dictionary db.d reads t on",
    ),
    (
        "Dictionary",
        "d",
        "CREATE DICTIONARY db.d (`id` UInt64) PRIMARY KEY id SOURCE(CLICKHOUSE(TABLE 't')) LAYOUT(FLAT())",
        "dictionary db.d reads t on",
    ),
    (
        "Dictionary",
        "d",
        "CREATE DICTIONARY db.d (`id` UInt64) PRIMARY KEY id SOURCE(CLICKHOUSE(QUERY 'SELECT id FROM db.t')) LAYOUT(FLAT())",
        "dictionary db.d reads t on",
    ),
    ("View", "v", "CREATE VIEW db.v AS SELECT 'no end", "view db.v cannot be read, and may refer to t on"),
];

fn kind_of(engine: &str) -> DependentKind {
    match engine {
        "MaterializedView" => DependentKind::MaterializedView,
        "Dictionary" => DependentKind::Dictionary,
        _ => DependentKind::View,
    }
}

// proves: B-9, K17
#[test]
fn definitions_that_refer_to_a_name_block_until_their_kind_is_accepted() {
    for (engine, name, text, said) in DEFINED {
        let change =
            |answer: &mut PreflightAnswer| answer.members[1].definitions.push(define(engine, name, text));
        let findings = judged(true, &[], change);
        let finding = findings.first().unwrap_or_else(|| panic!("{text}"));
        assert_eq!((finding.code, finding.rule), (ErrorCode::DependentsPresent, "B-9"));
        assert_eq!(finding.severity, Severity::Block);
        let kind = kind_of(engine);
        says(finding, &[said, SECOND, kind.as_str(), "accept.dependents"]);
        let accepted = judged(true, &[kind], change);
        assert!(
            accepted.iter().all(|f| f.severity == Severity::Warn) && !accepted.is_empty(),
            "{accepted:?}"
        );
        // Another kind does not help.
        let other = judged(true, &[DependentKind::RowPolicy], change);
        assert_eq!(other[0].severity, Severity::Block);
    }
}

// proves: B-9, K01
#[test]
fn texts_that_only_look_like_it_are_not_dependents() {
    for text in [
        "CREATE VIEW db.v AS SELECT t.id FROM db.other AS t",
        "CREATE VIEW db.v AS SELECT 'db.t' FROM db.other",
        "CREATE VIEW db.v AS SELECT * FROM other.t",
        "CREATE VIEW db.v AS SELECT * FROM db.tt",
        "CREATE VIEW db.v AS SELECT * FROM db.`t__pub_12`",
        "CREATE VIEW db.v AS SELECT db, t FROM db.other /* FROM db.t */",
        "CREATE VIEW db.v AS SELECT * FROM db.`t__pub_1x`",
    ] {
        let found = judged(true, &[], |a| a.members[0].definitions.push(define("View", "v", text)));
        assert_eq!(found, vec![], "{text}");
    }
}

// proves: B-9
#[test]
fn one_object_on_several_members_is_one_finding_that_names_them_all() {
    let text = "CREATE VIEW db.v AS SELECT * FROM db.t";
    let found = judged(true, &[], |answer| {
        answer.members.iter_mut().for_each(|m| m.definitions.push(define("View", "v", text)));
    });
    says(&one(found), &["h1:9000 (replica 1), h2:9000 (replica 2)"]);
}

fn loads(name: &str, dependent: &str, answer: &mut PreflightAnswer) {
    let of = answer.members[1].tables.iter_mut().find(|t| t.name == name);
    of.expect("the table").loading_dependents.push(table("db", dependent));
}

// proves: B-9, K17
#[test]
fn what_the_server_would_refuse_cannot_be_accepted() {
    let all = [
        DependentKind::MaterializedView,
        DependentKind::View,
        DependentKind::Dictionary,
        DependentKind::RowPolicy,
        DependentKind::ColumnGrant,
    ];
    let dictionary = |name: &str| {
        let source = format!("SOURCE(CLICKHOUSE(DB 'db' TABLE '{name}'))");
        define("Dictionary", "d", &format!("CREATE DICTIONARY db.d (`id` UInt64) PRIMARY KEY id {source}"))
    };
    // By default a server refuses to rename what a dictionary loads from: the retire step, or the publication.
    for target in [true, false] {
        let refused = one(judged(target, &all, |answer| {
            answer.members[1].definitions.push(dictionary(CANDIDATE));
            loads(CANDIDATE, "d", answer);
        }));
        assert_eq!((refused.code, refused.severity), (ErrorCode::DependentsPresent, Severity::Block));
        says(&refused, &["dictionary db.d reads t__pub_1", SECOND, "630", "whatever is accepted"]);
    }
    // Nobody renames the target's name, and EXCHANGE is never refused.
    let target = one(judged(true, &all, |answer| {
        answer.members[1].definitions.push(dictionary(TARGET));
        loads(TARGET, "d", answer);
    }));
    assert_eq!(target.severity, Severity::Warn);
    // A default expression is seen by the server alone.
    let default = one(judged(true, &all, |answer| loads(CANDIDATE, "other", answer)));
    assert_eq!(default.severity, Severity::Block);
    says(&default, &["table db.other loads from t__pub_1", "630"]);
    // Views count where the server is told to look at references.
    let view = define("View", "v", "CREATE VIEW db.v AS SELECT * FROM db.t__pub_1");
    let strict = one(judged(true, &all, |answer| {
        answer.members[1].definitions.push(view.clone());
        answer.members[1].limits.checks_references = true;
    }));
    assert_eq!(strict.severity, Severity::Block);
    let lax = one(judged(true, &all, |answer| answer.members[1].definitions.push(view.clone())));
    assert_eq!(lax.severity, Severity::Warn);
}

// proves: B-9
#[test]
fn configured_dictionaries_policies_and_column_grants_are_listed() {
    let column = |on: &str| Grant {
        grantee: "analyst".into(),
        own: false,
        access: "SELECT".into(),
        database: Some("db".into()),
        table: Some(on.into()),
        column: Some("id".into()),
        revoked: false,
        wildcard: false,
    };
    let dictionary = |answer: &mut PreflightAnswer| {
        let source = "ClickHouse: db.t, where: id > 1".into();
        answer.members[1].configured.push(ConfiguredDictionary { name: "conf".into(), source });
    };
    let policy = |answer: &mut PreflightAnswer| {
        answer.members[1].policies.push(Policy { name: "tenant".into(), table: TARGET.into() });
    };
    let grant = |answer: &mut PreflightAnswer| answer.members[1].grants.push(column(TARGET));
    let cases: [(DependentKind, Change<'_>, &str); 3] = [
        (DependentKind::Dictionary, &dictionary, "dictionary conf (of the server's configuration) reads t"),
        (DependentKind::RowPolicy, &policy, "row policy tenant is on t"),
        (DependentKind::ColumnGrant, &grant, "SELECT(id) to analyst is on t and not on t__pub_1"),
    ];
    for (kind, change, said) in cases {
        let finding = one(judged(true, &[], change));
        assert_eq!((finding.code, finding.severity), (ErrorCode::DependentsPresent, Severity::Block));
        says(&finding, &[said, SECOND, kind.as_str()]);
        assert_eq!(one(judged(true, &[kind], change)).severity, Severity::Warn);
    }
    // The same grant on both names changes nothing for anybody.
    let both = judged(true, &[], |a| a.members[1].grants.extend([column(TARGET), column(CANDIDATE)]));
    assert_eq!(both, vec![]);
}

fn stepped(target: bool) -> (World, Stepper, Call) {
    let world = World::new(2, target);
    let mut stepper = Stepper::new(&world, &intent());
    let call = stepper.until(Input::Begin, |call| matches!(call, Call::Preflight(_)));
    (world, stepper, call)
}

// proves: B-9
#[test]
fn an_obstacle_ends_the_pass_before_anything_is_written() {
    let (world, mut stepper, call) = stepped(true);
    let Call::Preflight(ask) = call else { panic!("{call:?}") };
    assert!(is_of_candidate(&ask), "{ask:?}");
    let mut answer = unobstructed(2, true);
    second(|m| m.policies.push(Policy { name: "tenant".into(), table: TARGET.into() }))(&mut answer);
    answer.members[1].server_version = "25.9".into();
    let report = stepper.finish(Input::Preflight(answer));
    assert_eq!(report.end, End::Stalled);
    let severities: Vec<Severity> = report.findings.iter().map(|f| f.severity).collect();
    assert_eq!(severities, [Severity::Block, Severity::Warn], "worst first");
    assert_eq!((world.counts().mutations, world.counts().sends), (0, 0));
    assert!(report.converged && report.slot.is_none());
}

// proves: B-9
#[test]
fn a_warning_goes_with_the_report_of_an_operation_that_runs() {
    let (world, mut stepper, _) = stepped(true);
    stepper.driver = {
        let mut intent = intent();
        intent.accepted_dependents = BTreeSet::from([DependentKind::RowPolicy]);
        let mut other = Stepper::new(&world, &intent);
        other.until(Input::Begin, |call| matches!(call, Call::Preflight(_)));
        other.driver
    };
    let mut answer = unobstructed(2, true);
    second(|m| m.policies.push(Policy { name: "tenant".into(), table: TARGET.into() }))(&mut answer);
    let report = stepper.finish(Input::Preflight(answer));
    assert_eq!((report.end, report.findings.len()), (End::Succeeded, 0), "{report:?}");
    says(&one(report.warnings), &["row policy tenant"]);
    world.judge();
}
