//! From what was read to the report. Pure.

use super::report::{Generation, Level, MemberView, Note, Report, SlotView, StatementView, Verdict};
use crate::cli::pages::remedy;
use crate::clickhouse::sql;
use publication_protocol::admission::{Finding, Severity, read_failure, unhealthy};
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Review, Standing};
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::identity::{Names, RETIRED_INFIX, RowExpectation};
use publication_protocol::inventory::ClusterRow;
use publication_protocol::ports::{AuthorityRead, MemberAnswer, MembersAnswer, ReadFailure};
use publication_protocol::preflight::PreflightAnswer;
use publication_protocol::record::{Ending, Slot};
use publication_protocol::sqltext::{Ddl, Statement, TableName};

/// What was read.
#[derive(Debug, Default)]
pub struct Seen {
    /// Namespace and name of the object.
    pub publication: String,
    /// Database, target, candidate as the manifest has them; none = it cannot be read.
    pub tables: Option<[String; 3]>,
    /// As in [`Report::cluster`].
    pub cluster: Option<String>,
    ///
    pub names: Option<Names>,
    /// Expected rows.
    pub rows: Option<RowExpectation>,
    /// As in [`Report::operation`].
    pub operation: Option<String>,
    /// The slot at every member.
    pub read: Option<AuthorityRead>,
    /// Members through the cluster, as an admission reads them.
    pub answer: Option<MembersAnswer>,
    /// Each member at its own endpoint, when the first did not answer for all.
    pub each: Option<MembersAnswer>,
    /// What every member said beside it, where something could be bound.
    pub facts: Option<PreflightAnswer>,
    /// The judgement.
    pub review: Option<Review>,
    /// What was found beside it.
    pub notes: Vec<Note>,
}

/// A finding that is the report's own.
pub fn note(finding: &Finding, unread: bool) -> Note {
    let level = match finding.severity {
        _ if unread => Level::Unknown,
        Severity::Block => Level::Block,
        Severity::Wait => Level::Wait,
        Severity::Warn => Level::Warn,
    };
    Note {
        level,
        code: Some(finding.code.as_str()),
        rule: finding.rule,
        member: None,
        message: finding.message.clone(),
        remedy: Some(remedy(finding.code, &finding.message)),
    }
}

/// What there is to say of a file that no object can be read from.
pub fn unreadable(file: String, findings: &[Finding]) -> Seen {
    let correct = |finding: &Finding| Note {
        remedy: Some(format!("Correct {file} and run plan again; nothing was created.")),
        ..note(finding, false)
    };
    let notes = findings.iter().map(correct).collect();
    Seen { publication: file, notes, ..Seen::default() }
}

/// Puts everything together.
pub fn assemble(seen: Seen) -> Report {
    let facts = seen.each.as_ref().or(seen.answer.as_ref());
    let unread = unread(&seen);
    let resolved = resolved(&seen);
    let mut findings = seen.notes;
    let mut add = |finding: &Finding| {
        if resolved.contains(finding) {
            return;
        }
        let transient = finding.severity == Severity::Wait && unread.contains(finding);
        let note = note(finding, transient);
        if !findings.contains(&note) {
            findings.push(note);
        }
    };
    seen.review.iter().flat_map(|review| &review.findings).for_each(&mut add);
    unread.iter().for_each(&mut add);
    let members = facts.map(|answer| members(seen.names.as_ref(), answer)).unwrap_or_default();
    let spent = findings.iter().any(|note| note.code == Some(ErrorCode::CandidateNameSpent.as_str()));
    for note in &mut findings {
        if spent && note.code == Some(ErrorCode::CandidateInvalid.as_str()) {
            // Under the spent name it would be refused again.
            note.remedy = Some(remedy(ErrorCode::CandidateNameSpent, &note.message));
        }
        let mut named = members.iter().filter(|member| is_named(member, &note.message));
        note.member = named.next().filter(|_| named.next().is_none()).map(MemberView::name);
    }
    findings.sort_by_key(|note| note.level);
    let standing = seen.review.as_ref().map(|review| review.standing);
    let statements = match (standing, &seen.names, facts) {
        (Some(Standing::Over(_) | Standing::UnderWay), _, _) => Vec::new(),
        (_, Some(names), Some(answer)) => statements(names, answer),
        _ => Vec::new(),
    };
    let table = |at: usize| seen.tables.as_ref().map(|names| format!("{}.{}", names[0], names[at]));
    Report {
        verdict: verdict(standing, &findings),
        publication: seen.publication,
        cluster: seen.cluster,
        target: table(1),
        candidate: table(2),
        rows: seen.rows.map(rows),
        operation: seen.operation,
        slot: seen.review.as_ref().map(|review| {
            let partial = seen.read.as_ref().is_some_and(|read| !read.failures.is_empty());
            slot(review.standing, review.slot.as_ref(), partial)
        }),
        members,
        findings,
        statements,
    }
}

