//! J-4: the facade's binding row, changed by its own CAS.

use super::{Outcome, Ports, access_denied, agreed_row, wait};
use crate::admission::{Finding, Severity, inventory};
use crate::authority::{Mutation, MutationOutcome, Predicate};
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::driver::Memory;
use crate::evidence;
use crate::facade::{BINDING_KEY, FacadeBinding};
use crate::identity::ServerUuid;
use crate::inventory::Inventory;
use crate::ports::{AuthorityRead, Catalog, ControlTable, MembersAnswer, MembersAsk, Scope};
use crate::record::VersionedRow;
use crate::verdict::named_inventory;

/// What a Rebound without target and operation rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAfresh {
    /// The binding row.
    pub binding: VersionedRow,
    /// Every member, each at its own endpoint.
    pub members: MembersAnswer,
    /// The inventory that they agree on, or why there is none.
    pub inventory: Result<Inventory, Finding>,
}

impl ClusterAfresh {
    /// J-1.
    pub fn digest(&self) -> Digest {
        evidence::cluster_digest(&self.binding, &self.members)
    }
}

/// The binding row and the members as they are now.
///
/// # Errors
/// A finding when members disagree or do not answer, or when there is no such row.
pub async fn look_at_cluster<C, K, D, P, E>(
    cluster: &str,
    declared_internal_replication: bool,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Result<ClusterAfresh, Finding>
where
    C: ControlTable,
    K: Catalog,
{
    let (_, binding) = row(&ports.control.read_all(BINDING_KEY).await)?;
    let ask = MembersAsk {
        scope: Scope::Each,
        cluster: cluster.to_owned(),
        database: String::new(),
        names: Vec::new(),
        health_of: None,
        count_of: None,
    };
    let members = ports.catalog.members(&ask).await;
    let inventory = inventory(cluster, declared_internal_replication, &members);
    Ok(ClusterAfresh { binding, members, inventory })
}

/// One pass over a Rebound that names no slot. `wanted` is the new inventory's digest.
pub async fn pass_over_cluster<C, K, D, P, E>(
    cluster: &str,
    declared_internal_replication: bool,
    (wanted, seen): (Digest, Digest),
    memory: &mut Memory,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Outcome
where
    C: ControlTable,
    K: Catalog,
{
    let afresh = match look_at_cluster(cluster, declared_internal_replication, ports).await {
        Ok(afresh) => afresh,
        Err(finding) => return wait(finding, memory),
    };
    let named = match named_inventory(&wanted, &afresh.inventory) {
        Ok(named) => named,
        Err(finding) if finding.severity == Severity::Wait => return wait(finding, memory),
        Err(finding) => return Outcome::Refused(finding),
    };
    // A lost answer: the row itself tells.
    if FacadeBinding::of(&named).matches(&afresh.binding.row).is_ok() {
        return Outcome::Bound;
    }
    if afresh.digest() != seen {
        let message = "the evidence is no longer what the verdict names; look again and decide anew";
        return Outcome::Refused(Finding::block(ErrorCode::VerdictStale, "J-1", message));
    }
    ensure(&named, memory, ports).await.unwrap_or(Outcome::Bound)
}

/// Binds the facade to this inventory, unless it is already; none = it is bound and proved.
pub(super) async fn ensure<C, K, D, P, E>(
    inventory: &Inventory,
    memory: &mut Memory,
    ports: &Ports<'_, C, K, D, P, E>,
) -> Option<Outcome>
where
    C: ControlTable,
{
    let wanted = FacadeBinding::of(inventory);
    let (server, found) = match row(&ports.control.read_all(BINDING_KEY).await) {
        Ok(found) => found,
        Err(finding) => return Some(wait(finding, memory)),
    };
    match wanted.matches(&found.row) {
        Ok(()) => return None,
        // Other servers under the same name: that is what a Rebound is for.
        Err(finding) if finding.code == ErrorCode::IncompleteInventory => {}
        // Bound under another name, as the evidence said that the person saw.
        Err(finding) if finding.code == ErrorCode::AuthorityConflict => {
            return Some(Outcome::Refused(finding));
        }
        // A row that does not decode says nothing of the verdict.
        Err(finding) => return Some(wait(finding, memory)),
    }
    let expected = Predicate {
        version: found.version,
        operation_id: found.row.operation_id.clone(),
        fence_token: found.row.fence_token.clone(),
        phase: found.row.phase.clone(),
    };
    let written = wanted.encode();
    let answer = ports.control.mutate(&server, &Mutation::Update { row: written.clone(), expected }).await;
    if answer.transport_calls != 1 {
        return Some(Outcome::Halted);
    }
    let unproved = || Finding::wait(ErrorCode::CasOutcomeUnknown, "C-7", "the binding row is not proved yet");
    match answer.outcome {
        MutationOutcome::Refused => return Some(wait(access_denied(), memory)),
        MutationOutcome::Conflict | MutationOutcome::Unknown => return Some(wait(unproved(), memory)),
        MutationOutcome::Acknowledged => {}
    }
    match ports.control.read_exact(&server, BINDING_KEY).await {
        Some((at, Some(now))) if at == server && now.row == written && now.version == found.version + 1 => {
            None
        }
        _ => Some(wait(unproved(), memory)),
    }
}

/// The row that every member reads, and one that answered.
fn row(read: &AuthorityRead) -> Result<(ServerUuid, VersionedRow), Finding> {
    match (read.rows.first(), agreed_row(read)?) {
        (Some((server, _)), Some(row)) => Ok((server.clone(), row.clone())),
        _ => Err(Finding::wait(ErrorCode::AuthorityUnavailable, "B-5", "the facade has no binding row yet")),
    }
}
