//! The operator under test: its own process, with the chart's ServiceAccount and nothing more.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::leash::{Launch, Leashed};
use crate::paths;
use crate::poll::{Seen, eventually};
use crate::ports;

const READY_WITHIN: Duration = Duration::from_secs(30);
const FILTER: &str = "info,publication_operator=debug";

/// How to start one instance; restarts use the same.
#[derive(Debug, Clone)]
pub struct OperatorLaunch {
    pub name: String,
    /// Another program than `paths::operator()`.
    pub program: Option<PathBuf>,
    pub kubeconfig: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

impl OperatorLaunch {
    pub fn new(name: impl Into<String>, kubeconfig: PathBuf) -> Self {
        Self { name: name.into(), program: None, kubeconfig, args: Vec::new(), env: Vec::new() }
    }

    /// Behind `run --listen …`.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Logs to `<dir>/<name>.log`, all lives in one file.
    pub async fn start(self, dir: &Path) -> Result<Operator> {
        let listen = ports::loopback(ports::free()?);
        let log = dir.join(format!("{}.log", self.name));
        let process = spawn(&self, listen, &log).await?;
        let mut operator = Operator { launch: self, listen, log, process };
        operator.ready().await?;
        Ok(operator)
    }
}

#[derive(Debug)]
pub struct Operator {
    launch: OperatorLaunch,
    listen: SocketAddr,
    log: PathBuf,
    process: Leashed,
}

impl Operator {
    /// Health and metrics.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    pub fn process(&mut self) -> &mut Leashed {
        &mut self.process
    }

    pub async fn kill9(&mut self) -> Result<()> {
        self.process.kill9().await
    }

    /// SIGTERM; its exit code.
    pub async fn terminate(&mut self, within: Duration) -> Result<i32> {
        self.process.term()?;
        self.process.wait_exit(within).await
    }

    /// A new process of the same launch; the old one is ended if it runs.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.end();
        self.process = spawn(&self.launch, self.listen, &self.log).await?;
        self.ready().await
    }

    pub async fn ready(&mut self) -> Result<()> {
        let (process, listen) = (&mut self.process, self.listen);
        let waited = eventually(READY_WITHIN, &format!("{} is ready", self.launch.name), || {
            let running = process.check_running();
            async move {
                running?;
                let (status, text) = crate::http::get(listen, "/readyz").await?;
                Ok(Seen::when(status == 200, format!("{status}: {text}")))
            }
        })
        .await;
        waited.map_err(
            |e| if e.is_final() { e } else { Error::other(e.to_string(), paths::tail(&self.log, 30)) },
        )
    }

    pub async fn metrics(&self) -> Result<String> {
        crate::http::get(self.listen, "/metrics").await.map(|(_, text)| text)
    }

    pub fn log_path(&self) -> &Path {
        &self.log
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

async fn spawn(launch: &OperatorLaunch, listen: SocketAddr, log: &Path) -> Result<Leashed> {
    let program = launch.program.clone().map_or_else(paths::operator, Ok)?;
    let mut process = Launch::new(&launch.name, program, log)
        .arg("run")
        .args(["--listen".to_owned(), listen.to_string()])
        .args(&launch.args)
        .env("KUBECONFIG", &launch.kubeconfig)
        .env("NO_COLOR", "1")
        .env("RUST_LOG", std::env::var("E2E_RUST_LOG").unwrap_or_else(|_| FILTER.to_owned()));
    for (name, value) in &launch.env {
        process = process.env(name, value);
    }
    process.start().await
}