fn verdict(standing: Option<Standing>, findings: &[Note]) -> Verdict {
    let worst = findings.iter().map(|note| note.level).min();
    match (standing, worst) {
        (Some(Standing::Over(Ending::Completed)), _) => Verdict::Done,
        (_, Some(Level::Block)) => Verdict::Blocked,
        (_, Some(Level::Unknown)) => Verdict::Unknown,
        (_, Some(Level::Wait)) => Verdict::Waiting,
        // Nothing was judged: nothing can be promised.
        (None, _) => Verdict::Unknown,
        (Some(_), Some(Level::Warn | Level::Ok) | None) => Verdict::Admissible,
    }
}

/// What failed to answer, as the findings that follow from it.
fn unread(seen: &Seen) -> Vec<Finding> {
    let read = seen.read.iter().flat_map(|read| &read.failures);
    let answers = seen.answer.iter().chain(&seen.each).flat_map(|answer| &answer.failures);
    let mut findings: Vec<Finding> = Vec::new();
    let facts = seen.facts.iter().flat_map(|facts| &facts.failures);
    let facts = facts.map(|failed| (&failed.endpoint, &failed.failure));
    // Rights that preflight lacks are said by its own findings, all at once.
    let facts = facts.filter(|(_, failure)| **failure != ReadFailure::AccessDenied);
    for (endpoint, failure) in read.chain(answers).map(|(e, f)| (e, f)).chain(facts) {
        let finding = read_failure(endpoint, *failure);
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    findings
}

/// An endpoint could not answer for all, but does for itself: those that do not are named instead.
fn resolved(seen: &Seen) -> Vec<Finding> {
    let (Some(through), Some(each)) = (&seen.answer, &seen.each) else { return Vec::new() };
    if each.failures.is_empty() {
        return Vec::new();
    }
    let silent = |label: &String| each.failures.iter().any(|(other, _)| other == label);
    let passed = through.failures.iter().filter(|(label, _)| !silent(label));
    passed.map(|(label, failure)| read_failure(label, *failure)).collect()
}

fn is_named(member: &MemberView, message: &str) -> bool {
    let server = member.server.as_deref().is_some_and(|server| message.contains(server));
    server || message.contains(&member.host)
}

fn members(names: Option<&Names>, answer: &MembersAnswer) -> Vec<MemberView> {
    let mut members: Vec<MemberView> = answer.members.iter().map(|member| view(names, member)).collect();
    members.sort_by(|a, b| (a.replica, &a.host).cmp(&(b.replica, &b.host)));
    members.extend(answer.failures.iter().map(|(endpoint, _)| MemberView {
        replica: None,
        host: endpoint.clone(),
        server: None,
        version: None,
        target: None,
        candidate: None,
        rows: None,
        health: "does not answer".to_owned(),
    }));
    members
}

fn view(names: Option<&Names>, member: &MemberAnswer) -> MemberView {
    let own: Option<&ClusterRow> = member.view.iter().find(|row| row.is_local);
    let at =
        |name: fn(&Names) -> &String| names.and_then(|names| member.tables.get(name(names))).map(generation);
    let candidate = at(|names| &names.candidate);
    let health = match &member.health {
        Some(health) => unhealthy(health, member.view.len() as u64).unwrap_or_else(|| "healthy".to_owned()),
        None => "-".to_owned(),
    };
    MemberView {
        replica: own.map(|row| row.replica),
        host: own.map_or_else(|| member.server_uuid.to_string(), |row| format!("{}:{}", row.host, row.port)),
        server: Some(member.server_uuid.to_string()),
        version: Some(member.server_version.clone()),
        target: at(|names| &names.target),
        candidate,
        rows: member.count,
        health,
    }
}

fn generation(fact: &TableFact) -> Generation {
    let is = |what: &str| Generation { is: what.to_owned(), digest: None };
    match fact {
        TableFact::Absent => is("absent"),
        TableFact::Generation { identity, .. } => {
            Generation { is: identity.uuid.to_string(), digest: Some(identity.digest().to_string()) }
        }
        TableFact::Other(NotAGeneration::Engine(engine)) => is(&format!("a {engine}")),
        TableFact::Other(NotAGeneration::Unparseable) => is("unreadable"),
        TableFact::Other(NotAGeneration::NoUuid) => is("without UUID"),
        TableFact::Other(NotAGeneration::NotInReplicas) => is("not in system.replicas"),
    }
}

fn slot(standing: Standing, slot: Option<&Slot>, partial: bool) -> SlotView {
    let record = slot.map(|slot| &slot.record);
    SlotView {
        standing: match standing {
            Standing::Free => "free",
            Standing::Held => "held",
            Standing::UnderWay => "underWay",
            Standing::Over(_) => "over",
            Standing::Unread => "unread",
        },
        partial,
        operation: record.map(|record| record.operation.to_string()),
        owner: record.map(|record| &record.payload.owner).map(|o| format!("{}/{}", o.namespace, o.name)),
        phase: record.map(|record| record.phase.to_string()),
        version: slot.map(|slot| slot.version),
    }
}

fn rows(rows: RowExpectation) -> String {
    match rows {
        RowExpectation::Exact(exact) => format!("exactly {exact}"),
        RowExpectation::Between { min, max: Some(max) } => format!("{min} to {max}"),
        RowExpectation::Between { min, max: None } => format!("at least {min}"),
    }
}

/// Statements, when every member says the same of the target; the random part of the retired name is drawn at its dispatch.
fn statements(names: &Names, answer: &MembersAnswer) -> Vec<StatementView> {
    let absent = |member: &MemberAnswer| member.tables.get(&names.target) == Some(&TableFact::Absent);
    let all = answer.members.iter().filter(|member| absent(member)).count();
    if !answer.failures.is_empty() || answer.members.is_empty() {
        return Vec::new();
    }
    let table = |name: &str| TableName { database: names.database.clone(), table: name.to_owned() };
    let (target, candidate) = (table(&names.target), table(&names.candidate));
    let retired = table(&format!("{}{RETIRED_INFIX}<random>", names.target));
    let steps = if all == answer.members.len() {
        vec![("publish", Ddl::Rename { from: candidate, to: target })]
    } else if all == 0 {
        vec![
            ("publish", Ddl::Exchange { target, candidate: candidate.clone() }),
            ("retire", Ddl::Rename { from: candidate, to: retired.clone() }),
            ("drop", Ddl::DropIfExists { table: retired }),
        ]
    } else {
        Vec::new()
    };
    let render = |(step, ddl)| {
        let sql = sql::statement(&Statement { ddl, cluster: names.cluster.clone() })?;
        Some(StatementView { step, sql: sql.text().to_owned() })
    };
    steps.into_iter().filter_map(render).collect()
}
