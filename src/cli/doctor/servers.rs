//! What the servers show: B-1 to B-6, rights, queue.

use super::judge::{Seen, Told, named, plain};
use super::report::Check;
use crate::api::PublicationCluster;
use crate::cli::plan::report::Level;
use crate::clickhouse::checkup::Checkup;
use crate::clickhouse::probe::ServerProbe;
use crate::cluster_access::examination::{
    among_members, capabilities, facade_facts, inventory_of, member_of, was_complete,
};
use publication_protocol::admission::{Finding, Severity, read_failure};
use publication_protocol::code::ErrorCode;
use publication_protocol::facade::{FACADE_TABLE, FacadeBinding, FacadeDecision, FacadeMemory, decide};
use publication_protocol::identity::{RootId, ServerUuid};
use publication_protocol::inventory::{Inventory, Member};
use publication_protocol::loss::accepted;
use publication_protocol::ports::{AuthorityRead, ReadFailure};
use publication_protocol::preflight::{self, DatabaseScope, FailedRead};
use publication_protocol::sqltext::TableName;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn judge(seen: &Seen, object: &PublicationCluster, told: &mut Told) {
    const ALL: [&str; 10] = [
        "endpoints",
        "topology",
        "members among themselves",
        "control database",
        "servers",
        "versions",
        "facade",
        "binding",
        "grants",
        "DDL queue",
    ];
    if seen.probes.is_empty() {
        told.unchecked.extend(ALL);
        return;
    }
    told.checks.push(plain(
        Level::Ok,
        "credentials",
        "api",
        "the Secret, and the CA if there is one, can be used".into(),
        None,
    ));
    let servers = seen.servers();
    endpoints(seen, &servers, told);
    if servers.is_empty() {
        told.unchecked.extend(&ALL[1..]);
        return;
    }
    let inventory = topology(seen, object, &servers, told);
    alone(object, &servers, told);
    facade(seen, object, &servers, told);
    binding(seen, inventory.as_ref(), told);
    match &seen.checkup {
        Some(checkup) => {
            grants(checkup, object, &servers, told);
            queue(checkup, inventory.as_ref(), told);
        }
        None => told.unchecked.extend(["grants", "DDL queue"]),
    }
}

/// One member that is silent while another answers holds every publication up; if none answers, it may be the way
/// from here.
fn endpoints(seen: &Seen, servers: &[ServerProbe], told: &mut Told) {
    let failed =
        seen.probes.iter().filter_map(|p| p.answer.as_ref().err().map(|failure| (&p.label, *failure)));
    let before = told.checks.len();
    for (label, failure) in failed {
        let mut check = named("endpoints", &read_failure(label, failure), false);
        if check.level == Level::Wait {
            check.level = if servers.is_empty() { Level::Unknown } else { Level::Block };
        }
        told.checks.push(check);
    }
    if told.checks.len() == before {
        let evidence = format!("{} endpoints answer, each as a server of its own", seen.probes.len());
        told.checks.push(plain(Level::Ok, "endpoints", "B-2", evidence, None));
    }
}

fn topology(
    seen: &Seen,
    object: &PublicationCluster,
    servers: &[ServerProbe],
    told: &mut Told,
) -> Option<Inventory> {
    if !seen.is_whole() {
        told.unchecked.extend(["topology", "members among themselves"]);
        return None;
    }
    let inventory = inventory_of(object, servers);
    let members = servers.len();
    told.judged("topology", "B-1", inventory.clone().err(), || {
        format!("one shard, {members} replicas, the same in every member's own view, internal replication on")
    });
    let direct = inventory.ok()?;
    match &seen.through {
        Some(through) => {
            told.judged(
                "members among themselves",
                "B-2",
                among_members(object, &direct, through).err(),
                || "members reach each other as the endpoints reach them".to_owned(),
            );
        }
        None => told.unchecked.push("members among themselves"),
    }
    Some(direct)
}

