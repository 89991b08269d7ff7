//! Everything together: Keeper, members, a fault proxy in front of each, control plane, chart, operators.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{ClickHouseCluster, ClusterSpec, Lane};
use crate::ddl::DdlEntry;
use crate::error::{Context, Error, Result};
use crate::evidence::Slot;
use crate::keeper::Keeper;
use crate::kubernetes::{ChartInstall, ControlPlane, Installed, Kind};
use crate::manifests::{self, CLUSTER_OBJECT, CONTROL_DATABASE, PLATFORM, Publication, condition};
use crate::operator::{Operator, OperatorLaunch};
use crate::proxy::{self, Door, FaultProxy, Record, Rule};
use crate::workdir::WorkDir;
use crate::zookeeper::ZooKeeper;

/// The control row that binds a facade to its cluster.
pub const FACADE_KEY: &str = "facade";
/// The row of `doctor --self-test`, which Keeper keeps until the server forgets the dropped table.
pub const SELF_TEST_KEY: &str = "selftest";

#[derive(Debug, Clone)]
pub struct Options {
    pub name: String,
    pub members: usize,
    pub lane: Lane,
    pub chart: ChartInstall,
}

impl Default for Options {
    fn default() -> Self {
        Self { name: "env".to_owned(), members: 2, lane: Lane::V26_9, chart: ChartInstall::default() }
    }
}

/// Fields are dropped from the top: operators first, the directory last.
#[derive(Debug)]
pub struct Environment {
    pub operators: Vec<Operator>,
    pub proxies: Vec<FaultProxy>,
    pub cluster: ClickHouseCluster,
    pub zookeeper: ZooKeeper,
    pub control_plane: ControlPlane,
    pub installed: Installed,
    pub operator_kubeconfig: PathBuf,
    pub work: WorkDir,
}

impl Environment {
    /// All but the operator: cluster, proxies, control plane with the chart, and an empty control database.
    pub async fn start(options: Options) -> Result<Self> {
        let work = WorkDir::new(&options.name)?;
        let dir = work.path().to_owned();
        let kubernetes = work.subdir("kubernetes")?;
        let clickhouse = async {
            let zookeeper = ZooKeeper::start(&work.subdir("zookeeper")?).await?;
            let spec = ClusterSpec::new(options.members, zookeeper.address(), &dir)?;
            let cluster = ClickHouseCluster::start_spec(spec, options.lane, &dir).await?;
            Ok::<_, Error>((zookeeper, cluster))
        };
        let control_plane = async {
            let control_plane = ControlPlane::start(&kubernetes).await?;
            let installed = control_plane.install_chart(options.chart.clone()).await?;
            Ok((control_plane, installed))
        };
        let ((zookeeper, cluster), (control_plane, installed)) = tokio::try_join!(clickhouse, control_plane)?;
        let mut proxies = Vec::new();
        for member in &cluster.members {
            proxies.push(FaultProxy::start(member.index, member.spec.http()).await?);
        }
        let operator_kubeconfig = control_plane.operator_kubeconfig(&installed).await?;
        cluster.create_database(CONTROL_DATABASE).await?;
        let operators = Vec::new();
        Ok(Self {
            operators,
            proxies,
            cluster,
            zookeeper,
            control_plane,
            installed,
            operator_kubeconfig,
            work,
        })
    }

