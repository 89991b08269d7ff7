//! The manifest of `plan`: read strictly, since the API server is not asked.

use crate::api::{self, ClusterPublication};
use crate::cluster_access::{invocation, names, rows};
use publication_protocol::admission::Finding;
use publication_protocol::code::ErrorCode;
use serde::Deserialize;
use serde_json::Value;

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
    serde_json::from_value(value.clone()).map_err(|e| vec![invalid(format!("spec: {e}"))])
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
