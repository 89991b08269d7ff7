//! Every screen of the commands for people, from constructed data.
#![allow(clippy::panic, clippy::unwrap_used)]

mod cli_support;

use cli_support::{
    CANDIDATE, Slots, TARGET, answer, intent, manifest, object, root_finding, seen, status_of, unanswered,
};
use publication_operator::cli::explain::{explain, list, table as explain_table};
use publication_operator::cli::output::{Format, render};
use publication_operator::cli::plan::assemble::{Seen, assemble, note, unreadable};
use publication_operator::cli::plan::manifest as manifests;
use publication_operator::cli::plan::report::{Level, Report, Verdict};
use publication_operator::cli::plan::screen as plan_screen;
use publication_operator::cli::status::screen as status_screen;
use publication_operator::cli::status::view::View;
use publication_protocol::generation::TableFact;
use publication_protocol::phase::Phase;
use serde_json::json;

fn shown(report: &Report) -> String {
    plan_screen::table(report)
}

#[test]
fn plan_admissible() {
    let report = assemble(seen(&Slots::Never, answer(true)));
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Admissible, 0));
    insta::assert_snapshot!("plan_admissible", shown(&report));
    insta::assert_snapshot!(
        "plan_admissible_json",
        render(&report, Format::Json, plan_screen::table).unwrap()
    );
    insta::assert_snapshot!(
        "plan_admissible_yaml",
        render(&report, Format::Yaml, plan_screen::table).unwrap()
    );
}

#[test]
fn plan_of_an_absent_target_is_one_rename() {
    let report = assemble(seen(&Slots::Over, answer(false)));
    assert_eq!(report.verdict, Verdict::Admissible);
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_blocked_names_member_rule_and_remedy_and_who_holds_the_slot() {
    let mut members = answer(true);
    members.members[1].tables.insert(CANDIDATE.into(), TableFact::Absent);
    members.members[1].health = None;
    members.members[1].count = None;
    let report = assemble(seen(&Slots::Held(Phase::InProgress), members));
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Blocked, 1));
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_waiting_for_a_candidate() {
    let mut members = answer(true);
    members.members[0].health.as_mut().unwrap().queue_size = 7;
    members.members[1].count = Some(4);
    let report = assemble(seen(&Slots::Never, members));
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Waiting, 2));
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_could_not_tell() {
    let report = assemble(unanswered());
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Unknown, 3));
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_of_what_was_done_already() {
    let report = assemble(seen(&Slots::Own(Phase::Completed), answer(true)));
    assert_eq!((report.verdict, report.statements.len()), (Verdict::Done, 0));
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_of_what_is_under_way() {
    let report = assemble(seen(&Slots::Own(Phase::RetirePending), answer(true)));
    assert_eq!((report.verdict, report.statements.len()), (Verdict::Waiting, 0));
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_on_a_cluster_without_facade() {
    let mut found = seen(&Slots::Never, answer(true));
    found.review = None;
    found.read = None;
    found.notes = vec![note(&root_finding(), false)];
    insta::assert_snapshot!(shown(&assemble(found)));
}

// proves
#[test]
fn bad_manifests_are_answered_with_field_and_rule() {
    let told = |change: serde_json::Value| -> Vec<String> {
        let mut manifest = manifest();
        for (field, value) in change.as_object().unwrap() {
            manifest["spec"][field] = value.clone();
        }
        let findings = match manifests::parse(&manifest.to_string()) {
            Ok(object) => manifests::check(&object),
            Err(findings) => findings,
        };
        findings.iter().map(|f| format!("{} ({}) {}", f.code, f.rule, f.message)).collect()
    };
    let long = "x".repeat(190);
    let cases = [
        json!({}),
        json!({"target": "a__pub_b"}),
        json!({"target": "a__retired_b"}),
        json!({"candidate": "orders_new"}),
        json!({"candidate": "orders__pub_-1"}),
        json!({"candidate": "orders"}),
        json!({"database": ""}),
        json!({"database": "a\nb"}),
        json!({"target": "ö".repeat(90), "candidate": format!("{}__pub_1", "ö".repeat(90))}),
        json!({"database": "d".repeat(60), "target": long.clone(), "candidate": format!("{long}__pub_1")}),
        json!({"rows": {}}),
        json!({"rows": {"exact": -1}}),
        json!({"rows": {"exact": 9_223_372_036_854_775_808_u64}}),
        json!({"rows": {"min": 3, "max": 2}}),
        json!({"rows": {"exact": 1, "min": 1}}),
        json!({"invocationId": ""}),
        json!({"invocationId": "a\nb"}),
        json!({"invocationId": "x".repeat(257)}),
        json!({"invocationId": "ö".repeat(257)}),
        json!({"invocationId": "x".repeat(1_000_000)}),
        json!({"admissionDeadlineSeconds": 0}),
        json!({"sharding": true}),
        json!({"database": 5}),
    ];
    let lines: Vec<String> = cases
        .iter()
        .map(|case| {
            let mut shown: String = case.to_string().chars().take(80).collect();
            shown.push('\n');
            told(case.clone()).iter().fold(shown, |shown, line| format!("{shown}  {line}\n"))
        })
        .collect();
    insta::assert_snapshot!(lines.concat());
    for text in ["", "a: b", "{", "kind: ClusterPublication", "kind: ClusterPublication\napiVersion: v2"] {
        assert_eq!(manifests::parse(text).unwrap_err()[0].code.as_str(), "SPEC_INVALID", "{text}");
    }
    let two = format!("---\n{}\n---\n{}\n", manifest(), manifest());
    assert!(manifests::parse(&two).is_err());
    let among = format!("---\napiVersion: v1\nkind: Namespace\n---\n{}\n", manifest());
    assert_eq!(manifests::parse(&among).unwrap().spec.target, "orders");
}

#[test]
fn plan_of_a_bad_manifest() {
    let mut bad = manifest();
    bad["spec"]["candidate"] = json!("orders_new");
    let object = manifests::parse(&bad.to_string()).unwrap();
    let notes = manifests::check(&object).iter().map(|f| note(f, false)).collect();
    let tables = Some(["shop".into(), "orders".into(), "orders_new".into()]);
    let report = assemble(Seen { publication: "shop/orders".into(), tables, notes, ..Seen::default() });
    assert_eq!(report.verdict, Verdict::Blocked);
    insta::assert_snapshot!(shown(&report));
}

#[test]
fn plan_of_a_file_without_a_publication() {
    let shown = |text: &str| {
        let findings = manifests::parse(text).unwrap_err();
        let report = assemble(unreadable("orders.yaml".into(), &findings));
        assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Blocked, 1));
        shown(&report)
    };
    let mut wrong = manifest();
    wrong["spec"]["rows"] = json!({"exact": "many"});
    wrong["spec"]["clusterRef"] = json!({});
    wrong["spec"].as_object_mut().unwrap().remove("target");
    let screens = ["kind: Secret\n", "kind: [\n", &wrong.to_string()].map(shown);
    insta::assert_snapshot!(screens.join("\n----------\n"));
}