    /// The operator as the API server's log names it.
    pub fn operator_user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.installed.namespace, self.installed.service_account)
    }

    /// One more instance with the chart's ServiceAccount, named `operator-<n>`; its index in `operators`.
    pub async fn start_operator(&mut self) -> Result<usize> {
        let name = format!("operator-{}", self.operators.len());
        self.launch_operator(OperatorLaunch::new(name, self.operator_kubeconfig.clone())).await
    }

    /// The same with arguments and environment of the test's choice.
    pub async fn launch_operator(&mut self, launch: OperatorLaunch) -> Result<usize> {
        let launch = launch.env("POD_NAMESPACE", self.installed.namespace.clone());
        self.operators.push(launch.start(self.work.path()).await?);
        Ok(self.operators.len() - 1)
    }

    pub fn operator(&mut self, index: usize) -> Result<&mut Operator> {
        self.operators.get_mut(index).context(format!("operator {index}"))
    }

    pub fn proxy(&self, member: usize) -> Result<&FaultProxy> {
        self.proxies.get(member).context(format!("proxy {member}"))
    }

    pub fn keeper(&self) -> Keeper {
        self.zookeeper.keeper()
    }

    pub async fn ddl_entries(&self) -> Result<Vec<DdlEntry>> {
        self.keeper().ddl_entries().await
    }

    /// Every slot of every facade, as it lies in Keeper; the reserved binding row is not one.
    pub async fn slots(&self) -> Result<Vec<Slot>> {
        let keeper = self.keeper();
        let mut slots = Vec::new();
        for root in keeper.keeper_map_roots().await? {
            let rows = keeper.keeper_map_rows(&root).await?;
            let rows = rows.iter().filter(|row| row.key != FACADE_KEY && row.key != SELF_TEST_KEY);
            slots.extend(rows.map(Slot::decode).collect::<Result<Vec<_>>>()?);
        }
        Ok(slots)
    }

    /// What the operator sent through all proxies so far, in order of arrival.
    pub fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.proxies.iter().flat_map(FaultProxy::records).collect();
        records.sort_by_key(|record| record.sequence);
        records
    }

    /// One rule on all proxies: "the second mutation" is the second on any of them.
    pub fn rule(&self, rule: Rule) -> Result<proxy::Installed> {
        let (first, others) = self.proxies.split_first().context("a proxy")?;
        let installed = first.rule(rule);
        others.iter().for_each(|proxy| proxy.share(&installed));
        Ok(installed)
    }

    /// No rules, open doors, no DDL or replica faults, empty logs: for the next case on this environment.
    pub async fn clear_faults(&self) -> Result<()> {
        for proxy in &self.proxies {
            proxy.clear_rules();
            proxy.door(Door::Open).await?;
            proxy.clear_log();
        }
        for member in &self.cluster.members {
            member.ddl_clear().await?;
            member.replica_clear().await?;
            member.admin("POST", "/statements/clear", serde_json::json!({})).await?;
        }
        Ok(())
    }

    /// A dead member refuses connections at its proxy as well.
    pub async fn kill_member(&mut self, member: usize) -> Result<()> {
        self.proxy(member)?.door(Door::Closed).await?;
        self.cluster.kill9(member).await
    }

    pub async fn restart_member(&mut self, member: usize) -> Result<()> {
        self.cluster.restart(member).await?;
        self.proxy(member)?.door(Door::Open).await
    }

    pub async fn namespace(&self, name: &str) -> Result<()> {
        self.apply(&manifests::namespace(name)).await
    }

    /// `kubectl apply` of one object; YAML takes JSON.
    pub async fn apply(&self, object: &Value) -> Result<()> {
        self.apply_yaml(&object.to_string()).await
    }

    pub async fn apply_yaml(&self, yaml: &str) -> Result<()> {
        self.control_plane.apply_yaml(yaml).await.map(|_| ())
    }

    /// The Secret with the operator's user and this password.
    pub async fn apply_secret(&self, password: &str) -> Result<()> {
        self.apply(&manifests::secret(password)).await
    }

    /// The PublicationCluster over the proxies; change what the case is about and `apply` it.
    pub fn publication_cluster(&self) -> Value {
        let endpoints: Vec<String> = self.proxies.iter().map(FaultProxy::url).collect();
        manifests::publication_cluster(&endpoints)
    }

    /// Namespace `platform`, Secret, PublicationCluster.
    pub async fn apply_platform(&self) -> Result<()> {
        self.namespace(PLATFORM).await?;
        self.apply_secret(self.cluster.publisher_password()).await?;
        self.apply(&self.publication_cluster()).await
    }

    /// Applies it as it stands.
    pub async fn publish(&self, publication: &Publication) -> Result<()> {
        self.apply(&publication.manifest()).await
    }

    pub async fn publication(&self, namespace: &str, name: &str) -> Result<Value> {
        let found = self.control_plane.object(Kind::Publication, namespace, name).await?;
        found.context(format!("ClusterPublication {namespace}/{name}"))
    }

    /// Waits until `found` gives a value for the object; a failure carries the logs.
    pub async fn wait_for<T>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        within: Duration,
        what: &str,
        found: impl FnMut(&Value) -> Option<T> + Send,
    ) -> Result<T> {
        let waited = self.control_plane.wait_for(kind, namespace, name, within, what, found).await;
        waited.map_err(|e| self.explain(&e))
    }

    /// Waits for exactly this outcome; another one that is final ends the wait.
    pub async fn wait_outcome(
        &self,
        namespace: &str,
        name: &str,
        outcome: &str,
        within: Duration,
    ) -> Result<Value> {
        let what = format!("outcome {outcome}");
        let object = self
            .wait_for(Kind::Publication, namespace, name, within, &what, |object| {
                let now = object["status"]["outcome"].as_str()?;
                // Blocked may still change into what is wanted.
                (now == outcome || now != "Blocked").then(|| object.clone())
            })
            .await?;
        if object["status"]["outcome"] == outcome {
            return Ok(object);
        }
        Err(self.explain(&Error::other(what, format!("ended otherwise: {}", object["status"]))))
    }

    /// The PublicationCluster's `Ready` condition is True.
    pub async fn wait_cluster_ready(&self, within: Duration) -> Result<Value> {
        self.wait_for(Kind::Cluster, PLATFORM, CLUSTER_OBJECT, within, "Ready", |object| {
            (condition(object, "Ready")?["status"] == "True").then(|| object.clone())
        })
        .await
    }

    /// The error with what every process said last.
    pub fn explain(&self, error: &Error) -> Error {
        let operators: String = self
            .operators
            .iter()
            .map(|o| format!("--- {}\n{}\n", o.log_path().display(), o.log_tail()))
            .collect();
        let rest =
            [operators, self.cluster.log_tails(), format!("--- zookeeper\n{}\n", self.zookeeper.log_tail())];
        Error::other(error.to_string(), format!("\n{}", rest.concat()))
    }
}
