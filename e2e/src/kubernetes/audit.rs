//! The API server's own log of who asked for what: the proof behind the budgets on API calls.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Result};

/// Metadata of every request on our group, on events and on leases; nothing else.
pub(super) const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  resources:
  - group: clickhouse.dpone.dev
  - group: events.k8s.io
  - group: coordination.k8s.io
  - group: ''
    resources: [secrets, configmaps, namespaces, events]
- level: None
";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCall {
    pub user: String,
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub code: u16,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    user: Named,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: Status,
    stage: String,
}

#[derive(Debug, Deserialize)]
struct Named {
    #[serde(default)]
    username: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// Finished calls (a watch counts once, when it begins), oldest first.
pub(super) fn read(path: &Path) -> Result<Vec<ApiCall>> {
    let text = std::fs::read_to_string(path).context(format!("read {}", path.display()))?;
    let mut calls = Vec::new();
    // The last line may be half written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let line: Line = serde_json::from_str(line).context("a line of the audit log")?;
        let wanted = if line.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if line.stage == wanted {
            calls.push(ApiCall {
                user: line.user.username,
                verb: line.verb,
                group: line.object_ref.api_group,
                resource: line.object_ref.resource,
                subresource: line.object_ref.subresource,
                namespace: line.object_ref.namespace,
                name: line.object_ref.name,
                code: line.response_status.code,
            });
        }
    }
    Ok(calls)
}
