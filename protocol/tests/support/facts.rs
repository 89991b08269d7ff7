//! Preflight facts of members with nothing in the way.

use super::build::{CANDIDATE, OLD, TARGET, admissible, generation, names, server};
use publication_protocol::admission::{Bound, Finding, admit};
use publication_protocol::generation::TableFact;
use publication_protocol::identity::RowExpectation;
use publication_protocol::preflight::{
    DependentKind, Grant, Limits, MemberFacts, PreflightAnswer, PreflightAsk, ReplicaSet, TableUse, judge,
};
use publication_protocol::sqltext::TableName;

pub fn table(database: &str, table: &str) -> TableName {
    TableName { database: database.into(), table: table.into() }
}

/// A grant of the operator's user on everything.
pub fn granted(access: &str) -> Grant {
    Grant {
        grantee: "publisher".into(),
        own: true,
        access: access.into(),
        database: None,
        table: None,
        column: None,
        revoked: false,
        wildcard: false,
    }
}

/// Member `at` of `members`; the names that are there are the target (if wanted) and the candidate.
pub fn facts(members: u32, at: u32, target: bool) -> MemberFacts {
    let names = if target { vec![TARGET, CANDIDATE] } else { vec![CANDIDATE] };
    MemberFacts {
        server_uuid: server(at),
        server_version: "25.8".into(),
        definitions: vec![],
        configured: vec![],
        tables: names
            .iter()
            .map(|name| TableUse { name: (*name).into(), bytes: 1_000, loading_dependents: vec![] })
            .collect(),
        policies: vec![],
        grants: vec![granted("ALL")],
        same_path: vec![table("db", CANDIDATE)],
        replicas: names
            .iter()
            .map(|name| ReplicaSet {
                table: (*name).into(),
                own: format!("r{at}"),
                total: members.into(),
                names: (1..=members).map(|n| format!("r{n}")).collect(),
            })
            .collect(),
        limits: Limits { drop_bytes_max: 50_000, checks_loading: true, checks_references: false },
    }
}

pub fn unobstructed(members: u32, target: bool) -> PreflightAnswer {
    PreflightAnswer {
        members: (1..=members).map(|at| facts(members, at, target)).collect(),
        failures: vec![],
        facade: table("publication", "publication_authority"),
        backlog: vec![],
    }
}

/// The path that is asked for must be the candidate's.
pub fn is_of_candidate(ask: &PreflightAsk) -> bool {
    ask.candidate == CANDIDATE && ask.zookeeper_path != generation(OLD).zookeeper_path && !ask.backlog
}

fn bound(target: bool) -> Bound {
    let mut answer = admissible(2);
    if !target {
        answer.members.iter_mut().for_each(|m| {
            m.tables.insert(TARGET.into(), TableFact::Absent);
        });
    }
    admit(&names(), RowExpectation::Exact(10), false, &answer).expect("admitted")
}

/// What is found of two members once the facts are changed.
pub fn judged(
    target: bool,
    accepted: &[DependentKind],
    change: impl Fn(&mut PreflightAnswer),
) -> Vec<Finding> {
    let mut answer = unobstructed(2, target);
    change(&mut answer);
    judge(&names(), &accepted.iter().copied().collect(), &bound(target), &answer)
}

pub fn one(findings: Vec<Finding>) -> Finding {
    let [finding] = <[Finding; 1]>::try_from(findings).unwrap_or_else(|found| panic!("{found:?}"));
    finding
}

pub fn says(finding: &Finding, named: &[&str]) {
    for name in named {
        assert!(finding.message.contains(name), "{name} in {}", finding.message);
    }
}

/// How the second member is named to people.
pub const SECOND: &str = "h2:9000 (replica 2)";
