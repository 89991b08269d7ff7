//! `publication-operator plan -f FILE`: what an admission would say, and the statements that would run. Reads only.

pub mod assemble;
mod gather;
pub mod manifest;
pub mod report;
pub mod screen;

use super::output::{Format, render};
use assemble::{assemble, unreadable};
use clap::Args as ClapArgs;
use kube::Client;
use report::Report;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// File with a ClusterPublication; `-` reads standard input.
    #[arg(short, long)]
    filename: PathBuf,
    /// Namespace, where the manifest names none; the kubeconfig's own by default.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Exit code when nothing can be said.
const COULD_NOT_TELL: u8 = 3;

/// Prints the report; the exit code says admissible (0), blocked (1), waiting (2), could not tell (3).
pub(super) fn main(args: &Args) -> ExitCode {
    let told = report(args).and_then(|report| {
        print!("{}", render(&report, args.output, screen::table)?);
        Ok(report.verdict.exit_code())
    });
    match told {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_TELL)
        }
    }
}

fn report(args: &Args) -> Result<Report, Box<dyn std::error::Error>> {
    let text = read(&args.filename).map_err(|e| format!("{}: {e}", shown(&args.filename)))?;
    let mut object = match manifest::parse(&text) {
        Ok(object) => object,
        Err(findings) => return Ok(assemble(unreadable(shown(&args.filename), &findings))),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let config = kube::Config::infer().await.ok();
        let given = object.metadata.namespace.take().or_else(|| args.namespace.clone());
        object.metadata.namespace = given.or_else(|| config.as_ref().map(|c| c.default_namespace.clone()));
        let client = config.and_then(|config| Client::try_from(config).ok());
        assemble(gather::gather(client.as_ref(), object).await)
    }))
}

fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn read(path: &Path) -> std::io::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(path)
}