/// What each server shows of itself, whoever else answers.
fn alone(object: &PublicationCluster, servers: &[ServerProbe], told: &mut Told) {
    let (databases, able): (Vec<Finding>, Vec<Finding>) =
        capabilities(object, servers).into_iter().partition(|finding| finding.rule == "B-3");
    let database = &object.spec.control_database;
    let before = told.checks.len();
    told.judged("control database", "B-3", databases, || {
        format!("{database} is Atomic on every member that answers")
    });
    told.judged("servers", "B-4", able, || {
        "entries of the DDL queue carry settings; versions are of a tested or accepted line".to_owned()
    });
    for check in &mut told.checks[before..] {
        check.remedy = remedy(check, database);
    }
    let versions: BTreeSet<&str> = servers.iter().map(|server| server.version.as_str()).collect();
    let mixed = (versions.len() > 1).then(|| {
        let each = servers.iter().map(|server| format!("{} on {}", server.version, member_of(server)));
        let message = format!("server versions differ: {}", each.collect::<Vec<_>>().join(", "));
        Finding { severity: Severity::Warn, code: ErrorCode::CapabilityMissing, rule: "B-4", message }
    });
    match mixed {
        Some(finding) => {
            let mut check = named("versions", &finding, false);
            check.remedy =
                Some("Finish the upgrade: two versions may print one table in two ways (J-5).".to_owned());
            told.checks.push(check);
        }
        None => {
            let evidence = versions.into_iter().map(|version| format!("{version} everywhere")).collect();
            told.checks.push(plain(Level::Ok, "versions", "B-4", evidence, None));
        }
    }
}

/// More than the code's page can say.
fn remedy(check: &Check, database: &str) -> Option<String> {
    check.remedy.as_ref()?;
    Some(match (check.rule, check.evidence.starts_with("server version")) {
        ("B-3", _) => format!(
            "Have it on every member: CREATE DATABASE {database} ENGINE = Atomic, and let the user see it."
        ),
        (_, true) => "Run a tested line (24.8 to 26.9), or name the version in spec.accept.untestedVersions."
            .to_owned(),
        _ => {
            "Set distributed_ddl_entry_format_version to 2 or more for the operator's user there.".to_owned()
        }
    })
}

