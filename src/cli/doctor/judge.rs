//! From what was read to the report. Pure; the rules are judged by the code that the operator runs.

use super::report::{Check, MemberView, Report, Verdict};
use super::selftest::Done;
use super::{cluster, servers};
use crate::api::PublicationCluster;
use crate::cli::pages;
use crate::cli::plan::report::Level;
use crate::clickhouse::checkup::Checkup;
use crate::clickhouse::probe::{EndpointProbe, ServerProbe};
use crate::cluster_access::examination::member_of;
use publication_protocol::admission::{Finding, Severity};
use publication_protocol::code::ErrorCode;
use publication_protocol::ports::{AuthorityRead, MembersAnswer};

/// What was read.
#[derive(Debug, Default)]
pub struct Seen {
    /// Namespace and name of the PublicationCluster.
    pub cluster: String,
    /// The object.
    pub object: Option<PublicationCluster>,
    /// What kept more from being read.
    pub notes: Vec<Check>,
    /// Every endpoint; none = there was no way to ask.
    pub probes: Vec<EndpointProbe>,
    /// Members through the cluster.
    pub through: Option<MembersAnswer>,
    /// The facade's binding row, at every member.
    pub binding: Option<AuthorityRead>,
    /// Rights and queue.
    pub checkup: Option<Checkup>,
    /// None = it was not asked for.
    pub self_test: Option<Done>,
}

impl Seen {
    pub(super) fn servers(&self) -> Vec<ServerProbe> {
        self.probes.iter().filter_map(|probe| probe.answer.clone().ok()).collect()
    }

    /// B-2: a partial answer is no evidence of what holds for all.
    pub(super) fn is_whole(&self) -> bool {
        !self.probes.is_empty() && self.probes.iter().all(|probe| probe.answer.is_ok())
    }
}

/// Puts everything together.
pub fn report(seen: &Seen) -> Report {
    let mut told = Told { checks: seen.notes.clone(), unchecked: Vec::new() };
    if let Some(object) = &seen.object {
        cluster::judge(object, &mut told);
        servers::judge(seen, object, &mut told);
    }
    told.checks.extend(seen.self_test.iter().flat_map(|done| done.checks.clone()));
    let members = members(seen);
    for check in &mut told.checks {
        let mut named = members.iter().filter(|member| is_named(member, &check.evidence));
        check.member = named.next().filter(|_| named.next().is_none()).map(|member| member.member.clone());
    }
    told.checks.sort_by_key(|check| check.level);
    let spec = seen.object.as_ref().map(|object| &object.spec);
    Report {
        verdict: Verdict::of(&told.checks),
        cluster: seen.cluster.clone(),
        cluster_name: spec.map(|spec| spec.cluster_name.clone()),
        control_database: spec.map(|spec| spec.control_database.clone()),
        members,
        checks: told.checks,
        unchecked: told.unchecked,
        self_test: seen.self_test.as_ref().map(|done| done.steps.clone()),
    }
}

/// What the checks have said so far.
pub(super) struct Told {
    pub(super) checks: Vec<Check>,
    pub(super) unchecked: Vec<&'static str>,
}

impl Told {
    /// Findings, or that all is well.
    pub(super) fn judged(
        &mut self,
        check: &'static str,
        rule: &'static str,
        findings: impl IntoIterator<Item = Finding>,
        well: impl FnOnce() -> String,
    ) {
        let before = self.checks.len();
        self.checks.extend(findings.into_iter().map(|finding| named(check, &finding, false)));
        // A warning is a finding beside what is well.
        if self.checks[before..].iter().all(|check| check.level == Level::Warn) {
            self.checks.push(plain(Level::Ok, check, rule, well(), None));
        }
    }
}

/// A finding under the name of its check. `own`: what the caller may not read, the operator may.
pub(super) fn named(check: &'static str, finding: &Finding, own: bool) -> Check {
    let unread = own && (finding.severity == Severity::Wait || finding.code == ErrorCode::ReferenceDenied);
    let level = match finding.severity {
        _ if unread => Level::Unknown,
        Severity::Block => Level::Block,
        Severity::Wait => Level::Wait,
        Severity::Warn => Level::Warn,
    };
    Check {
        level,
        check,
        rule: finding.rule,
        code: Some(finding.code.as_str()),
        member: None,
        evidence: finding.message.clone(),
        remedy: Some(pages::remedy(finding.code, &finding.message)),
    }
}

/// What has no public code.
pub(super) fn plain(
    level: Level,
    check: &'static str,
    rule: &'static str,
    evidence: String,
    remedy: Option<&str>,
) -> Check {
    Check { level, check, rule, code: None, member: None, evidence, remedy: remedy.map(str::to_owned) }
}

pub(super) fn unreadable(what: &str, why: &str) -> Check {
    plain(Level::Unknown, "object", "api", format!("{what} cannot be read: {why}"), None)
}

fn members(seen: &Seen) -> Vec<MemberView> {
    let mut members: Vec<MemberView> = seen.probes.iter().map(member).collect();
    members.sort_by(|a, b| (a.server.is_none(), &a.member).cmp(&(b.server.is_none(), &b.member)));
    members
}

fn member(probe: &EndpointProbe) -> MemberView {
    let Ok(server) = &probe.answer else {
        return MemberView {
            member: probe.label.clone(),
            endpoint: probe.label.clone(),
            server: None,
            version: None,
            control_database: None,
            facade: None,
        };
    };
    let root =
        |root: Option<&str>| root.and_then(|r| r.rsplit('/').next()).unwrap_or("unreadable").to_owned();
    let facade = match server.facades.as_slice() {
        [] => "none".to_owned(),
        [facade] => root(facade.keeper_root.as_deref()),
        several => format!("{} of them", several.len()),
    };
    MemberView {
        member: member_of(server),
        endpoint: probe.label.clone(),
        server: Some(server.server_uuid.to_string()),
        version: Some(server.version.clone()),
        control_database: Some(server.control_database_engine.clone().unwrap_or_else(|| "none".to_owned())),
        facade: Some(facade),
    }
}

fn is_named(member: &MemberView, text: &str) -> bool {
    let server = member.server.as_deref().is_some_and(|server| text.contains(server));
    server || text.contains(&member.member) || text.contains(&member.endpoint)
}
