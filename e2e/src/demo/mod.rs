//! `make demo`: from nothing to a proved publication, and one fault, on one terminal.

mod proof;
mod samples;
mod setup;
mod story;
mod terminal;
mod watch;

use std::path::Path;
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment::Environment;
use crate::error::{Context, Error, Result};
use crate::{paths, workdir};
use terminal::{Terminal, Tone, seconds};

const TAIL_LINES: usize = 12;

/// Why the demo did not get to its end, and the log that may know more.
#[derive(Debug)]
pub struct Failure {
    error: Error,
    log: Option<(String, String)>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, log: None }
    }
}

impl Failure {
    fn with_log(error: Error, log: &Path, lines: usize) -> Self {
        // These say all there is to say.
        let said = matches!(error, Error::Missing { .. } | Error::Exited { .. });
        let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { error, log: (!said).then(|| (name, paths::tail(log, lines))) }
    }

    fn remedy(&self, standing: bool) -> String {
        match &self.error {
            Error::Missing { remedy, .. } => format!("{remedy}, then make demo again"),
            _ if standing => "run it again; with KEEP=1 everything is left running where it fails".to_owned(),
            Error::Timeout { .. } => "run it again, with less running beside it".to_owned(),
            _ => "see the log above; make demo checks the tools and builds the operator anew".to_owned(),
        }
    }

    /// `standing`: the environment was there when it happened.
    fn show(&self, ui: &Terminal, standing: bool) {
        ui.line("");
        let error = match &self.error {
            Error::Missing { what, .. } => format!("{what} is missing"),
            other => other.to_string(),
        };
        ui.line(format!("{}: {error}", ui.paint(Tone::Bad, "failed")).trim_end());
        if let Some((name, tail)) = &self.log {
            ui.line("");
            ui.text(&format!("the end of {name}:"));
            ui.quote(tail);
        }
        ui.line("");
        ui.line(&format!("remedy: {}", self.remedy(standing)));
    }
}

/// The signals that end the demo, taken over before anything is started.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    fn new() -> Result<Self> {
        let on = |kind| signal(kind).context("signal handler");
        Ok(Self {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    /// The number of the signal that came.
    async fn came(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            _ = self.hangup.recv() => 1,
        }
    }
}

pub fn main() -> ExitCode {
    let ui = Terminal::new();
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")
        .and_then(|runtime| runtime.block_on(run(&ui)));
    match result {
        Ok(code) => code,
        Err(error) => {
            Failure::from(error).show(&ui, false);
            ExitCode::FAILURE
        }
    }
}

async fn run(ui: &Terminal) -> Result<ExitCode> {
    let mut stop = Stop::new()?;
    ui.line(
        &ui.paint(Tone::Strong, "Publish a ClickHouse table on every replica, with exactly one EXCHANGE"),
    );
    let mut env = None;
    let outcome = {
        let told = play(ui, &mut env);
        tokio::pin!(told);
        tokio::select! {
            // A signal also ends the kubectl that may be running: it is the cause, not that one's failure.
            biased;
            number = stop.came() => {
                ui.settle();
                ui.line("");
                ui.line("stopping everything …");
                Err(number)
            }
            result = &mut told => Ok(result),
        }
    };
    ui.settle();
    let code = match &outcome {
        Ok(Ok(())) => {
            let took = seconds(ui.elapsed());
            ui.line(&ui.paint(Tone::Good, &format!("  Everything above was proved. {took} in all.")));
            0
        }
        Ok(Err(failure)) => {
            failure.show(ui, env.is_some());
            1
        }
        Err(number) => 128 + number,
    };
    if let (Ok(_), Some(env), true) = (&outcome, &env, workdir::keep()) {
        keep_running(ui, env);
        stop.came().await;
    }
    if env.is_some() && outcome.is_ok() {
        ui.line("");
        ui.line("stopping everything …");
    }
    // Operator, proxies, members, ZooKeeper, control plane, directory: in this order.
    drop(env);
    ui.line(&format!("nothing is left running ({})", seconds(ui.elapsed())));
    Ok(ExitCode::from(code))
}

