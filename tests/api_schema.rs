//! The fixtures of `e2e/fixtures/api` cover the schema's rules, and the Rust types read what the schema admits.
//! That a real API server answers as the fixtures say is the end-to-end suite's part.

// clippy.toml exempts test functions only, not the helpers next to them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use publication_operator::api::{
    self, AccessRule, Classification, ClusterPublication, ConditionType, DatabasePattern, History,
    NamespaceFrom, NamespacePolicy, Phase, PublicationCluster, PublicationVerdict, RowExpectation,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

struct Fixture {
    name: String,
    text: String,
}

fn fixtures(kind: &str) -> Vec<Fixture> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("e2e/fixtures/api").join(kind);
    let mut fixtures: Vec<_> = fs::read_dir(dir)
        .expect("fixtures")
        .map(|entry| {
            let path = entry.expect("entry").path();
            Fixture {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                text: fs::read_to_string(&path).expect("read"),
            }
        })
        .collect();
    fixtures.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(fixtures.len() > 10, "{kind}: {}", fixtures.len());
    fixtures
}

fn expectation(fixture: &Fixture) -> &str {
    let first = fixture.text.lines().next().unwrap_or_default();
    first.strip_prefix("# expect: ").unwrap_or_else(|| panic!("{}: no `# expect: ` line", fixture.name))
}

/// Every `x-kubernetes-validations` message of the three kinds.
fn messages(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for rule in map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
                found.push(rule["message"].as_str().expect("message").to_owned());
            }
            map.values().for_each(|child| messages(child, found));
        }
        Value::Array(items) => items.iter().for_each(|child| messages(child, found)),
        _ => {}
    }
}

#[test]
fn every_rule_has_an_object_that_breaks_it() {
    let mut rules = Vec::new();
    messages(&serde_json::to_value(api::crds().expect("crds")).expect("json"), &mut rules);
    let bad = fixtures("bad");
    let unproven: Vec<_> =
        rules.iter().filter(|rule| !bad.iter().any(|f| rule.contains(expectation(f)))).collect();
    assert!(unproven.is_empty(), "no file in e2e/fixtures/api/bad expects: {unproven:#?}");
}

#[test]
fn bad_objects_are_well_formed_but_for_one_thing() {
    for fixture in fixtures("bad") {
        assert!(!expectation(&fixture).is_empty(), "{}", fixture.name);
        for document in serde_yaml::Deserializer::from_str(&fixture.text) {
            let object = Value::deserialize(document).unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
            assert_eq!(object["apiVersion"], format!("{}/{}", api::GROUP, api::VERSION), "{}", fixture.name);
            assert!(object["metadata"]["name"].is_string(), "{}", fixture.name);
        }
    }
}

fn round_trip<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(object.clone()).expect("read")).expect("write")
}

/// `wanted` holds everything that `given` says; defaults may be added.
fn contains(path: &str, wanted: &Value, given: &Value) {
    match given {
        Value::Object(map) => {
            map.iter().for_each(|(key, child)| contains(&format!("{path}.{key}"), &wanted[key], child));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(i, child)| contains(&format!("{path}[{i}]"), &wanted[i], child));
        }
        // An empty text is the same as none.
        Value::String(text) if text.is_empty() => assert!(wanted.is_null() || wanted == "", "{path}"),
        scalar => assert_eq!(wanted, scalar, "{path}"),
    }
}

#[test]
fn the_types_keep_every_field_of_every_good_object() {
    for fixture in fixtures("good") {
        let object: Value = serde_yaml::from_str(&fixture.text).expect("yaml");
        let again = match object["kind"].as_str() {
            Some("PublicationCluster") => round_trip::<PublicationCluster>(&object),
            Some("ClusterPublication") => round_trip::<ClusterPublication>(&object),
            Some("PublicationVerdict") => round_trip::<PublicationVerdict>(&object),
            other => panic!("{}: kind {other:?}", fixture.name),
        };
        contains(&fixture.name, &again, &object);
    }
}

