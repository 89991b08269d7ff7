//! The report for people.

use super::report::{Report, Slot};
use crate::cli::output::columns;
use std::fmt::Write;

/// The whole screen.
pub fn table(report: &Report) -> String {
    let mut out = format!("{}.{} on {}\n", report.database, report.target, report.cluster);
    match &report.slot {
        None => out.push_str("\nThe slot is empty: nothing was ever published there.\n"),
        Some(slot) => sections(&mut out, slot),
    }
    out
}

fn sections(out: &mut String, slot: &Slot) {
    out.push_str("\nSlot\n");
    let pairs = [
        ("phase", slot.phase.clone()),
        ("operation", slot.operation.clone()),
        ("version", format!("{}, epoch {}", slot.version, slot.epoch)),
        ("asked for by", slot.owner.clone()),
        ("candidate", slot.candidate.clone()),
        ("predecessor", slot.predecessor.clone().unwrap_or_else(|| "none: the target was absent".into())),
        ("desired", slot.desired.clone()),
    ];
    out.push_str(&columns("  ", &pairs.map(|(name, value)| [name.to_owned(), value])));
    members(out, slot);
    dispatches(out, slot);
    fences(out, slot);
    if !slot.recent.is_empty() {
        out.push_str("\nEarlier operations, newest first\n");
        let rows: Vec<[String; 4]> = slot
            .recent
            .iter()
            .rev()
            .map(|r| {
                [short(&r.operation), r.ending.clone(), r.candidate.clone(), format!("version {}", r.version)]
            })
            .collect();
        out.push_str(&columns("  ", &rows));
    }
    if !slot.verdicts.is_empty() {
        out.push_str("\nVerdicts that took effect\n");
        slot.verdicts.iter().for_each(|v| line(out, v));
    }
    out.push_str("\nEvidence\n");
    let mut pairs = vec![["digest".to_owned(), slot.evidence_digest.clone()]];
    pairs.push(["inventory".to_owned(), slot.inventory_digest.clone()]);
    if slot.inventory_now.as_ref() != Some(&slot.inventory_digest) {
        let now = slot.inventory_now.clone().unwrap_or_else(|| "the members form none".into());
        pairs.push(["inventory now".to_owned(), now]);
    }
    out.push_str(&columns("  ", &pairs));
}

fn members(out: &mut String, slot: &Slot) {
    out.push_str("\nMembers\n");
    for member in &slot.members {
        line(out, &format!("{}: {}", member.member, member.state));
        let rows: Vec<[String; 2]> =
            member.tables.iter().map(|(name, what)| [name.clone(), what.clone()]).collect();
        out.push_str(&columns("      ", &rows));
    }
    if let Some(drift) = &slot.drift {
        line(out, &format!("! {drift}"));
    }
}

fn dispatches(out: &mut String, slot: &Slot) {
    out.push_str("\nStatements\n");
    if slot.dispatches.is_empty() {
        line(out, "none was dispatched");
    }
    for sent in &slot.dispatches {
        let to = sent.to.as_deref().map(|to| format!(" -> {to}")).unwrap_or_default();
        let entry = sent.entry.as_deref().unwrap_or("no entry bound");
        line(out, &format!("{} {} {}{to}", sent.epoch, sent.action, sent.from));
        line(out, &format!("    {entry}, {}", sent.result));
        let rows: Vec<[String; 2]> =
            sent.hosts.iter().map(|(host, result)| [host.clone(), result.clone()]).collect();
        out.push_str(&columns("      ", &rows));
    }
}

fn fences(out: &mut String, slot: &Slot) {
    if slot.fences.is_empty() {
        return;
    }
    out.push_str("\nFenced names (a late statement might still move them)\n");
    for fence in &slot.fences {
        line(out, &format!("{}: epoch {} of operation {}", fence.name, fence.epoch, fence.operation));
        if fence.queue.is_empty() {
            line(out, "    its entry is not in the queue");
        }
        fence.queue.iter().for_each(|row| line(out, &format!("    {row}")));
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a String never fails.
    let _ = writeln!(out, "  {text}");
}

fn short(operation: &str) -> String {
    operation.chars().take(12).collect()
}