/// The database is missing; and a candidate that is both spent and missing is built under a fresh name.
#[test]
fn remedies_fit_what_was_found() {
    let mut members = answer(true);
    for member in &mut members.members {
        member.database_engine = None;
    }
    let report = assemble(seen(&Slots::Never, members));
    let database = report.findings.iter().find(|f| f.rule == "B-3").unwrap();
    assert!(database.remedy.as_deref().unwrap().starts_with("Create the database"), "{database:?}");

    let mut members = answer(true);
    for member in &mut members.members {
        member.tables.insert(CANDIDATE.into(), TableFact::Absent);
        member.health = None;
        member.count = None;
    }
    let report = assemble(seen(&Slots::Spent, members));
    insta::assert_snapshot!("plan_of_a_candidate_both_spent_and_missing", shown(&report));
    let remedies = report.findings.iter().filter(|f| f.level == Level::Block).map(|f| f.remedy.clone());
    assert!(remedies.into_iter().all(|r| r.unwrap().starts_with("Give the new generation a fresh suffix")));
}

/// Several members in one message are no one's finding.
#[test]
fn a_finding_names_a_member_only_if_it_is_one() {
    let mut members = answer(true);
    let other = members.members[1].tables[CANDIDATE].clone();
    members.members[1].tables.insert(TARGET.into(), other);
    let report = assemble(seen(&Slots::Never, members));
    let differs = report.findings.iter().find(|f| f.code == Some("TARGET_INVALID")).unwrap();
    assert_eq!(differs.member, None, "{differs:?}");
}

#[test]
fn status_of_every_kind() {
    for name in ["unseen", "waiting", "running", "stuck", "blocked", "succeeded", "newer"] {
        let view = View::of(&status_of(name));
        assert_eq!(view.is_final(), name == "succeeded");
        insta::assert_snapshot!(format!("status_{name}"), status_screen::table(&view));
    }
    let view = View::of(&status_of("blocked"));
    insta::assert_snapshot!("status_json", render(&view, Format::Json, status_screen::table).unwrap());
    insta::assert_snapshot!("status_yaml", render(&view, Format::Yaml, status_screen::table).unwrap());
}

#[test]
fn explained() {
    insta::assert_snapshot!("explain", explain("PARTIAL_TERMINAL").unwrap().page.unwrap());
    insta::assert_snapshot!("explain_list", explain_table(&list()));
    let rule = explain("b-7").unwrap();
    insta::assert_snapshot!("explain_rule", rule.page.clone().unwrap());
    let shown = |format| render(&rule, format, |_| String::new()).unwrap();
    insta::assert_snapshot!("explain_json", shown(Format::Json));
    insta::assert_snapshot!("explain_yaml", shown(Format::Yaml));
    let wrong = ["PARTIAL_TERMINATE", "cas", "nonsense", "B-11", "b7", "J-9"];
    let errors: Vec<String> = wrong.map(|n| explain(n).unwrap_err()).into();
    insta::assert_snapshot!("explain_unknown", errors.join("\n"));
}

#[test]
fn the_manifest_is_that_of_the_kind() {
    assert_eq!(object().spec.candidate, CANDIDATE);
    assert_eq!(intent().names.candidate, CANDIDATE);
}
