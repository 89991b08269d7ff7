//! What the object says by itself.

use super::judge::{Told, plain};
use super::report::Check;
use crate::api::{ConditionType, PublicationCluster};
use crate::cli::plan::report::Level;

/// Repeated requests defeat the protocol, and no catalog shows who repeats them.
const NO_PROXY: &str = "Make sure that nothing between the operator and ClickHouse repeats a request: no mesh sidecar on the \
     operator's pod (the chart turns injection off) or on the servers', no load balancer or proxy with retries. Then set \
     spec.declare.noRetryingProxy to true.";

pub(super) fn judge(object: &PublicationCluster, told: &mut Told) {
    told.checks.push(examined(object));
    let spec = &object.spec;
    if spec.suspend {
        let evidence = "spec.suspend is true: nothing new is dispatched".to_owned();
        let remedy = Some("Set spec.suspend to false when the work on the cluster is done.");
        told.checks.push(plain(Level::Warn, "object", "api", evidence, remedy));
    }
    if spec.access.is_empty() {
        let evidence = "spec.access is empty: nobody may publish here".to_owned();
        let remedy = Some("Name the namespaces and the databases that they may publish in spec.access.");
        told.checks.push(plain(Level::Warn, "object", "api", evidence, remedy));
    }
    told.checks.push(if spec.declare.no_retrying_proxy {
        let evidence = "declared by the platform; no catalog can show it".to_owned();
        plain(Level::Ok, "no retrying proxy", "C-4", evidence, None)
    } else {
        let evidence =
            "declare.noRetryingProxy is not set: a sidecar or proxy that repeats a request would send a \
                        statement twice behind the operator's back"
                .to_owned();
        plain(Level::Warn, "no retrying proxy", "C-4", evidence, Some(NO_PROXY))
    });
}

fn examined(object: &PublicationCluster) -> Check {
    let status = object.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|c| c.type_ == ConditionType::Ready.as_str());
    match ready {
        Some(ready) if status.observed_generation == object.metadata.generation => {
            if ready.status == "True" {
                let evidence = "the operator examined it as it is now: Ready".to_owned();
                return plain(Level::Ok, "object", "api", evidence, None);
            }
            let evidence =
                format!("the operator said when it last looked: {}: {}", ready.reason, ready.message);
            let remedy = "Compare with what is found now, below; the operator looks again by itself.";
            plain(Level::Warn, "object", "api", evidence, Some(remedy))
        }
        _ => {
            let evidence = "the operator has not examined the object as it is now".to_owned();
            let remedy = "Look again in a moment; if it stays so, see whether the operator runs and watches this namespace.";
            plain(Level::Wait, "object", "api", evidence, Some(remedy))
        }
    }
}
