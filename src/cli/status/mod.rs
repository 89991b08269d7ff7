//! `publication-operator status NAME`: what an object's status says. ClickHouse is not asked.

pub mod screen;
pub mod view;

use super::output::{Format, render};
use crate::api::{ClusterPublication, Outcome};
use clap::Args as ClapArgs;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use view::View;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the ClusterPublication.
    name: String,
    /// Its namespace; the kubeconfig's own by default.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Follow it until it has Succeeded or Failed; what is Blocked may still change.
    #[arg(short, long)]
    watch: bool,
}

/// Exit code when nothing can be said.
const COULD_NOT_TELL: u8 = 3;

type Failure = Box<dyn std::error::Error>;

/// Prints; with `--watch` the exit code says whether it Succeeded.
pub(super) fn main(args: &Args) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let told = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(show(args)));
    match told {
        Ok(Some(Outcome::Failed)) if args.watch => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_TELL)
        }
    }
}

async fn show(args: &Args) -> Result<Option<Outcome>, Failure> {
    let config = kube::Config::infer().await?;
    let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let api: Api<ClusterPublication> = Api::namespaced(Client::try_from(config)?, &namespace);
    let missing = || Failure::from(format!("there is no ClusterPublication {namespace}/{}", args.name));
    let object = api.get_opt(&args.name).await?.ok_or_else(missing)?;
    let mut shown = View::of(&object);
    print(&shown, args)?;
    if !args.watch || shown.is_final() {
        return Ok(shown.outcome);
    }
    let mut changes = watch_object(api, &args.name).boxed();
    while let Some(found) = changes.try_next().await? {
        let view = View::of(&found.ok_or_else(missing)?);
        if view != shown {
            print(&view, args)?;
            shown = view;
        }
        if shown.is_final() {
            break;
        }
    }
    Ok(shown.outcome)
}

fn print(view: &View, args: &Args) -> Result<(), Failure> {
    let mut text = render(view, args.output, screen::table)?;
    let live = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
    if args.watch && args.output == Format::Table {
        // On a terminal the same place again; elsewhere one screen after the other.
        text = if live { format!("\x1b[H\x1b[2J{text}") } else { format!("{text}\n") };
    } else if args.watch && args.output == Format::Yaml {
        text = format!("---\n{text}");
    }
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
