//! `make demo`; the story is in `publication_e2e::demo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    publication_e2e::demo::main()
}
