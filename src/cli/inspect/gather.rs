//! Reads with the caller's rights: the PublicationCluster, its Secret, then the ports of a verdict. No port is asked to
//! write.

use super::{At, Failure};
use crate::api::PublicationCluster;
use crate::clickhouse::{Authority, Connection, DistributedDdl, MemberCatalog, MemberProcesses};
use crate::cluster_access::credentials::{connect_as_caller, deadlines};
use crate::cluster_access::no_cluster;
use crate::controller::environment::{System, now};
use kube::{Api, Client, ResourceExt};
use publication_protocol::adjudicate::{ClusterAfresh, Ports, SlotName, look, look_at_cluster};
use publication_protocol::admission::Finding;
use publication_protocol::driver::Memory;
use publication_protocol::identity::RootId;
use publication_protocol::verdict::Afresh;
use std::sync::Arc;

/// A PublicationCluster and a connection to its members.
pub(in crate::cli) struct Cluster {
    pub(in crate::cli) client: Client,
    object: PublicationCluster,
    connection: Arc<Connection>,
}

impl Cluster {
    pub(in crate::cli) async fn open(at: &At) -> Result<Self, Failure> {
        let config = kube::Config::infer().await.map_err(|e| format!("no kubeconfig could be used: {e}"))?;
        let namespace = at.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config)?;
        let api: Api<PublicationCluster> = Api::namespaced(client.clone(), &namespace);
        let object = api.get_opt(&at.cluster).await?;
        let object = object.ok_or_else(|| told(&no_cluster(&namespace, &at.cluster)))?;
        let connection = Arc::new(connect_as_caller(&client, &object).await.map_err(|f| told(&f))?);
        Ok(Self { client, object, connection })
    }

    /// Namespace and name.
    pub(in crate::cli) fn name(&self) -> String {
        format!("{}/{}", self.namespace(), self.object.name_any())
    }

    pub(in crate::cli) fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    fn ports(&self) -> Owned {
        Owned {
            control: Authority::new(Arc::clone(&self.connection)),
            catalog: MemberCatalog::new(Arc::clone(&self.connection)),
            ddl: DistributedDdl::new(Arc::clone(&self.connection), Arc::new(now)),
            processes: MemberProcesses::new(Arc::clone(&self.connection)),
        }
    }

    /// J-4 without a slot.
    pub(in crate::cli) async fn binding(&self) -> Result<ClusterAfresh, Failure> {
        let spec = &self.object.spec;
        let owned = self.ports();
        look_at_cluster(&spec.cluster_name, spec.declare.internal_replication, &owned.lend())
            .await
            .map_err(|f| told(&f))
    }
}

struct Owned {
    control: Authority,
    catalog: MemberCatalog,
    ddl: DistributedDdl,
    processes: MemberProcesses,
}

impl Owned {
    fn lend(&self) -> Ports<'_, Authority, MemberCatalog, DistributedDdl, MemberProcesses, System> {
        Ports {
            control: &self.control,
            catalog: &self.catalog,
            ddl: &self.ddl,
            processes: &self.processes,
            environment: &System,
        }
    }
}

/// Everything of a slot; none = nothing was ever published there.
pub(in crate::cli) async fn slot(
    cluster: &Cluster,
    database: &str,
    target: &str,
) -> Result<Option<Afresh>, Failure> {
    let spec = &cluster.object.spec;
    let root = cluster.object.status.as_ref().and_then(|s| s.facade_root.clone());
    let root = root.and_then(|root| RootId::try_from(root).ok());
    let root =
        root.ok_or_else(|| format!("PublicationCluster {} shows no facade root yet", cluster.name()))?;
    let name = SlotName {
        root,
        cluster: spec.cluster_name.clone(),
        database: database.to_owned(),
        target: target.to_owned(),
        declared_internal_replication: spec.declare.internal_replication,
    };
    let owned = cluster.ports();
    let mut memory = Memory::default();
    look(&name, deadlines(&cluster.object), &mut memory, &owned.lend()).await.map_err(|f| told(&f))
}

fn told(finding: &Finding) -> Failure {
    format!("{}: {} ({})", finding.code.as_str(), finding.message, finding.rule).into()
}
