//! What `status` shows of an object: its status in the order in which a person asks.

use crate::api::{ClusterPublication, ClusterPublicationStatus, Outcome, ReplicaStatus, StatementStatus};
use crate::cli::pages::{find, remedy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde::Serialize;

/// One object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// Namespace and name.
    pub publication: String,
    /// Database and name.
    pub target: String,
    /// Database and name.
    pub candidate: String,
    /// Final, blocked, or none while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Of the last observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classification: Option<String>,
    /// Why it is unknown or blocked, or does not progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Identity of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What a verdict must quote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence_digest: Option<String>,
    /// As `2/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_committed: Option<String>,
    /// By replica number.
    pub replicas: Vec<ReplicaStatus>,
    /// The publishing statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publication_statement: Option<StatementStatus>,
    /// The latest statement of the cleanup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup_statement: Option<StatementStatus>,
    /// Why it waits, is blocked or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// Sorted by type.
    pub conditions: Vec<ConditionView>,
    /// When the operator first saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When the publishing statement was dispatched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispatched: Option<Time>,
    /// When the outcome became final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<Time>,
}

/// The error of a status, with what a person does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorView {
    /// Stable code.
    pub code: String,
    /// What was found.
    pub message: String,
    /// From the code's page; none for a code of a newer operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionView {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// CamelCase.
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl View {
    /// Of an object, whether or not the operator has seen it yet.
    pub fn of(object: &ClusterPublication) -> Self {
        let ClusterPublicationStatus {
            outcome,
            phase,
            classification,
            cause,
            operation_id,
            evidence_digest,
            publication,
            cleanup,
            replicas_committed,
            replicas,
            error,
            start_time,
            dispatch_time,
            completion_time,
            conditions,
            ..
        } = object.status.clone().unwrap_or_default();
        let spec = &object.spec;
        let conditions = conditions.into_iter().map(|c| ConditionView {
            kind: c.type_,
            status: c.status,
            reason: c.reason,
            message: c.message,
        });
        Self {
            publication: format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()),
            target: format!("{}.{}", spec.database, spec.target),
            candidate: format!("{}.{}", spec.database, spec.candidate),
            outcome,
            phase,
            classification,
            cause,
            operation: operation_id,
            evidence_digest,
            replicas_committed,
            replicas,
            publication_statement: publication,
            cleanup_statement: cleanup,
            error: error.map(|error| ErrorView {
                remedy: find(&error.code).map(|code| remedy(code, &error.message)),
                code: error.code,
                message: error.message,
            }),
            conditions: conditions.collect(),
            started: start_time,
            dispatched: dispatch_time,
            completed: completion_time,
        }
    }

    /// Nothing about it will change any more.
    pub fn is_final(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Succeeded | Outcome::Failed))
    }
}
