//! The operator's binary.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match publication_operator::cli::Cli::try_parse() {
        Ok(cli) => publication_operator::cli::main(cli),
        Err(error) => {
            // A closed standard output is no reason to fail differently.
            let _ = error.print();
            if error.use_stderr() {
                ExitCode::from(publication_operator::cli::USAGE)
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}
