//! `publication-operator receipt NAME` prints the receipt of a publication; `verify-receipt FILE` says whether one holds.

mod find;
mod live;
pub mod report;
pub mod screen;

use super::inspect::{COULD_NOT_TELL, Failure, runtime};
use super::output::{Format, render};
use clap::Args as ClapArgs;
use publication_protocol::receipt::{Document, verify};
use report::{Report, Verdict};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `receipt`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Name of the ClusterPublication, or the 64 hex digits of an operation.
    name: String,
    /// Namespace of the publication; the kubeconfig's own by default.
    #[arg(short, long)]
    namespace: Option<String>,
    /// Namespace of its PublicationCluster, where receipts are kept; for a publication whose object is gone.
    #[arg(long)]
    platform_namespace: Option<String>,
    /// Form of the answer; `json` is the document that verify-receipt takes.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Arguments of `verify-receipt`.
#[derive(Debug, ClapArgs)]
pub struct VerifyArgs {
    /// The receipt as JSON; `-` reads standard input.
    file: PathBuf,
    /// Ask Keeper and every member as well, with your kubeconfig: whether Keeper says the same, and whether every member
    /// still serves what was published. Reads only.
    #[arg(long)]
    live: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Prints the receipt.
pub(super) fn main(args: &Args) -> ExitCode {
    let told = runtime().and_then(|runtime| {
        let document = runtime.block_on(find::receipt(args))?;
        print!("{}", render(&document, args.output, screen::document)?);
        Ok(())
    });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => could_not_tell(&error),
    }
}

/// Says whether it holds; the exit code is the answer.
pub(super) fn verify_main(args: &VerifyArgs) -> ExitCode {
    let told = judged(args).and_then(|report| {
        print!("{}", render(&report, args.output, screen::report)?);
        Ok(report.verdict)
    });
    match told {
        Ok(verdict) => ExitCode::from(verdict.exit_code()),
        Err(error) => could_not_tell(&error),
    }
}

fn could_not_tell(error: &Failure) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(COULD_NOT_TELL)
}

fn judged(args: &VerifyArgs) -> Result<Report, Failure> {
    let text = read(&args.file)?;
    let document = match Document::parse(&text) {
        Ok(document) => document,
        Err(flaw) => return Ok(Report::unreadable(&flaw)),
    };
    let flaws = verify(&document);
    // A receipt that does not hold by itself names members and targets that nobody should be asked about.
    if !args.live || !flaws.is_empty() {
        return Ok(Report::offline(&document, &flaws));
    }
    let found = runtime()?.block_on(live::compared(&document))?;
    Ok(Report::live(&document, &found))
}

fn read(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| format!("{shown} cannot be read: {error}").into())
}

impl Verdict {
    /// 0 holds, 1 refused, 2 holds and the cluster has gone on.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Holds => 0,
            Self::Refused => 1,
            Self::Drifted => 2,
        }
    }
}
