//! The report for people.

use super::report::{Check, MemberView, Report, Step, Verdict};
use crate::cli::output::{columns, wrapped};
use crate::cli::plan::report::Level;

const WIDTH: usize = 110;
const SHOWN: usize = 8;

/// The whole screen.
pub fn table(report: &Report) -> String {
    let mut out = report.cluster.clone();
    if let (Some(name), Some(database)) = (&report.cluster_name, &report.control_database) {
        out.push_str(&format!(": cluster {name}, control database {database}"));
    }
    out.push('\n');
    if !report.members.is_empty() {
        out.push_str("\nMembers\n");
        out.push_str(&columns("  ", &member_rows(&report.members)));
    }
    let (good, found): (Vec<&Check>, Vec<&Check>) =
        report.checks.iter().partition(|check| check.level == Level::Ok);
    out.push_str("\nFindings\n");
    if found.is_empty() {
        out.push_str("  none\n");
    }
    found.iter().for_each(|check| out.push_str(&finding(check)));
    if !good.is_empty() {
        out.push_str("\nAs it must be\n");
        let row = |check: &&Check| [check.rule.to_owned(), check.check.to_owned(), check.evidence.clone()];
        out.push_str(&columns("  ", &good.iter().map(row).collect::<Vec<_>>()));
    }
    if !report.unchecked.is_empty() {
        let what = format!("Not looked at, because of the findings: {}.", report.unchecked.join(", "));
        out.push('\n');
        out.push_str(&wrapped("", &what, WIDTH));
    }
    if let Some(steps) = &report.self_test {
        out.push_str("\nThe self-test ran, each statement once, in this order\n");
        steps.iter().for_each(|step| out.push_str(&ran(step)));
    }
    out.push_str(&format!("\n{}\n", closing(report)));
    out
}

fn closing(report: &Report) -> String {
    let text = match report.verdict {
        Verdict::Healthy => "Healthy: nothing here refuses a publication; what is marked WARN may delay one.",
        Verdict::Blocked => "Blocked: somebody must change what is marked BLOCK.",
        Verdict::Waiting => "Waiting: it may become healthy by itself.",
        Verdict::Unknown => "Could not tell: what is marked UNKNOWN could not be read.",
    };
    let written = if report.self_test.as_ref().is_some_and(|steps| !steps.is_empty()) {
        "Nothing was written but the self-test's scratch tables."
    } else {
        "Nothing was written."
    };
    format!("{text} {written} (exit code {})", report.verdict.exit_code())
}

fn finding(check: &Check) -> String {
    let code = check.code.map(|code| format!(" {code}")).unwrap_or_default();
    let mut text = format!("  {}{code} ({}) {}\n", check.level.word(), check.rule, check.check);
    text.push_str(&wrapped("      ", &check.evidence, WIDTH));
    if let Some(remedy) = &check.remedy {
        text.push_str(&wrapped("      ", &format!("-> {remedy}"), WIDTH));
    }
    text
}

fn ran(step: &Step) -> String {
    let mut text = wrapped("  ", &step.sql, WIDTH);
    text.push_str(&format!("      at {}: {}\n", step.sent_to, step.outcome));
    text
}

fn member_rows(members: &[MemberView]) -> Vec<[String; 6]> {
    let heading = ["MEMBER", "ENDPOINT", "SERVER", "VERSION", "CONTROL DB", "FACADE"].map(str::to_owned);
    let row = |member: &MemberView| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [
            member.member.clone(),
            member.endpoint.clone(),
            short(&or_dash(&member.server)),
            or_dash(&member.version),
            or_dash(&member.control_database),
            short(&or_dash(&member.facade)),
        ]
    };
    std::iter::once(heading).chain(members.iter().map(row)).collect()
}

/// As far as eyes compare it.
fn short(id: &str) -> String {
    let long = id.len() > 2 * SHOWN && !id.contains(' ');
    if long { format!("{}…", id.chars().take(SHOWN).collect::<String>()) } else { id.to_owned() }
}