#[test]
fn defaults_of_a_minimal_cluster() {
    let cluster: PublicationCluster = serde_json::from_value(json!({
        "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "PublicationCluster", "metadata": {"name": "a"},
        "spec": {"clusterName": "main", "controlDatabase": "publication", "members": [{"endpoint": "https://a:1"}],
                 "auth": {"secretRef": {"name": "s"}}, "tls": {"caRef": {"name": "ca"}}}
    }))
    .expect("read");
    assert_eq!(cluster.spec.statement_timeout_seconds, 180);
    assert_eq!(cluster.spec.history, History { publication_ttl_seconds: 604_800, receipts_max: 200 });
    assert!(
        !cluster.spec.suspend
            && cluster.spec.access.is_empty()
            && cluster.spec.accept_authority_loss.is_empty()
    );
    assert!(!cluster.spec.declare.internal_replication && !cluster.spec.declare.no_retrying_proxy);
    let ca = cluster.spec.tls.and_then(|tls| tls.ca_ref).expect("ca");
    assert_eq!((ca.key.as_str(), ca.kind), ("ca.crt", api::CaRefKind::ConfigMap));
}

#[test]
fn row_bounds() {
    let rows = |exact, min, max| RowExpectation { exact, min, max }.bounds();
    assert_eq!(rows(Some(0), None, None), Some((0, Some(0))));
    assert_eq!(rows(None, Some(1), Some(2)), Some((1, Some(2))));
    assert_eq!(rows(None, Some(1), None), Some((1, None)));
    assert_eq!(rows(None, None, Some(2)), Some((0, Some(2))));
    // Whatever the schema refuses has no bounds, so nothing is admitted by mistake.
    for broken in [
        rows(None, None, None),
        rows(Some(1), Some(1), None),
        rows(Some(1), None, Some(1)),
        rows(None, Some(2), Some(1)),
        rows(Some(-1), None, None),
        rows(None, Some(-1), None),
        rows(None, Some(0), Some(-1)),
    ] {
        assert_eq!(broken, None);
    }
}

#[test]
fn access_is_by_pairs() {
    let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
    let named = |name: &str| DatabasePattern { name: Some(name.to_owned()), prefix: None };
    let same = AccessRule { namespaces: NamespacePolicy::default(), databases: vec![named("platform")] };
    assert!(same.admits("platform", "platform", &labels("x"), "platform"));
    assert!(!same.admits("platform", "shop", &labels("x"), "platform"));
    assert!(!same.admits("platform", "platform", &labels("x"), "platform2"));
    assert!(!same.namespaces.needs_labels());

    let selector = LabelSelector { match_labels: Some(labels("shop")), ..LabelSelector::default() };
    let policy = NamespacePolicy { from: NamespaceFrom::Selector, selector: Some(selector) };
    let prefix = DatabasePattern { name: None, prefix: Some("mart_".to_owned()) };
    let shop = AccessRule { namespaces: policy.clone(), databases: vec![named("shop"), prefix] };
    assert!(shop.namespaces.needs_labels());
    assert!(shop.admits("platform", "shop", &labels("shop"), "shop"));
    assert!(shop.admits("platform", "shop", &labels("shop"), "mart_a"));
    assert!(!shop.admits("platform", "shop", &labels("shop"), "mart"));
    assert!(!shop.admits("platform", "other", &labels("other"), "shop"));
    // The platform's own namespace gets nothing that is not written down.
    assert!(!shop.admits("platform", "platform", &BTreeMap::new(), "shop"));

    let everyone = NamespacePolicy { selector: Some(LabelSelector::default()), ..policy.clone() };
    assert!(AccessRule { namespaces: everyone, databases: vec![named("shop")] }.admits(
        "p",
        "any",
        &BTreeMap::new(),
        "shop"
    ));
    let nobody = NamespacePolicy { selector: None, ..policy };
    assert!(!AccessRule { namespaces: nobody, databases: vec![named("shop")] }.admits(
        "p",
        "any",
        &labels("shop"),
        "shop"
    ));
    let ambiguous = DatabasePattern { name: Some("shop".to_owned()), prefix: Some("shop".to_owned()) };
    assert!(!ambiguous.matches("shop") && !DatabasePattern::default().matches("shop"));
    let empty = DatabasePattern { name: None, prefix: Some(String::new()) };
    assert!(!empty.matches("shop"));
}

#[test]
fn words_are_camel_case_and_unique() {
    fn check(words: &[&str]) {
        for (i, word) in words.iter().enumerate() {
            assert!(
                word.chars().next().is_some_and(char::is_uppercase)
                    && word.chars().all(char::is_alphanumeric)
            );
            assert!(!words[..i].contains(word), "{word} twice");
        }
    }
    check(&Phase::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    check(&Classification::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    check(&ConditionType::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>());
    assert_eq!((Phase::ALL.len(), Classification::ALL.len()), (11, 10));
    assert_eq!(Phase::RetirePending.to_string(), "RetirePending");
    assert_eq!(String::from(Classification::CommittedPendingReceipt), "CommittedPendingReceipt");
}
