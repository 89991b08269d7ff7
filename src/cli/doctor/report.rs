//! The report of `doctor`: its shape, as programs read it.

use crate::cli::plan::report::Level;
use serde::Serialize;

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// The cluster holds no publication up.
    Healthy,
    /// Somebody must change something.
    Blocked,
    /// It may become healthy by itself.
    Waiting,
    /// Something could not be read.
    Unknown,
}

impl Verdict {
    /// The exit code of the command: as `plan` has them.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Healthy => 0,
            Self::Blocked => 1,
            Self::Waiting => 2,
            Self::Unknown => 3,
        }
    }

    pub(super) fn of(checks: &[Check]) -> Self {
        match checks.iter().map(|check| check.level).min() {
            Some(Level::Block) => Self::Blocked,
            Some(Level::Unknown) => Self::Unknown,
            Some(Level::Wait) => Self::Waiting,
            Some(Level::Warn | Level::Ok) => Self::Healthy,
            None => Self::Unknown,
        }
    }
}

/// One thing that was looked at, or what was found wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Its weight.
    pub level: Level,
    /// What was looked at.
    pub check: &'static str,
    /// The rule that asks for it.
    pub rule: &'static str,
    /// Public code, where something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The member it speaks of, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// What was found.
    pub evidence: String,
    /// What a person does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What one endpoint showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// How it is named to people; the endpoint of one that did not answer.
    pub member: String,
    /// Host and port of `spec.members`.
    pub endpoint: String,
    /// `serverUUID()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `version()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Engine of the control database, or that there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_database: Option<String>,
    /// Root id of its facade, or what it is instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facade: Option<String>,
}

/// One statement of the self-test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its text.
    pub sql: String,
    /// The member that it was sent to, once.
    pub sent_to: String,
    /// What came of it.
    pub outcome: String,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it comes to.
    pub verdict: Verdict,
    /// Namespace and name of the PublicationCluster.
    pub cluster: String,
    /// Its name in `system.clusters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// Where the facade is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_database: Option<String>,
    /// One for each endpoint.
    pub members: Vec<MemberView>,
    /// Heaviest first.
    pub checks: Vec<Check>,
    /// What could not be looked at because of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchecked: Vec<&'static str>,
    /// What the self-test ran, in this order; none = it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_test: Option<Vec<Step>>,
}
