//! One reconciliation of a PublicationVerdict (J): it is judged, stored or refused, and never sends a statement.

use super::conditions::{Conditions, is_true};
use super::context::{Context, kube_now};
use super::credentials::{connect, deadlines};
use super::environment::{System, now};
use super::kube_writes::{Version, apply_status_over};
use super::{receipts, resolve};
use crate::api::{ClusterPublication, ConditionType, PublicationVerdict, PublicationVerdictStatus};
use crate::clickhouse::{Authority, DistributedDdl, MemberCatalog, MemberProcesses};
use crate::cluster_access::no_cluster;
use kube::ResourceExt;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use publication_protocol::adjudicate::{Outcome, Ports, SlotName, decision, pass, pass_over_cluster, wait};
use publication_protocol::admission::Finding;
use publication_protocol::canonical::Digest;
use publication_protocol::code::ErrorCode;
use publication_protocol::driver::{Memory, Requeue};
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
    // The verdict cannot be changed, so only what is wrong with itself refuses it for good.
    let outcome = match asked(&object) {
        Err(finding) => Outcome::Refused(finding),
        Ok(asked) => consider(&object, asked, &ctx, &uid).await,
    };
    if let Outcome::Applied(slot) = &outcome {
        receipts::keep_of_verdict(&object, slot, &ctx).await?;
    }
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
        Outcome::Applied(_) | Outcome::Bound => {
            wake(&object, &ctx);
            Ok(Action::await_change())
        }
        Outcome::Refused(_) => Ok(Action::await_change()),
    }
}

/// What a verdict asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    /// On the operation that holds a slot.
    Slot { database: String, target: String, operation: Digest, decision: Decision, evidence: Digest },
    /// J-4 without a slot.
    Binding { inventory: Digest, evidence: Digest },
}

/// The verdict's own fields, and nothing else: what it finds wrong never gets better.
fn asked(object: &PublicationVerdict) -> Result<Asked, Finding> {
    let spec = &object.spec;
    let digest = |text: &str, field: &str| {
        Digest::try_from(text.to_owned())
            .map_err(|_| invalid(&format!("{field} is not 64 lower-case hex digits")))
    };
    let evidence = digest(&spec.evidence_digest, "evidenceDigest")?;
    let inventory =
        spec.inventory_digest.as_deref().map(|text| digest(text, "inventoryDigest")).transpose()?;
    let decision = decision(&format!("{:?}", spec.decision), spec.name.as_deref(), inventory)
        .ok_or_else(|| invalid("name goes with NameCleared alone, inventoryDigest with Rebound alone"))?;
    match (&spec.database, &spec.target, &spec.operation_id, decision) {
        (Some(database), Some(target), Some(operation), decision) => {
            let operation = digest(operation, "operationId")?;
            let (database, target) = (database.clone(), target.clone());
            Ok(Asked::Slot { database, target, operation, decision, evidence })
        }
        (None, None, None, Decision::Rebound(inventory)) => Ok(Asked::Binding { inventory, evidence }),
        _ => Err(invalid("database, target and operationId name the slot; give all three")),
    }
}

/// What stands between the verdict and its evidence, the PublicationCluster's own mistakes included, is waited out.
async fn consider(object: &PublicationVerdict, asked: Asked, ctx: &Context, uid: &str) -> Outcome {
    let mut remembered = ctx.remembered(uid);
    let outcome = match judged(object, asked, ctx, &mut remembered.memory).await {
        Ok(outcome) => outcome,
        Err(finding) => wait(finding, &mut remembered.memory),
    };
    ctx.remember(uid, remembered);
    outcome
}

async fn judged(
    object: &PublicationVerdict,
    asked: Asked,
    ctx: &Context,
    memory: &mut Memory,
) -> Result<Outcome, Finding> {
    let namespace = object.namespace().unwrap_or_default();
    let name = &object.spec.cluster_ref.name;
    let cluster = ctx
        .clusters
        .get(&ObjectRef::new(name).within(&namespace))
        .ok_or_else(|| no_cluster(&namespace, name))?;
    let connection = Arc::new(connect(&ctx.client, &cluster).await?);
    let ports = Ports {
        control: &Authority::new(Arc::clone(&connection)),
        catalog: &MemberCatalog::new(Arc::clone(&connection)),
        ddl: &DistributedDdl::new(Arc::clone(&connection), Arc::new(now)),
        processes: &MemberProcesses::new(connection),
        environment: &System,
    };
    let declared = cluster.spec.declare.internal_replication;
    Ok(match asked {
        Asked::Slot { database, target, operation, decision, evidence } => {
            let slot = SlotName {
                root: resolve::shown_root(&cluster)?,
                cluster: cluster.spec.cluster_name.clone(),
                database,
                target,
                declared_internal_replication: declared,
            };
            let verdict = Verdict { uid: object.uid().unwrap_or_default(), operation, decision, evidence };
            pass(&slot, &verdict, deadlines(&cluster), memory, &ports).await
        }
        Asked::Binding { inventory, evidence } => {
            let name = &cluster.spec.cluster_name;
            pass_over_cluster(name, declared, (inventory, evidence), memory, &ports).await
        }
    })
}

