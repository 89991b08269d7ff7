//! The operator's binary.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    publication_operator::cli::main(publication_operator::cli::Cli::parse())
}
