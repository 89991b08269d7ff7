//! The environment, piece by piece, so that each is seen to start.

use std::path::Path;
use std::time::Duration;

use futures::future::try_join_all;

use super::terminal::Terminal;
use super::{Failure, samples};
use crate::cluster::{ClickHouseCluster, ClusterSpec, Lane};
use crate::environment::Environment;
use crate::error::Result;
use crate::kubernetes::{ChartInstall, ControlPlane};
use crate::manifests::{self, CONTROL_DATABASE, PLATFORM};
use crate::paths;
use crate::proxy::{FaultProxy, Tls};
use crate::workdir::WorkDir;
use crate::zookeeper::ZooKeeper;

const MEMBERS: usize = 2;
const READY_WITHIN: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 12;

/// What is missing is said before anything is started.
fn check_tools() -> Result<()> {
    for tool in ["zookeeper-server", "etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "helm"] {
        paths::tool(tool)?;
    }
    paths::existing(paths::root().join(Lane::V26_9.venv()).join("bin/python"), "tools/setup")?;
    paths::operator()?;
    paths::leash().map(|_| ())
}

/// An error of a step, with the end of the log that has the reason.
fn of_log<T>(result: Result<T>, log: impl AsRef<Path>) -> Result<T, Failure> {
    result.map_err(|error| Failure::with_log(error, log.as_ref(), TAIL_LINES))
}

pub async fn start(ui: &Terminal) -> Result<Environment, Failure> {
    ui.title("1  Set-up: everything on this machine, nothing of it stays");
    check_tools()?;
    let work = WorkDir::temporary("demo")?;
    let dir = work.path().to_owned();
    let ((zookeeper, cluster), control_plane) =
        tokio::try_join!(clickhouse(ui, &dir, &work), control_plane(ui, &work))?;

    let chart = ChartInstall::default();
    let what = "helm install";
    let say = format!("charts/{} into namespace {}", chart.release, chart.namespace);
    let installed = ui.step(what, control_plane.install_chart(chart), |_| say).await;
    let installed = of_log(installed, work.join("kubernetes/apiserver.log"))?;
    let operator_kubeconfig = control_plane.operator_kubeconfig(&installed).await?;

    cluster.create_database(CONTROL_DATABASE).await?;
    let tls = Tls::new(false)?;
    let proxies =
        try_join_all(cluster.members.iter().map(|m| FaultProxy::start_tls(m.index, m.spec.http(), &tls)))
            .await?;
    let mut env = Environment {
        operators: Vec::new(),
        proxies,
        cluster,
        zookeeper,
        control_plane,
        installed,
        operator_kubeconfig,
        work,
    };
    let user = env.operator_user();
    let say = move |_: &usize| {
        format!("a process, as {}", user.replace("system:serviceaccount:", "ServiceAccount "))
    };
    let started = ui.step("publication-operator", env.start_operator(), say).await;
    of_log(started, dir.join("operator-0.log"))?;
    let registered = ui.step("PublicationCluster", platform(&env, &tls), |seen: &String| seen.clone()).await;
    of_log(registered, dir.join("operator-0.log"))?;
    Ok(env)
}

async fn clickhouse(
    ui: &Terminal,
    dir: &Path,
    work: &WorkDir,
) -> Result<(ZooKeeper, ClickHouseCluster), Failure> {
    let home = work.subdir("zookeeper")?;
    let say = |zookeeper: &ZooKeeper| format!("{}, the Keeper of the cluster", zookeeper.address());
    let zookeeper = ui.step("ZooKeeper", ZooKeeper::start(&home), say).await;
    let zookeeper = of_log(zookeeper, home.join("zookeeper.log"))?;
    let spec = ClusterSpec::new(MEMBERS, zookeeper.address(), dir)?;
    let say = |cluster: &ClickHouseCluster| {
        let members: Vec<String> = cluster.members.iter().map(|m| m.spec.shown()).collect();
        members.join(" and ")
    };
    let cluster = ClickHouseCluster::start_spec(spec, Lane::V26_9, dir);
    let cluster = of_log(ui.step("2 ClickHouse members", cluster, say).await, dir.join("member-0.log"))?;
    Ok((zookeeper, cluster))
}

async fn control_plane(ui: &Terminal, work: &WorkDir) -> Result<ControlPlane, Failure> {
    let dir = work.subdir("kubernetes")?;
    let say = |control_plane: &ControlPlane| format!("Kubernetes at {}", control_plane.server());
    let started = ui.step("etcd, kube-apiserver", ControlPlane::start(&dir), say).await;
    of_log(started, dir.join("apiserver.log"))
}

/// The platform team's part: namespaces, Secret, CA and PublicationCluster from the sample.
async fn platform(env: &Environment, tls: &Tls) -> Result<String> {
    env.namespace(PLATFORM).await?;
    let mut shop = manifests::namespace("shop");
    // The sample's PublicationCluster lets in the namespaces with this label.
    shop["metadata"]["labels"] = serde_json::json!({"team": "shop"});
    env.apply(&shop).await?;
    let endpoints: Vec<String> = env.proxies.iter().map(FaultProxy::url).collect();
    let text = samples::platform(env.cluster.publisher_password(), &tls.ca, &endpoints)?;
    env.apply_yaml(&text).await?;
    env.wait_cluster_ready(READY_WITHIN).await?;
    Ok(format!("{} with these endpoints, over TLS: Ready", samples::PLATFORM))
}