fn invalid(message: &str) -> Finding {
    Finding::block(ErrorCode::SpecInvalid, "J-1", message)
}

/// Whoever the verdict concerns looks at the record again now: its own operation, and those that wait for the slot, are
/// fenced out of a name, or see another inventory.
fn wake(object: &PublicationVerdict, ctx: &Context) {
    for publication in ctx.publications.state().iter().filter(|p| concerns(object, p)) {
        ctx.verdict_took_effect(&publication.uid().unwrap_or_default());
        // The receiver lives as long as the controller.
        let _ = ctx.wake.unbounded_send(ObjectRef::from_obj(publication.as_ref()));
    }
}

fn concerns(object: &PublicationVerdict, publication: &ClusterPublication) -> bool {
    let (own, at) = (publication.namespace().unwrap_or_default(), &publication.spec.cluster_ref);
    let here = Some(at.namespace_or(&own)) == object.namespace().as_deref()
        && at.name == object.spec.cluster_ref.name;
    let same = |asked: &Option<String>, own: &String| asked.as_ref().is_none_or(|asked| asked == own);
    here && !resolve::is_finished(publication)
        && same(&object.spec.database, &publication.spec.database)
        && same(&object.spec.target, &publication.spec.target)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn verdict(change: &Value) -> PublicationVerdict {
        let mut spec = json!({
            "clusterRef": {"name": "analytics"}, "database": "shop", "target": "orders",
            "operationId": "a".repeat(64), "decision": "NotApplied", "evidenceDigest": "b".repeat(64), "reason": "r",
        });
        for (field, value) in change.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "PublicationVerdict",
            "metadata": {"name": "v", "namespace": "platform", "uid": "u"}, "spec": spec,
        });
        serde_json::from_value(object).unwrap()
    }

    /// Everything that can refuse a verdict before its slot is read is in its own fields.
    // proves: J-1
    #[test]
    fn only_its_own_fields_refuse_a_verdict() {
        assert!(matches!(asked(&verdict(&json!({}))), Ok(Asked::Slot { .. })));
        for (change, word) in [
            (json!({"evidenceDigest": "x"}), "evidenceDigest"),
            (json!({"operationId": "x"}), "operationId"),
            (json!({"target": null}), "all three"),
            (json!({"name": "orders__pub_1"}), "NameCleared"),
            (json!({"decision": "Rebound"}), "Rebound"),
        ] {
            let finding = asked(&verdict(&change)).unwrap_err();
            assert!(finding.code == ErrorCode::SpecInvalid && finding.message.contains(word), "{finding:?}");
        }
        let binding = json!({
            "database": null, "target": null, "operationId": null, "decision": "Rebound",
            "inventoryDigest": "c".repeat(64),
        });
        assert!(matches!(asked(&verdict(&binding)), Ok(Asked::Binding { .. })));
    }

    fn publication(change: &Value) -> ClusterPublication {
        let mut object = json!({
            "apiVersion": "clickhouse.dpone.dev/v1alpha1", "kind": "ClusterPublication",
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "clusterRef": {"name": "analytics", "namespace": "platform"}, "database": "shop",
                "target": "orders", "candidate": "orders__pub_1", "rows": {"exact": 1},
            },
        });
        for (path, value) in change.as_object().into_iter().flatten() {
            *object.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    // proves: F-2
    #[test]
    fn a_verdict_wakes_those_of_its_slot_and_a_rebound_of_the_cluster_all_of_them() {
        let own = verdict(&json!({}));
        let cluster = verdict(&json!({"database": null, "target": null, "operationId": null}));
        let same = publication(&json!({}));
        let other_target = publication(&json!({"/spec/target": "items", "/spec/candidate": "items__pub_1"}));
        let elsewhere = publication(&json!({"/spec/clusterRef/namespace": "shop"}));
        let mut over = same.clone();
        over.status = Some(serde_json::from_value(json!({"outcome": "Succeeded"})).unwrap());
        assert_eq!(
            [&same, &other_target, &elsewhere, &over].map(|p| (concerns(&own, p), concerns(&cluster, p))),
            [(true, true), (false, true), (false, false), (false, false)]
        );
    }
}
