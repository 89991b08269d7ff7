//! What `verify-receipt` says, as data.

use publication_protocol::receipt::{Document, Flaw, Live};
use serde::Serialize;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Nothing is wrong with it.
    Holds,
    /// It was changed, or tells what cannot be.
    Refused,
    /// It holds, and the cluster is no longer as it tells.
    Drifted,
}

/// The answer, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The answer.
    pub verdict: Verdict,
    /// Database, target and how it ended; none = not even that can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Told>,
    /// Keeper and the members were asked.
    pub live: bool,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// What the receipt is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Database and name.
    pub target: String,
    /// The operation.
    pub operation: String,
    /// How it ended, or where it stands.
    pub phase: String,
    /// `_version` of the record that it tells of.
    pub record_version: u64,
    /// What Keeper holds of it.
    pub account_digest: String,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable.
    pub name: &'static str,
    /// For people.
    pub message: String,
}

impl Report {
    /// It is no receipt.
    pub fn unreadable(flaw: &Flaw) -> Self {
        Self { verdict: Verdict::Refused, receipt: None, live: false, findings: findings([flaw]) }
    }

    /// From itself alone.
    pub fn offline(document: &Document, flaws: &[Flaw]) -> Self {
        let verdict = if flaws.is_empty() { Verdict::Holds } else { Verdict::Refused };
        Self { verdict, receipt: Some(told(document)), live: false, findings: findings(flaws) }
    }

    /// It holds by itself, and this is what the cluster says.
    pub fn live(document: &Document, found: &Live) -> Self {
        let Live { contradicted, drifted } = found;
        let verdict = match (contradicted.is_empty(), drifted.is_empty()) {
            (false, _) => Verdict::Refused,
            (true, false) => Verdict::Drifted,
            (true, true) => Verdict::Holds,
        };
        let all = contradicted.iter().chain(drifted);
        Self { verdict, receipt: Some(told(document)), live: true, findings: findings(all) }
    }
}

fn told(document: &Document) -> Told {
    let account = &document.account;
    Told {
        target: format!("{}.{}", account.names.database, account.names.target),
        operation: account.operation.to_string(),
        phase: account.phase.to_string(),
        record_version: document.record_version,
        account_digest: document.account_digest.to_string(),
    }
}

fn findings<'a>(flaws: impl IntoIterator<Item = &'a Flaw>) -> Vec<Finding> {
    let one = |flaw: &Flaw| Finding { name: flaw.name, message: flaw.message.clone() };
    flaws.into_iter().map(one).collect()
}
