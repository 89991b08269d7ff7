//! A real control plane: etcd, kube-apiserver and the controller-manager's namespace and garbage collectors.

mod access;
mod audit;
mod objects;
mod pki;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub use access::{ChartInstall, Installed};
pub use audit::ApiCall;
pub use objects::{GROUP, Kind};
use pki::Pki;

use crate::error::{Context, Result};
use crate::leash::{Launch, Leashed};
use crate::paths;
use crate::poll::{Seen, eventually};
use crate::ports;

const READY_WITHIN: Duration = Duration::from_secs(60);
const ADMIN: &str = "e2e-admin";

#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order: clients of a server end before it.
    manager: Leashed,
    apiserver: Leashed,
    etcd: Leashed,
    dir: PathBuf,
    server: String,
    pki: Pki,
    audit_log: PathBuf,
    kubeconfig: PathBuf,
    client: KubeClient,
}

/// `kube::Client` without its missing Debug.
#[derive(Clone)]
struct KubeClient(Client);

impl std::fmt::Debug for KubeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KubeClient")
    }
}

impl ControlPlane {
    /// `dir` holds certificates, data, logs and kubeconfigs.
    pub async fn start(dir: &Path) -> Result<Self> {
        // All programs first: what is missing is said before anything is started.
        let etcd = paths::tool("etcd")?;
        let apiserver = paths::tool("kube-apiserver")?;
        let manager = paths::tool("kube-controller-manager")?;
        std::fs::create_dir_all(dir).context(format!("create {}", dir.display()))?;
        let pki = Pki::create(&dir.join("pki"))?;

        let etcd_url = format!("http://127.0.0.1:{}", ports::free()?);
        let mut etcd = start_etcd(etcd, dir, &etcd_url).await?;

        let port = ports::free()?;
        let server = format!("https://127.0.0.1:{port}");
        let token = uuid::Uuid::new_v4().to_string();
        let audit_log = dir.join("audit.log");
        let mut apiserver = start_apiserver(apiserver, dir, &pki, port, &token, &etcd_url).await?;

        let text = access::kubeconfig_text(&server, &pki.ca_pem, ADMIN, &token);
        let kubeconfig = access::write_private(&dir.join("admin.kubeconfig"), &text)?;
        let client = client_of(&text).await?;
        eventually(READY_WITHIN, "the API server is ready", || {
            let running = etcd.check_running().and_then(|()| apiserver.check_running());
            let client = client.clone();
            async move {
                running?;
                let request = http::Request::get("/readyz").body(Vec::new()).context("readyz")?;
                let text = client.request_text(request).await.context("readyz")?;
                Ok(Seen::when(text == "ok", text))
            }
        })
        .await?;

        let manager = Launch::new("kube-controller-manager", manager, dir.join("controller-manager.log"))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(["--controllers=namespace-controller,garbage-collector-controller"])
            .args(["--leader-elect=false", "--secure-port=0"])
            .grace(Duration::from_secs(1))
            .start()
            .await?;
        let client = KubeClient(client);
        Ok(Self { manager, apiserver, etcd, dir: dir.to_owned(), server, pki, audit_log, kubeconfig, client })
    }

    /// As cluster admin.
    pub fn client(&self) -> Client {
        self.client.0.clone()
    }

    pub fn server(&self) -> &str {
        &self.server
    }

    /// The admin's.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// For tests in which the API server is gone, or stands still.
    pub fn apiserver(&mut self) -> &mut Leashed {
        &mut self.apiserver
    }

    /// Calls on our kinds, events, leases and Secrets so far, by whoever made them.
    pub fn api_calls(&self) -> Result<Vec<ApiCall>> {
        audit::read(&self.audit_log)
    }

    pub fn log_tails(&self) -> String {
        [&self.etcd, &self.apiserver, &self.manager]
            .map(|p| format!("--- {}\n{}\n", p.name(), p.log_tail()))
            .concat()
    }
}

async fn client_of(kubeconfig: &str) -> Result<Client> {
    let parsed = Kubeconfig::from_yaml(kubeconfig).context("kubeconfig")?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(parsed, &options).await.context("kubeconfig")?;
    Client::try_from(config).context("Kubernetes client")
}

async fn start_etcd(program: PathBuf, dir: &Path, url: &str) -> Result<Leashed> {
    let peer = format!("http://127.0.0.1:{}", ports::free()?);
    Launch::new("etcd", program, dir.join("etcd.log"))
        .arg(format!("--data-dir={}", dir.join("etcd").display()))
        .arg(format!("--listen-client-urls={url}"))
        .arg(format!("--advertise-client-urls={url}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
        // A crash of the machine may lose the data; nobody will look for it.
        .args(["--unsafe-no-fsync", "--log-level=warn"])
        .grace(Duration::from_secs(1))
        .start()
        .await
}

async fn start_apiserver(
    program: PathBuf,
    dir: &Path,
    pki: &Pki,
    port: u16,
    token: &str,
    etcd_url: &str,
) -> Result<Leashed> {
    let tokens = dir.join("tokens.csv");
    access::write_private(&tokens, &format!("{token},{ADMIN},{ADMIN},\"system:masters\"\n"))?;
    let policy = dir.join("audit-policy.yaml");
    std::fs::write(&policy, audit::POLICY).context("write the audit policy")?;
    Launch::new("kube-apiserver", program, dir.join("apiserver.log"))
        .arg(format!("--etcd-servers={etcd_url}"))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg("--endpoint-reconciler-type=none")
        .arg(format!("--secure-port={port}"))
        .arg(format!("--tls-cert-file={}", pki.serving_cert.display()))
        .arg(format!("--tls-private-key-file={}", pki.serving_key.display()))
        .arg(format!("--cert-dir={}", dir.join("apiserver").display()))
        .arg("--service-account-issuer=https://publication-e2e.invalid")
        .arg(format!("--service-account-key-file={}", pki.account_public.display()))
        .arg(format!("--service-account-signing-key-file={}", pki.account_key.display()))
        .arg("--authorization-mode=RBAC")
        .arg(format!("--token-auth-file={}", tokens.display()))
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--disable-admission-plugins=ServiceAccount")
        .arg(format!("--audit-policy-file={}", policy.display()))
        .arg(format!("--audit-log-path={}", dir.join("audit.log").display()))
        // Blocking: a call is in the log before its answer is out, so counting needs no wait.
        .arg("--audit-log-mode=blocking")
        .grace(Duration::from_secs(1))
        .start()
        .await
}