fn facade(seen: &Seen, object: &PublicationCluster, servers: &[ServerProbe], told: &mut Told) {
    if !seen.is_whole() {
        return told.unchecked.push("facade");
    }
    let status = object.status.clone().unwrap_or_default();
    let root = status.facade_root.clone().and_then(|root| RootId::try_from(root).ok());
    let memory = FacadeMemory { root, was_ready: was_complete(&status) };
    let database = &object.spec.control_database;
    let facts = facade_facts(database, servers);
    let wait = |message: String| Some(Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", message));
    let (finding, root) = match decide(database, &facts, memory) {
        FacadeDecision::Ready(root) => (None, Some(root)),
        FacadeDecision::Blocked(finding) => (Some(finding), None),
        FacadeDecision::Lost => {
            let lost = BTreeSet::from_iter(root);
            let accepted = accepted(&object.spec.accept_authority_loss, &lost);
            let message = "the facade is gone and its loss accepted; the operator says on the object what stands against it";
            (accepted.err().or_else(|| wait(message.to_owned())), None)
        }
        FacadeDecision::Draw => {
            (wait("there is no facade yet; the operator draws a root and creates it".to_owned()), None)
        }
        FacadeDecision::Create(root) => {
            let without = facts.iter().filter(|fact| fact.tables.is_empty()).map(|fact| fact.member.as_str());
            let without = without.collect::<Vec<_>>().join(", ");
            (
                wait(format!(
                    "the facade is missing on {without}; the operator creates it there, with root {root}"
                )),
                None,
            )
        }
    };
    if let Some(finding) = finding.as_ref().filter(|finding| finding.severity == Severity::Wait) {
        let mut check = named("facade", finding, false);
        let remedy = "The operator does so by itself; if it does not, see the object's conditions and the operator's log.";
        check.remedy = Some(remedy.to_owned());
        return told.checks.push(check);
    }
    told.judged("facade", "B-5", finding, || {
        let root = root.map(|root| root.to_string()).unwrap_or_default();
        format!("{database}.{FACADE_TABLE} is the same on every member, root {root}")
    });
}

fn binding(seen: &Seen, inventory: Option<&Inventory>, told: &mut Told) {
    let (Some(read), Some(inventory)) = (&seen.binding, inventory) else {
        return told.unchecked.push("binding");
    };
    let missing = read.failures.iter().any(|(_, failure)| *failure == ReadFailure::NoTable);
    if missing {
        // Said of the facade already.
        told.unchecked.push("binding");
        return;
    }
    let failures = read.failures.iter().map(|(endpoint, failure)| read_failure(endpoint, *failure));
    let findings: Vec<Finding> = failures.chain(bound(read, inventory)).collect();
    told.judged("binding", "B-5", findings, || {
        format!(
            "bound to cluster {} and these servers, read alike by all; so keeper_map_path_prefix is set",
            inventory.cluster
        )
    });
}

fn bound(read: &AuthorityRead, inventory: &Inventory) -> Vec<Finding> {
    let newest = read.rows.iter().filter_map(|(_, row)| row.as_ref()).max_by_key(|row| row.version);
    let Some(newest) = newest else {
        let message = "the facade's binding row does not exist yet; the operator writes it".to_owned();
        return vec![Finding::wait(ErrorCode::AuthorityUnavailable, "B-5", message)];
    };
    let name =
        |server: &ServerUuid| inventory.by_uuid(server).map_or_else(|| server.to_string(), Member::name);
    let stale = read.rows.iter().filter(|(_, row)| row.as_ref().map(|r| r.version) != Some(newest.version));
    let stale: Vec<String> = stale.map(|(server, _)| name(server)).collect();
    let stale = (!stale.is_empty()).then(|| {
        let message = format!("the binding row is read in an older version on {}", stale.join(", "));
        Finding::wait(ErrorCode::AuthorityUnavailable, "C-13", message)
    });
    FacadeBinding::of(inventory).matches(&newest.row).err().into_iter().chain(stale).collect()
}

fn grants(checkup: &Checkup, object: &PublicationCluster, servers: &[ServerProbe], told: &mut Told) {
    let member = |server: &ServerUuid| {
        let found = servers.iter().find(|probe| probe.server_uuid == *server);
        found.map_or_else(|| server.to_string(), member_of)
    };
    let facade = TableName { database: object.spec.control_database.clone(), table: FACADE_TABLE.to_owned() };
    let databases = scopes(object);
    let findings = checkup.grants.iter().flat_map(|answer| match answer {
        Ok((server, grants)) => preflight::cluster_rights(&databases, &facade, grants, &member(server)),
        Err(failed) => unread(failed).into_iter().collect(),
    });
    told.judged("grants", "B-4", findings.collect::<Vec<_>>(), || {
        "the user holds on every member that answers what every publication takes".to_owned()
    });
}

fn scopes(object: &PublicationCluster) -> Vec<DatabaseScope> {
    let patterns = object.spec.access.iter().flat_map(|rule| &rule.databases);
    let scope = patterns.filter_map(|pattern| match (&pattern.name, &pattern.prefix) {
        (Some(name), _) => Some(DatabaseScope::Name(name.clone())),
        (None, Some(prefix)) => Some(DatabaseScope::Prefix(prefix.clone())),
        (None, None) => None,
    });
    let mut scopes: BTreeMap<String, DatabaseScope> = BTreeMap::new();
    scopes.extend(scope.map(|scope| (format!("{scope:?}"), scope)));
    scopes.into_values().collect()
}

/// An endpoint that does not answer is said once, by its own check.
fn unread(failed: &FailedRead) -> Option<Finding> {
    (failed.failure == ReadFailure::AccessDenied).then(|| {
        let message = format!(
            "grants: {} refuses to show what admission must know; grant {}",
            failed.endpoint, failed.needs
        );
        Finding::block(ErrorCode::AccessDenied, "B-4", message)
    })
}

fn queue(checkup: &Checkup, inventory: Option<&Inventory>, told: &mut Told) {
    let Some(inventory) = inventory else { return told.unchecked.push("DDL queue") };
    match &checkup.backlog {
        Ok(entries) => {
            let findings = preflight::backlog(inventory, entries);
            if findings.is_empty() {
                let evidence = "no unfinished entry on any member".to_owned();
                told.checks.push(plain(Level::Ok, "DDL queue", "D-2", evidence, None));
            }
            for finding in findings {
                let mut check = named("DDL queue", &finding, false);
                let remedy = "See what holds that entry up on that member (system.distributed_ddl_queue, system.processes): \
                              a publication waits behind it.";
                check.remedy = Some(remedy.to_owned());
                told.checks.push(check);
            }
        }
        Err(failed) => {
            let mut check = named("DDL queue", &read_failure(&failed.endpoint, failed.failure), false);
            check.level = if check.level == Level::Wait { Level::Unknown } else { check.level };
            told.checks.push(check);
        }
    }
}
