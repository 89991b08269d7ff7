//! The Kubernetes API: three kinds, split by who writes them.
//!
//! `PublicationCluster` is the platform's, `ClusterPublication` the author's, `PublicationVerdict` the
//! adjudicator's. Doc comments here become the descriptions in the CRDs, so they speak to those people.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResourceExt;

pub mod manifests;
pub mod v1alpha1;
pub mod vocabulary;

pub use v1alpha1::*;
pub use vocabulary::{Classification, ConditionType, MemberState, Phase, StatementResult};

/// The API group. The derive macros need it as a literal, so a test ties the two together.
pub const GROUP: &str = "clickhouse.dpone.dev";

/// The only served version.
pub const VERSION: &str = "v1alpha1";

/// Finalizer of a `ClusterPublication`: the object stays until its slot is released or resolved.
pub const FINALIZER: &str = "clickhouse.dpone.dev/slot";

/// Finalizer of a `PublicationCluster`: the object stays while unresolved publications use it.
pub const IN_USE_FINALIZER: &str = "clickhouse.dpone.dev/in-use";

/// Annotation on a `PublicationCluster`: the operation ids (comma-separated) whose objects may go although
/// they are unresolved. The Keeper record stays in any case.
pub const ORPHAN_ANNOTATION: &str = "clickhouse.dpone.dev/orphan";

/// The three CRDs as they are installed; use these rather than `T::crd()`.
///
/// # Errors
/// When a generated definition is not valid JSON, which would be a defect of this build.
pub fn crds() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    [PublicationCluster::crd(), ClusterPublication::crd(), PublicationVerdict::crd()]
        .into_iter()
        .map(without_nullable)
        .collect()
}

/// Whether a condition is true.
pub fn is_true(conditions: &[Condition], kind: ConditionType) -> bool {
    conditions.iter().any(|c| c.type_ == kind.as_str() && c.status == "True")
}

/// An optional field is absent or has a value. Without `nullable` the API server drops an explicit null
/// and applies the default, so no CEL rule and no reader ever meets one.
fn without_nullable(crd: CustomResourceDefinition) -> Result<CustomResourceDefinition, serde_json::Error> {
    let mut value = serde_json::to_value(crd)?;
    strip_nullable(&mut value);
    serde_json::from_value(value)
}

fn strip_nullable(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => {
            if map.get("nullable").is_some_and(serde_json::Value::is_boolean) {
                map.remove("nullable");
            }
            map.values_mut().for_each(strip_nullable);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(strip_nullable),
        _ => {}
    }
}
