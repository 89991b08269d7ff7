//! The report of `plan`: its shape, as programs read it.

use serde::Serialize;

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Nothing stands against it.
    Admissible,
    /// This operation was performed already; it would not be performed again.
    Done,
    /// Somebody must change something.
    Blocked,
    /// It may become admissible by itself.
    Waiting,
    /// Something could not be read.
    Unknown,
}

impl Verdict {
    /// The exit code of the command.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Admissible | Self::Done => 0,
            Self::Blocked => 1,
            Self::Waiting => 2,
            Self::Unknown => 3,
        }
    }
}

/// Weight of a finding, heaviest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Somebody must change something.
    Block,
    /// It could not be read.
    Unknown,
    /// It may pass by itself.
    Wait,
    /// Shown, and nothing is held back by it.
    Warn,
    /// It was looked at, and is as it must be.
    Ok,
}

impl Level {
    /// As people see it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Block => "BLOCK",
            Self::Unknown => "UNKNOWN",
            Self::Wait => "WAIT",
            Self::Warn => "WARN",
            Self::Ok => "OK",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Its weight.
    pub level: Level,
    /// Public code, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The rule that is not met.
    pub rule: &'static str,
    /// The member it speaks of, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// What was found.
    pub message: String,
    /// What a person does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// A generation under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Generation {
    /// In a word: `absent`, the UUID, or what it is instead.
    pub is: String,
    /// Digest of its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What one member answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Replica number; none = not told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// Host and native port as in `system.clusters`, or the endpoint of one that did not answer.
    pub host: String,
    /// `serverUUID()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// `version()`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Under the target's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Generation>,
    /// Under the candidate's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Generation>,
    /// Rows of the candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Health of the candidate: `healthy`, or the first field that is not.
    pub health: String,
}

impl MemberView {
    /// How it is named to people, here and in every message.
    pub fn name(&self) -> String {
        match self.replica {
            Some(replica) => format!("{} (replica {replica})", self.host),
            None => self.host.clone(),
        }
    }
}

/// The target's slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotView {
    /// `free`, `held`, `underWay`, `over` or `unread`.
    pub standing: &'static str,
    /// A member did not answer: what is said of the slot is no evidence yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Operation of its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Namespace and name of that operation's object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Version of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// One statement, each sent once, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatementView {
    /// `publish`, `retire` or `drop`.
    pub step: &'static str,
    /// Its text.
    pub sql: String,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What it comes to.
    pub verdict: Verdict,
    /// Namespace and name of the object; the file, where none can be read from it.
    pub publication: String,
    /// Namespace and name of the PublicationCluster, with the cluster's own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Database and name; none = the manifest cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Database and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Expected rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// A-2; none while no object and no `invocationId` identify the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotView>,
    /// By replica number.
    pub members: Vec<MemberView>,
    /// Heaviest first.
    pub findings: Vec<Note>,
    /// What would run.
    pub statements: Vec<StatementView>,
}
