//! One reconciliation of a PublicationVerdict (J): it is judged, stored or refused, and never sends a statement.

use super::conditions::{Conditions, is_true};
use super::context::{Context, kube_now};
use super::credentials::{connect, deadlines};
use super::environment::{System, now};
use super::kube_writes::{Version, apply_status_over};
use super::resolve;
use crate::api::{ConditionType, PublicationVerdict, PublicationVerdictStatus};
use crate::clickhouse::{Authority, DistributedDdl, MemberCatalog, MemberProcesses};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use publication_protocol::adjudicate::{Outcome, Ports, SlotName, decision, pass, pass_over_cluster};
use publication_protocol::admission::Finding;
use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::Requeue;
use publication_protocol::verdict::{Decision, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// Reconciles one object.
pub(super) async fn reconcile(object: Arc<PublicationVerdict>, ctx: Arc<Context>) -> kube::Result<Action> {
    let uid = object.uid().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    let settled = is_true(&status.conditions, ConditionType::Applied)
        || is_true(&status.conditions, ConditionType::Refused);
    if settled || object.metadata.deletion_timestamp.is_some() {
        ctx.forget(&uid);
        return Ok(Action::await_change());
    }
    let outcome = match consider(&object, &ctx, &uid).await {
        Ok(outcome) => outcome,
        // The verdict cannot be changed, so only what is wrong with itself refuses it for good.
        Err(finding) if finding.code == ErrorCode::SpecInvalid => Outcome::Refused(finding),
        Err(finding) => Outcome::Waiting(finding, Requeue::AfterMs(5_000)),
    };
    let new = project(&object, &outcome);
    if new != status {
        apply_status_over(&ctx.client, object.as_ref(), &new, &Version::of(object.as_ref())).await?;
    }
    match outcome {
        Outcome::Waiting(_, Requeue::AfterMs(ms)) => Ok(Action::requeue(Duration::from_millis(ms))),
        Outcome::Waiting(..) => Ok(Action::requeue(Duration::from_secs(1))),
        Outcome::Halted => {
            ctx.halt();
            Ok(Action::await_change())
        }
        Outcome::Applied(slot) => {
            wake(&ctx, &slot.record.operation.to_string());
            Ok(Action::await_change())
        }
        Outcome::Bound | Outcome::Refused(_) => Ok(Action::await_change()),
    }
}

async fn consider(object: &PublicationVerdict, ctx: &Context, uid: &str) -> Result<Outcome, Finding> {
    let namespace = object.namespace().unwrap_or_default();
    let spec = &object.spec;
    let cluster =
        ctx.clusters.get(&ObjectRef::new(&spec.cluster_ref.name).within(&namespace)).ok_or_else(|| {
            let message = format!(
                "clusterRef: PublicationCluster {namespace}/{} does not exist",
                spec.cluster_ref.name
            );
            Finding::block(ErrorCode::ReferenceNotFound, "api", message)
        })?;
    let digest = |text: &str, field: &str| {
        Digest::try_from(text.to_owned())
            .map_err(|_| invalid(&format!("{field} is not 64 lower-case hex digits")))
    };
    let evidence = digest(&spec.evidence_digest, "evidenceDigest")?;
    let inventory =
        spec.inventory_digest.as_deref().map(|text| digest(text, "inventoryDigest")).transpose()?;
    let decision = decision(&format!("{:?}", spec.decision), spec.name.as_deref(), inventory)
        .ok_or_else(|| invalid("name goes with NameCleared alone, inventoryDigest with Rebound alone"))?;
    let connection = Arc::new(connect(&ctx.client, &cluster).await?);
    let ports = Ports {
        control: &Authority::new(Arc::clone(&connection)),
        catalog: &MemberCatalog::new(Arc::clone(&connection)),
        ddl: &DistributedDdl::new(Arc::clone(&connection), Arc::new(now)),
        processes: &MemberProcesses::new(connection),
        environment: &System,
    };
    let mut remembered = ctx.remembered(uid);
    let memory = &mut remembered.memory;
    let declared = cluster.spec.declare.internal_replication;
    let outcome = match (&spec.database, &spec.target, &spec.operation_id, &decision) {
        (Some(database), Some(target), Some(operation), _) => {
            let slot = SlotName {
                root: resolve::shown_root(&cluster)?,
                cluster: cluster.spec.cluster_name.clone(),
                database: database.clone(),
                target: target.clone(),
                declared_internal_replication: declared,
            };
            let operation = digest(operation, "operationId")?;
            let verdict = Verdict { uid: uid.to_owned(), operation, decision, evidence };
            pass(&slot, &verdict, deadlines(&cluster), memory, &ports).await
        }
        (None, None, None, Decision::Rebound(inventory)) => {
            let name = &cluster.spec.cluster_name;
            pass_over_cluster(name, declared, (*inventory, evidence), memory, &ports).await
        }
        _ => return Err(invalid("database, target and operationId name the slot; give all three")),
    };
    ctx.remember(uid, remembered);
    Ok(outcome)
}

fn invalid(message: &str) -> Finding {
    Finding::block(ErrorCode::SpecInvalid, "J-1", message)
}

/// The operation's object looks at its record again now.
fn wake(ctx: &Context, operation: &str) {
    let of_operation =
        |s: &crate::api::ClusterPublicationStatus| s.operation_id.as_deref() == Some(operation);
    for object in ctx.publications.state().iter().filter(|o| o.status.as_ref().is_some_and(of_operation)) {
        // The receiver lives as long as the controller.
        let _ = ctx.wake.unbounded_send(ObjectRef::from_obj(object.as_ref()));
    }
}

fn project(object: &PublicationVerdict, outcome: &Outcome) -> PublicationVerdictStatus {
    let old = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let mut c = Conditions::new(&old.conditions, generation, kube_now());
    match outcome {
        Outcome::Applied(slot) => {
            let message = format!("stored in version {} of the record", slot.version);
            c.set(ConditionType::Applied, true, "Stored", &message);
        }
        Outcome::Bound => {
            c.set(ConditionType::Applied, true, "Stored", "the facade is bound to the new inventory");
        }
        Outcome::Refused(finding) => {
            let message = format!("{} ({})", finding.message, finding.rule);
            c.set(ConditionType::Refused, true, finding.code.reason(), &message);
        }
        Outcome::Waiting(finding, _) => {
            let message = format!("{} ({})", finding.message, finding.rule);
            c.set(ConditionType::Applied, false, finding.code.reason(), &message);
        }
        Outcome::Halted => {
            c.set(
                ConditionType::Applied,
                false,
                ErrorCode::InternalInvariant.reason(),
                "the operator halted (C-4)",
            );
        }
    }
    PublicationVerdictStatus { observed_generation: generation, conditions: c.finish() }
}
