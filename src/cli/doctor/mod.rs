//! `publication-operator doctor`: a PublicationCluster, rule by rule. Reads only, unless a self-test is asked for.

mod cluster;
mod gather;
pub mod judge;
pub mod report;
pub mod screen;
pub mod selftest;
mod servers;

use super::inspect::{At, COULD_NOT_TELL, Failure, runtime};
use super::output::{Format, render};
use clap::Args as ClapArgs;
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    at: At,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Try compare-and-swap and EXCHANGE on scratch tables in the control database; they are removed afterwards.
    #[arg(long)]
    self_test: bool,
}

/// Prints the report; the exit code says healthy (0), blocked (1), waiting (2), could not tell (3).
pub(super) fn main(args: &Args) -> ExitCode {
    let told = runtime().and_then(|runtime| {
        let report = judge::report(&runtime.block_on(gather::gather(&args.at, args.self_test)));
        print!("{}", render(&report, args.output, screen::table)?);
        Ok::<_, Failure>(report.verdict.exit_code())
    });
    match told {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_TELL)
        }
    }
}
