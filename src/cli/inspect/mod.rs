//! `publication-operator inspect`: one slot with everything that a verdict would rest on. Reads only.

mod gather;
pub mod report;
pub mod screen;

pub(super) use gather::{Cluster, slot};

use super::output::{Format, render};
use clap::Args as ClapArgs;
use report::Report;
use std::process::ExitCode;

/// Which PublicationCluster.
#[derive(Debug, Clone, ClapArgs)]
pub struct At {
    /// Name of the PublicationCluster.
    #[arg(long)]
    pub(super) cluster: String,
    /// Its namespace; the kubeconfig's own by default.
    #[arg(short, long)]
    pub(super) namespace: Option<String>,
}

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    at: At,
    /// Database of the target.
    #[arg(long)]
    database: String,
    /// The target's name.
    #[arg(long)]
    target: String,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Exit code when nothing can be said.
pub(super) const COULD_NOT_TELL: u8 = 3;

/// Why nothing can be said.
pub(super) type Failure = Box<dyn std::error::Error>;

/// Prints the report.
pub(super) fn main(args: &Args) -> ExitCode {
    let told = runtime().and_then(|runtime| {
        let report = runtime.block_on(report(args))?;
        print!("{}", render(&report, args.output, screen::table)?);
        Ok(())
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_TELL)
        }
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

async fn report(args: &Args) -> Result<Report, Failure> {
    let cluster = Cluster::open(&args.at).await?;
    let seen = slot(&cluster, &args.database, &args.target).await?;
    Ok(report::of(cluster.name(), &args.database, &args.target, seen.as_ref()))
}
