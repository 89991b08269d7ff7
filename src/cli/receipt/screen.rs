//! A receipt, and what is said of one, for people.

use super::report::{Report, Verdict};
use crate::cli::output::{columns, wrapped};
use k8s_openapi::jiff::Timestamp;
use publication_protocol::phase::Phase;
use publication_protocol::receipt::{Account, Document, Identity, Look, Observed, Sent};

const WIDTH: usize = 110;

/// The whole receipt.
pub fn document(document: &Document) -> String {
    let account = &document.account;
    let names = &account.names;
    let mut out = format!("{}.{}: {}\n", names.database, names.target, account.phase);
    out.push_str(&columns("  ", &heading(document)));
    out.push_str("\nStatements\n");
    out.push_str(&columns("  ", &statements(account)));
    if let Some(observed) = &document.observed {
        out.push_str("\nMembers\n");
        out.push_str(&columns("  ", &members(document, observed)));
    }
    out.push_str("\nHistory\n");
    out.push_str(&columns("  ", &history(&document.history)));
    out
}

fn heading(document: &Document) -> Vec<[String; 2]> {
    let account = &document.account;
    let owner = &account.owner;
    let verdicts: Vec<&str> = account.verdicts.iter().map(|verdict| verdict.decision.as_str()).collect();
    let rows = [
        ("publication", format!("{}/{}", owner.namespace, owner.name)),
        ("candidate", account.names.candidate.clone()),
        ("rows", account.row_count.to_string()),
        ("operation", account.operation.to_string()),
        ("record", format!("version {}, account {}", document.record_version, document.account_digest)),
        ("digest", document.digest.to_string()),
        ("verdicts", verdicts.join(", ")),
        ("error", account.error.clone().unwrap_or_default()),
        ("operator", document.operator_version.clone()),
    ];
    let told = rows.into_iter().filter(|(_, value)| !value.is_empty());
    told.map(|(name, value)| [name.to_owned(), value]).collect()
}

fn statements(account: &Account) -> Vec<[String; 6]> {
    let heading = ["EPOCH", "ACTION", "FROM", "TO", "ENTRY", "CODES"];
    let row = |sent: &Sent| {
        let codes = sent.result.as_ref().map(|result| match result.folded {
            Some(_) => "digest only".to_owned(),
            None => result.codes.values().map(u32::to_string).collect::<Vec<_>>().join(" "),
        });
        [
            sent.epoch.to_string(),
            sent.action.as_str().to_owned(),
            sent.from.clone(),
            sent.to.clone().unwrap_or_else(|| "-".to_owned()),
            sent.entry.as_ref().map_or_else(|| "-".to_owned(), |binding| binding.entry.clone()),
            codes.unwrap_or_else(|| "-".to_owned()),
        ]
    };
    std::iter::once(heading.map(str::to_owned)).chain(account.dispatches.iter().map(row)).collect()
}

fn members(document: &Document, observed: &Observed) -> Vec<[String; 5]> {
    let heading = ["MEMBER", "STATE", "BEFORE", "AFTER", "SERVER"];
    let uuid = |identity: &Option<Identity>| {
        identity.as_ref().map_or_else(|| "-".to_owned(), |identity| identity.uuid.to_string())
    };
    let row = |seen: &publication_protocol::receipt::SeenMember| {
        let member = document.account.members.iter().find(|m| m.server_uuid == seen.server_uuid);
        let version = document.server_versions.get(&seen.server_uuid);
        [
            member
                .map_or_else(|| seen.server_uuid.to_string(), publication_protocol::inventory::Member::name),
            seen.state.clone(),
            uuid(&seen.before),
            uuid(&seen.after),
            version.cloned().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    std::iter::once(heading.map(str::to_owned)).chain(observed.members.iter().map(row)).collect()
}

fn history(looks: &[Look]) -> Vec<[String; 4]> {
    let heading = ["TIME", "VERSION", "PHASE", "CLASSIFICATION"];
    let row = |look: &Look| {
        let class = look.classification.as_deref().unwrap_or("-");
        let said = look.cause.as_ref().map_or_else(|| class.to_owned(), |cause| format!("{class} ({cause})"));
        [time(look.at_ms), look.version.to_string(), look.phase.to_string(), said]
    };
    std::iter::once(heading.map(str::to_owned)).chain(looks.iter().map(row)).collect()
}

fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or_else(|| ms.to_string(), |time| time.to_string())
}

/// Whether it holds, and why not.
pub fn report(report: &Report) -> String {
    let completed = report.receipt.as_ref().is_some_and(|told| told.phase == Phase::Completed.as_str());
    let mut out = match (report.verdict, report.live) {
        (Verdict::Holds, false) => "HOLDS: digests, steps, order and identities fit together\n".to_owned(),
        (Verdict::Holds, true) if completed => {
            "HOLDS: Keeper says the same, and every member serves what was published\n".to_owned()
        }
        (Verdict::Holds, true) => "HOLDS: Keeper says the same\n".to_owned(),
        (Verdict::Refused, _) => "REFUSED: this receipt is not to be trusted\n".to_owned(),
        (Verdict::Drifted, _) => "DRIFTED: the receipt holds, and the cluster has gone on since\n".to_owned(),
    };
    if let Some(told) = &report.receipt {
        let rows = [
            ("target", told.target.clone()),
            ("ended", told.phase.clone()),
            ("operation", told.operation.clone()),
            ("record", format!("version {}, account {}", told.record_version, told.account_digest)),
        ];
        out.push_str(&columns("  ", &rows.map(|(name, value)| [name.to_owned(), value])));
    }
    for finding in &report.findings {
        out.push_str(&wrapped("  ", &format!("{}: {}", finding.name, finding.message), WIDTH));
    }
    if report.verdict == Verdict::Holds && !report.live {
        out.push_str("  That Keeper says the same is seen with --live.\n");
    }
    out
}
