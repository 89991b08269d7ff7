//! The CRDs in the tree are those the types give, and what the types promise is really in them.

// clippy.toml exempts test functions only, not the helpers next to them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::{env, fs};

use publication_operator::api::{self, manifests};
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// `besides` is there for kustomize; Helm would install it.
fn compare(dir: &Path, besides: &[&str]) {
    let files = manifests::crd_files().expect("render");
    if env::var_os("UPDATE_CRDS").is_some() {
        manifests::write_crds(dir).expect("write");
    }
    let relative = dir.strip_prefix(root()).expect("inside the repository").display();
    for file in &files {
        let found = fs::read_to_string(dir.join(&file.name)).unwrap_or_default();
        assert!(
            found == file.content,
            "{relative}/{} differs from the types in src/api: run `cargo run -- crds --out {relative}` \
             (or UPDATE_CRDS=1 cargo test -p publication-operator --test api_crds)",
            file.name
        );
    }
    let mut names: Vec<_> = fs::read_dir(dir)
        .expect("directory")
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| !besides.contains(&name.as_str()) && !files.iter().any(|file| file.name == *name));
    assert!(names.is_empty(), "{relative} holds files of no kind: {names:?}");
}

#[test]
fn crds_directory_is_generated_from_the_types() {
    compare(&root().join("crds"), &["kustomization.yaml"]);
}

#[test]
fn chart_crds_are_generated_from_the_types() {
    compare(&root().join("charts/publication-operator/crds"), &[]);
}

fn crds() -> Vec<Value> {
    api::crds().expect("crds").iter().map(|crd| serde_json::to_value(crd).expect("json")).collect()
}

#[test]
fn names_scope_and_subresources() {
    let names: Vec<_> = crds()
        .iter()
        .map(|crd| {
            assert_eq!(crd["spec"]["group"], api::GROUP);
            assert_eq!(crd["spec"]["scope"], "Namespaced");
            let versions = crd["spec"]["versions"].as_array().unwrap();
            assert_eq!(versions.len(), 1);
            assert_eq!(versions[0]["name"], api::VERSION);
            assert_eq!(versions[0]["subresources"], json!({"status": {}}));
            (
                crd["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
                crd["spec"]["names"]["shortNames"][0].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let expected =
        [("PublicationCluster", "pubc"), ("ClusterPublication", "cpub"), ("PublicationVerdict", "pubv")];
    assert_eq!(names, expected.map(|(kind, short)| (kind.to_owned(), short.to_owned())));
}

/// Calls `check` with the path of every schema node.
fn walk(path: &str, schema: &Value, check: &mut impl FnMut(&str, &Value)) {
    check(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, child) in properties {
            walk(&format!("{path}.{name}"), child, check);
        }
    }
    if schema["items"].is_object() {
        walk(&format!("{path}[]"), &schema["items"], check);
    }
}

fn walk_all(mut check: impl FnMut(&str, &Value)) {
    for crd in crds() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut check);
    }
}

#[test]
fn every_field_is_documented() {
    let mut missing = Vec::new();
    walk_all(|path, schema| {
        // An item is described by its list; `metadata` is Kubernetes' own.
        if !path.ends_with("[]")
            && !path.ends_with(".metadata")
            && schema["description"].as_str().is_none_or(str::is_empty)
        {
            missing.push(path.to_owned());
        }
    });
    assert!(missing.is_empty(), "no description: {missing:#?}");
}

#[test]
fn everything_is_bounded() {
    let mut unbounded = Vec::new();
    walk_all(|path, schema| {
        // Types of Kubernetes itself bound their own content.
        if path.contains(".conditions[]") || path.contains(".selector.") || path.contains(".metadata") {
            return;
        }
        let closed = schema.get("enum").is_some() || schema.get("format").is_some();
        if schema["type"] == "string" && !closed && schema.get("maxLength").is_none() {
            let names_a_kind = path.ends_with(".kind") || path.ends_with(".apiVersion");
            if !names_a_kind {
                unbounded.push(path.to_owned());
            }
        }
        if schema["type"] == "array" && schema.get("maxItems").is_none() {
            unbounded.push(path.to_owned());
        }
    });
    assert!(unbounded.is_empty(), "no maximum: {unbounded:#?}");
}

#[test]
fn nothing_is_nullable_and_numbers_are_int32_or_int64() {
    walk_all(|path, schema| {
        assert!(schema.get("nullable").is_none(), "{path} is nullable");
        assert!(schema.get("anyOf").is_none() && schema.get("oneOf").is_none(), "{path} is not structural");
        if schema["type"] == "integer" {
            assert!(
                schema["format"] == "int64" || schema["format"] == "int32",
                "{path}: {}",
                schema["format"]
            );
        }
    });
}

#[test]
fn conditions_are_maps_by_type_and_members_by_endpoint() {
    let mut maps = Vec::new();
    walk_all(|path, schema| {
        if schema["x-kubernetes-list-type"] == "map" {
            maps.push(format!("{path} by {}", schema["x-kubernetes-list-map-keys"][0].as_str().unwrap()));
        }
    });
    maps.sort();
    assert_eq!(
        maps,
        [
            "ClusterPublication.status.conditions by type",
            "PublicationCluster.spec.members by endpoint",
            "PublicationCluster.status.conditions by type",
            "PublicationVerdict.status.conditions by type",
        ]
    );
}

#[test]
fn every_rule_names_its_field_and_a_remedy() {
    let mut rules = 0;
    walk_all(|path, schema| {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or_default();
            // "field: what is wrong: what to do", or "field is immutable: what to do".
            assert!(message.contains(": "), "{path}: {rule}");
            assert!(!message.contains('\n') && message.len() <= 256, "{path}: {message}");
            rules += 1;
        }
    });
    assert!(rules >= 20, "only {rules} rules");
}

#[test]
fn printer_columns() {
    let columns: Vec<String> = crds()
        .iter()
        .map(|crd| {
            let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
            let text = columns.iter().map(|c| {
                let wide = if c["priority"] == 1 { " (wide)" } else { "" };
                format!("{}{wide}", c["name"].as_str().unwrap())
            });
            text.collect::<Vec<_>>().join(", ")
        })
        .collect();
    assert_eq!(
        columns,
        [
            "Cluster, Ready, Reason, Suspended, Age, Control-DB (wide), Root (wide)",
            "Target, Phase, Outcome, Replicas, Reason, Age, Classification (wide), Operation (wide), Entry (wide), Error (wide)",
            "Decision, Database, Target, Applied, Refused, Age, Operation (wide)",
        ]
    );
}
