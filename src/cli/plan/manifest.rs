//! The manifest of `plan`: read strictly, since the API server is not asked.

use crate::api::{self, ClusterPublication, ClusterPublicationSpec};
use crate::cluster_access::{invocation, names, rows};
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

const KIND: &str = "ClusterPublication";
const SPEC_FIELDS: [&str; 7] =
    ["clusterRef", "database", "target", "candidate", "rows", "invocationId", "admissionDeadlineSeconds"];
const DEADLINE_SECONDS_MAX: i64 = 2_592_000;

/// The one ClusterPublication of a YAML or JSON text; other documents in it are passed over.
///
/// # Errors
/// `SPEC_INVALID`, naming field and rule.
pub fn parse(text: &str) -> Result<ClusterPublication, Vec<Finding>> {
    let mut found = Vec::new();
    for document in serde_yaml::Deserializer::from_str(text) {
        let value = Value::deserialize(document).map_err(|e| vec![invalid(format!("the file: {e}"))])?;
        if value["kind"] == KIND {
            found.push(value);
        }
    }
    let [value] = found.as_slice() else {
        return Err(vec![invalid(format!("the file: {} objects of kind {KIND}, one expected", found.len()))]);
    };
    let version = format!("{}/{}", api::GROUP, api::VERSION);
    if value["apiVersion"] != version.as_str() {
        return Err(vec![invalid(format!("apiVersion: must be {version}"))]);
    }
    let fields = value["spec"].as_object().into_iter().flatten().map(|(field, _)| field);
    if let Some(unknown) = fields.into_iter().find(|field| !SPEC_FIELDS.contains(&field.as_str())) {
        return Err(vec![invalid(format!("spec.{unknown}: there is no such field"))]);
    }
    serde_json::from_value(value.clone()).map_err(|error| {
        let fields = wrong_fields(&value["spec"]);
        if fields.is_empty() { vec![invalid(format!("the object: {error}"))] } else { fields }
    })
}

/// serde does not say where it stopped: each field is tried by itself among good ones.
fn wrong_fields(spec: &Value) -> Vec<Finding> {
    let good =
        json!({"clusterRef": {"name": "a"}, "database": "a", "target": "a", "candidate": "a", "rows": {}});
    let reads = |spec: &Value| serde_json::from_value::<ClusterPublicationSpec>(spec.clone());
    let required = good.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let missing = required.filter(|field| spec.get(field).is_none());
    let missing = missing.map(|field| invalid(format!("spec.{field}: is missing")));
    let wrong = spec.as_object().into_iter().flatten().filter_map(|(field, value)| {
        let mut tried = good.clone();
        tried[field] = value.clone();
        reads(&tried).err().map(|error| invalid(format!("spec.{field}: {error}")))
    });
    missing.chain(wrong).collect()
}

/// Everything that a manifest can have wrong by itself.
pub fn check(object: &ClusterPublication) -> Vec<Finding> {
    // The cluster's name is checked where it comes from.
    let names = names(object, "cluster").err();
    let deadline = object.spec.admission_deadline_seconds;
    let deadline = deadline.filter(|seconds| !(1..=DEADLINE_SECONDS_MAX).contains(seconds));
    let deadline =
        deadline.map(|_| invalid(format!("admissionDeadlineSeconds: must be 1 to {DEADLINE_SECONDS_MAX}")));
    names.into_iter().chain(rows(object).err()).chain(invocation(object).err()).chain(deadline).collect()
}

fn invalid(message: String) -> Finding {
    Finding::block(ErrorCode::SpecInvalid, "api", message)
}
