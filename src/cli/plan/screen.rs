//! The report for people.

use super::report::{Generation, MemberView, Note, Report, SlotView, Verdict};
use crate::cli::output::{columns, wrapped};

const WIDTH: usize = 110;
const UUID_SHOWN: usize = 8;

/// The whole screen.
pub fn table(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    if let (Some(candidate), Some(target)) = (&report.candidate, &report.target) {
        let cluster = report.cluster.as_deref().unwrap_or("an unknown cluster");
        line(format!("{} on {cluster}", report.publication));
        let rows = report.rows.as_ref().map(|rows| format!(", rows: {rows}")).unwrap_or_default();
        line(format!("  {candidate} becomes {target}{rows}"));
    } else {
        line(format!("{}: no ClusterPublication can be read from it", report.publication));
    }
    if let Some(operation) = &report.operation {
        line(format!("  operation {}", short(operation)));
    }
    if let Some(slot) = &report.slot {
        let partial = if slot.partial { " (not every member could read it)" } else { "" };
        line(format!("  slot {}{partial}", slot_line(slot)));
    }
    if !report.members.is_empty() {
        line("\nMembers".to_owned());
        line(columns("  ", &member_rows(&report.members)));
    }
    line("\nFindings".to_owned());
    if report.findings.is_empty() {
        line("  none".to_owned());
    }
    for note in &report.findings {
        line(finding(note));
    }
    if !report.statements.is_empty() {
        line("\nStatements that would run, in this order; the first is never repeated".to_owned());
        let rows: Vec<[String; 2]> =
            report.statements.iter().map(|s| [s.step.to_owned(), s.sql.clone()]).collect();
        line(columns("  ", &rows));
    }
    line(format!("\n{}", closing(report.verdict)));
    out
}

fn closing(verdict: Verdict) -> String {
    let text = match verdict {
        Verdict::Admissible => "Admissible: nothing stands against it.",
        Verdict::Done => "Done already: this operation was performed, and would not be performed again.",
        Verdict::Blocked => "Blocked: somebody must change what is marked BLOCK.",
        Verdict::Waiting => "Waiting: it may become admissible by itself.",
        Verdict::Unknown => "Could not tell: what is marked UNKNOWN could not be read.",
    };
    format!("{text} Nothing was written. (exit code {})", verdict.exit_code())
}

fn finding(note: &Note) -> String {
    let code = note.code.map(|code| format!(" {code}")).unwrap_or_default();
    let mut text = format!("  {}{code} ({})\n", note.level.word(), note.rule);
    text.push_str(&wrapped("      ", &note.message, WIDTH));
    if let Some(remedy) = &note.remedy {
        text.push_str(&wrapped("      ", &format!("-> {remedy}"), WIDTH));
    }
    text
}

fn slot_line(slot: &SlotView) -> String {
    let (Some(operation), Some(owner), Some(phase), Some(version)) =
        (&slot.operation, &slot.owner, &slot.phase, slot.version)
    else {
        return if slot.standing == "free" {
            "free, never used".to_owned()
        } else {
            slot.standing.to_owned()
        };
    };
    let whose = format!("{owner} (operation {}), {phase}, version {version}", short(operation));
    match slot.standing {
        "free" => format!("free; last used by {whose}"),
        "held" => format!("held by {whose}"),
        "underWay" => format!("held by this very operation: {whose}"),
        standing => format!("{standing}: {whose}"),
    }
}

fn member_rows(members: &[MemberView]) -> Vec<[String; 6]> {
    let heading = ["MEMBER", "VERSION", "TARGET", "CANDIDATE", "ROWS", "HEALTH"];
    let row = |member: &MemberView| {
        [
            member.name(),
            member.version.clone().unwrap_or_else(dash),
            generation(member.target.as_ref()),
            generation(member.candidate.as_ref()),
            member.rows.map_or_else(dash, |rows| rows.to_string()),
            member.health.clone(),
        ]
    };
    std::iter::once(heading.map(str::to_owned)).chain(members.iter().map(row)).collect()
}

/// UUID and digest, as far as eyes compare them.
fn generation(found: Option<&Generation>) -> String {
    match found {
        None => dash(),
        Some(Generation { is, digest: Some(digest) }) => {
            format!("{}… / {}", is.chars().take(UUID_SHOWN).collect::<String>(), short(digest))
        }
        Some(Generation { is, digest: None }) => is.clone(),
    }
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn dash() -> String {
    "-".to_owned()
}
