//! Preflight facts of members with nothing in the way.

use super::build::{CANDIDATE, OLD, TARGET, generation, server};
use publication_protocol::preflight::{
    Grant, Limits, MemberFacts, PreflightAnswer, PreflightAsk, ReplicaSet, TableUse,
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