/// The whole story; the environment stays with the caller, who decides when it ends.
async fn play(ui: &Terminal, slot: &mut Option<Environment>) -> Result<(), Failure> {
    let env = &*slot.insert(setup::start(ui).await?);
    let told = async {
        story::existing_target(ui, env).await?;
        story::absent_target(ui, env).await?;
        story::paused_replica(ui, env).await?;
        story::summary(ui, env).await
    };
    told.await.map_err(|error| match env.operators.first() {
        Some(operator) => Failure::with_log(error, operator.log_path(), TAIL_LINES),
        None => error.into(),
    })
}

/// Rows go in past SQL: the test bed's engine has replication of its own, and INSERT into a Replicated table waits in vain.
fn table_of_your_own(ui: &Terminal, env: &Environment) {
    ui.text("A table of your own: the candidate on every member, its rows (test bed only: INSERT cannot), the manifest:");
    if let Some(member) = env.cluster.members.first() {
        let (user, password) = member.login();
        ui.quote(&format!(
            "curl -sS -u {user}:{password} http://{}/ --data-binary \"CREATE TABLE shop.orders__pub_mine ON CLUSTER main AS shop.orders\"",
            member.spec.http()
        ));
    }
    for member in &env.cluster.members {
        ui.quote(&format!(
            r#"curl -sS http://{}/load -d '{{"database":"shop","table":"orders__pub_mine","rows":7,"start":0}}'"#,
            member.spec.admin()
        ));
    }
    ui.quote("sed 's/20261130/mine/g; s/1482233/7/' config/samples/author.yaml > mine.yaml; publication-operator plan -f mine.yaml && kubectl apply -f mine.yaml");
    ui.text("A replica whose DDL worker is paused, as in part 6 (and resumed):");
    if let Some(member) = env.cluster.members.last() {
        for what in ["pause", "resume"] {
            ui.quote(&format!("curl -sS -X POST http://{}/ddl/{what}", member.spec.admin()));
        }
    }
}

fn keep_running(ui: &Terminal, env: &Environment) {
    let shown = |path: Result<std::path::PathBuf>, name: &str| {
        path.map_or_else(|_| name.to_owned(), |path| path.display().to_string())
    };
    ui.title("Left running (KEEP=1)");
    ui.text("Paste this into another terminal:");
    ui.quote(&format!("export KUBECONFIG={}", env.control_plane.kubeconfig().display()));
    ui.quote(&format!("alias kubectl={}", shown(paths::tool("kubectl"), "kubectl")));
    ui.quote(&format!("alias publication-operator={}", shown(paths::operator(), "publication-operator")));
    ui.text("The operator's view:");
    ui.quote(
        "publication-operator doctor --cluster analytics -n platform       # the cluster, rule by rule; reads only",
    );
    ui.quote("publication-operator plan -f config/samples/author.yaml           # what was done already is not done again");
    ui.quote(
        "publication-operator status orders-20261130 -n shop               # what happened on each replica",
    );
    ui.quote("publication-operator inspect --cluster analytics -n platform --database shop --target orders");
    ui.quote("kubectl -n shop describe cpub orders-20261130                     # conditions, events");
    ui.text("The same run asking twice: Succeeded, and nothing is sent:");
    ui.quote("sed 's/name: customers-1/name: again/' config/samples/author-first.yaml | kubectl apply -f -");
    ui.text("SQL on each member, past the operator (a user of the demo's own):");
    for member in &env.cluster.members {
        let (user, password) = member.login();
        ui.quote(&format!(
            "curl -sS -u {user}:{password} http://{}/ --data-binary 'SELECT count() FROM shop.orders'  # {}",
            member.spec.http(),
            member.spec.shown()
        ));
    }
    table_of_your_own(ui, env);
    ui.text(&format!("Logs: {}", env.work.path().display()));
    ui.line("");
    ui.line(&ui.paint(Tone::Strong, "Ctrl-C here stops everything; nothing is left behind."));
}
