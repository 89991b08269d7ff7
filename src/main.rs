//! The operator's binary.

use clap::Parser;
use std::process::ExitCode;

/// Not clap's own 2, which is an answer of `plan`.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    match publication_operator::cli::Cli::try_parse() {
        Ok(cli) => publication_operator::cli::main(cli),
        Err(error) => {
            // A closed standard output is no reason to fail differently.
            let _ = error.print();
            if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
        }
    }
}
