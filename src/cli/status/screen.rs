//! The status for people.

use super::view::{ConditionView, View};
use crate::api::{ReplicaStatus, StatementStatus};
use crate::cli::output::{columns, wrapped};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const WIDTH: usize = 110;

/// The whole screen.
pub fn table(view: &View) -> String {
    let mut out = format!("{}: {} becomes {}\n", view.publication, view.candidate, view.target);
    out.push_str(&columns("  ", &heading(view)));
    if !view.replicas.is_empty() {
        let committed = view.replicas_committed.as_deref().unwrap_or("-");
        out.push_str(&format!("\nReplicas ({committed} published)\n"));
        out.push_str(&columns("  ", &replica_rows(&view.replicas)));
    }
    if let Some(error) = &view.error {
        out.push_str(&format!("\n{}\n", error.code));
        out.push_str(&wrapped("  ", &error.message, WIDTH));
        if let Some(remedy) = &error.remedy {
            out.push_str(&wrapped("  ", &format!("-> {remedy}"), WIDTH));
            out.push_str(&format!("  More: publication-operator explain {}\n", error.code));
        }
    }
    if let Some((cause, message)) = stuck(view) {
        out.push_str(&format!("\nDoes not progress: {cause}\n"));
        out.push_str(&wrapped("  ", message, WIDTH));
        out.push_str("  More: docs/stuck.md\n");
    }
    if !view.conditions.is_empty() {
        out.push_str("\nConditions\n");
        out.push_str(&columns("  ", &condition_rows(view)));
    }
    out
}

fn heading(view: &View) -> Vec<[String; 2]> {
    let statement = |statement: &StatementStatus| {
        let entry = statement.entry.as_deref().unwrap_or("no entry bound");
        let result = statement.result.as_deref().unwrap_or("-");
        format!("{entry}  {result}")
    };
    let classification = view.classification.as_ref().map(|class| match &view.cause {
        Some(cause) => format!("{class} ({cause})"),
        None => class.clone(),
    });
    let outcome = view.outcome.map_or_else(|| "-".to_owned(), |outcome| format!("{outcome:?}"));
    let rows = [
        ("outcome", Some(outcome)),
        ("phase", Some(view.phase.clone().unwrap_or_else(|| no_phase(view)))),
        ("classification", classification),
        ("publication", view.publication_statement.as_ref().map(statement)),
        ("cleanup", view.cleanup_statement.as_ref().map(statement)),
        ("operation", view.operation.clone()),
        ("evidence", view.evidence_digest.clone()),
        ("started", time(view.started.as_ref())),
        ("dispatched", time(view.dispatched.as_ref())),
        ("completed", time(view.completed.as_ref())),
    ];
    rows.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?])).collect()
}

fn no_phase(view: &View) -> String {
    let unseen = view.started.is_none() && view.conditions.is_empty();
    if unseen { "not seen by the operator yet" } else { "none: it holds no slot" }.to_owned()
}

fn time(time: Option<&Time>) -> Option<String> {
    time.map(|time| time.0.to_string())
}

fn replica_rows(replicas: &[ReplicaStatus]) -> Vec<[String; 5]> {
    let heading = ["MEMBER", "STATE", "STATEMENT", "CODE", "MESSAGE"];
    let row = |replica: &ReplicaStatus| {
        [
            format!("{}:{} (replica {})", replica.host, replica.port, replica.replica),
            replica.state.clone(),
            replica.statement.clone().unwrap_or_else(|| "-".to_owned()),
            replica.exception_code.map_or_else(|| "-".to_owned(), |code| code.to_string()),
            replica.message.clone().unwrap_or_default(),
        ]
    };
    std::iter::once(heading.map(str::to_owned)).chain(replicas.iter().map(row)).collect()
}

/// Cause and message of a statement that is waited for longer than it should take; an error is shown as such.
fn stuck(view: &View) -> Option<(&str, &str)> {
    let cause = view.cause.as_deref().filter(|_| view.error.is_none())?;
    let said = view.conditions.iter().find(|c| c.kind == "Reconciling" && c.reason == cause)?;
    Some((cause, &said.message))
}

fn condition_rows(view: &View) -> Vec<[String; 4]> {
    let heading = ["TYPE", "STATUS", "REASON", "MESSAGE"];
    let above = stuck(view).map(|(_, message)| message);
    let row = |c: &ConditionView| {
        let message = if Some(c.message.as_str()) == above { "as above" } else { &c.message };
        [c.kind.clone(), c.status.clone(), c.reason.clone(), message.to_owned()]
    };
    std::iter::once(heading.map(str::to_owned)).chain(view.conditions.iter().map(row)).collect()
}
