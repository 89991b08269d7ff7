//! Reads for `doctor`, with the caller's rights: the object, its Secret, then what an examination reads of the members.

use super::judge::{Seen, named, plain, unreadable};
use super::selftest;
use crate::api::PublicationCluster;
use crate::cli::inspect::At;
use crate::cli::plan::report::Level;
use crate::clickhouse::checkup::checkup;
use crate::clickhouse::probe::probe;
use crate::clickhouse::{Authority, Connection, MemberCatalog};
use crate::cluster_access::credentials::connect_as_caller;
use crate::cluster_access::examination::{capabilities, inventory_of, reach};
use crate::cluster_access::no_cluster;
use kube::{Api, Client};
use publication_protocol::facade::BINDING_KEY;
use publication_protocol::ports::{Catalog, ControlTable};
use std::sync::Arc;

/// Everything that is there to be read; a finding ends only what depends on it.
pub(super) async fn gather(at: &At, self_test: bool) -> Seen {
    let config = kube::Config::infer().await.ok();
    let own = config.as_ref().map(|config| config.default_namespace.clone()).unwrap_or_default();
    let namespace = at.namespace.clone().unwrap_or(own);
    let mut seen = Seen { cluster: format!("{namespace}/{}", at.cluster), ..Seen::default() };
    let Some(client) = config.and_then(|config| Client::try_from(config).ok()) else {
        seen.notes.push(unreadable("the Kubernetes API", "no kubeconfig could be used"));
        return seen;
    };
    let api: Api<PublicationCluster> = Api::namespaced(client.clone(), &namespace);
    match api.get_opt(&at.cluster).await {
        Ok(Some(object)) => {
            seen.object = Some(object.clone());
            match connect_as_caller(&client, &object).await {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    members(&connection, &object, &mut seen).await;
                    if self_test {
                        seen.self_test = Some(tried(&connection, &object, &seen).await);
                    }
                }
                Err(finding) => seen.notes.push(named("credentials", &finding, true)),
            }
        }
        Ok(None) => seen.notes.push(named("object", &no_cluster(&namespace, &at.cluster), false)),
        Err(kube::Error::Api(status)) => seen.notes.push(unreadable("the object", &status.message)),
        Err(_) => seen.notes.push(unreadable("the object", "the API server does not answer")),
    }
    seen
}

/// Only on a cluster whose members are known: a statement of ours goes to all of them or to nobody.
async fn tried(connection: &Arc<Connection>, object: &PublicationCluster, seen: &Seen) -> selftest::Done {
    let servers = seen.servers();
    let agreed = seen.is_whole().then(|| inventory_of(object, &servers).ok()).flatten();
    let Some(inventory) = agreed.filter(|_| capabilities(object, &servers).is_empty()) else {
        let evidence = "not run: topology, control database and versions must be in order first".to_owned();
        let check = plain(Level::Warn, "self-test", "B-4", evidence, None);
        return selftest::Done { steps: Vec::new(), checks: vec![check] };
    };
    selftest::run(connection, &inventory).await
}

async fn members(connection: &Arc<Connection>, object: &PublicationCluster, seen: &mut Seen) {
    seen.probes = probe(connection).await;
    if seen.probes.iter().all(|probe| probe.answer.is_err()) {
        return;
    }
    seen.through = Some(MemberCatalog::new(Arc::clone(connection)).members(&reach(object)).await);
    seen.binding = Some(Authority::new(Arc::clone(connection)).read_all(BINDING_KEY).await);
    seen.checkup = Some(checkup(connection).await);
}
