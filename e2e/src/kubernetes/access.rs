//! Ways into the control plane: kubeconfigs, ServiceAccount tokens, real kubectl and real helm.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::process::Command;

use super::ControlPlane;
use crate::error::{Context, Error, Result};
use crate::paths;

const TOKEN_SECONDS: i64 = 6 * 3600;

/// What `helm install` is asked for.
#[derive(Debug, Clone)]
pub struct ChartInstall {
    pub release: String,
    pub namespace: String,
    pub values: Value,
}

impl Default for ChartInstall {
    fn default() -> Self {
        Self {
            release: "publication-operator".to_owned(),
            namespace: "publication-system".to_owned(),
            values: json!({}),
        }
    }
}

/// What it left: the operator runs as this ServiceAccount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub release: String,
    pub namespace: String,
    pub service_account: String,
}

impl ControlPlane {
    pub async fn kubectl<A: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<String> {
        paths::output(&mut self.program("kubectl", args)?, None).await
    }

    /// `kubectl apply -f -`, as a person does it.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<String> {
        paths::output(&mut self.program("kubectl", ["apply", "-f", "-"])?, Some(yaml)).await
    }

    pub async fn helm<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<String> {
        paths::output(&mut self.program("helm", args)?, None).await
    }

    /// Real helm, the real chart. Not `--wait`: without a node nothing gets ready.
    pub async fn install_chart(&self, install: ChartInstall) -> Result<Installed> {
        let chart = paths::root().join("charts/publication-operator");
        let chart = paths::existing(chart, "a complete checkout")?;
        let values = self.dir.join(format!("values-{}.json", install.release));
        std::fs::write(&values, install.values.to_string()).context("write chart values")?;
        let chart = chart.display().to_string();
        let values = values.display().to_string();
        let (release, namespace) = (install.release, install.namespace);
        let args = ["install", &release, &chart, "--namespace", &namespace, "--create-namespace"];
        self.helm(args.into_iter().chain(["--values", &values])).await?;
        let label = ListParams::default().labels(&format!("app.kubernetes.io/instance={release}"));
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), &namespace);
        let found = accounts.list(&label).await.context("the chart's ServiceAccount")?.items;
        match found.as_slice() {
            [account] => Ok(Installed { service_account: account.name_any(), release, namespace }),
            other => {
                Err(Error::other("the chart's ServiceAccount", format!("{} of them, not one", other.len())))
            }
        }
    }

    /// A bound token through the TokenRequest API.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let what = format!("a token of {namespace}/{name}");
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        answer.context(what.clone())?.status.and_then(|status| status.token).context(what)
    }

    /// A kubeconfig file with this token and nothing else.
    pub fn kubeconfig_for_token(&self, user: &str, token: &str) -> Result<PathBuf> {
        let text = kubeconfig_text(&self.server, &self.pki.ca_pem, user, token);
        write_private(&self.dir.join(format!("{user}.kubeconfig")), &text)
    }

    /// Both of the above for the chart's ServiceAccount.
    pub async fn operator_kubeconfig(&self, installed: &Installed) -> Result<PathBuf> {
        let token = self.service_account_token(&installed.namespace, &installed.service_account).await?;
        self.kubeconfig_for_token(&installed.service_account, &token)
    }

    fn program<A: AsRef<std::ffi::OsStr>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Command> {
        let mut command = Command::new(paths::tool(name)?);
        let home = self.dir.join("home");
        // Their caches and configuration stay in the work directory.
        command.args(args).env("KUBECONFIG", &self.kubeconfig).env("HOME", &home).env("TMPDIR", &self.dir);
        for name in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(name, home.join(name));
        }
        Ok(command)
    }
}

/// YAML takes JSON, which spares us a second quoting.
pub(super) fn kubeconfig_text(server: &str, ca_pem: &str, user: &str, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {
            "server": server, "certificate-authority-data": STANDARD.encode(ca_pem),
        }}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
    })
    .to_string()
}

/// Readable by its owner only: kubectl and helm warn otherwise, and it holds a token.
pub(super) fn write_private(path: &Path, text: &str) -> Result<PathBuf> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    let what = format!("write {}", path.display());
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).context(what.clone())?;
    file.write_all(text.as_bytes()).context(what)?;
    Ok(path.to_owned())
}
