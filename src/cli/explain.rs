//! `publication-operator explain CODE`: the page of an error code, offline.

use super::pages::{find, meaning, near, page};
use clap::Args as ClapArgs;
use publication_protocol::code::ErrorCode;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The code of `status.error.code`, or a condition's reason; without it all codes are listed.
    code: Option<String>,
}

/// Prints; fails on a code that does not exist.
pub(super) fn main(args: &Args) -> ExitCode {
    match &args.code {
        None => {
            print!("{}", list());
            ExitCode::SUCCESS
        }
        Some(name) => match explain(name) {
            Ok(page) => {
                print!("{page}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

/// The page of a code.
///
/// # Errors
/// What to try instead.
pub fn explain(name: &str) -> Result<&'static str, String> {
    find(name).map(page).ok_or_else(|| {
        let near: Vec<&str> = near(name).into_iter().map(ErrorCode::as_str).collect();
        let hint = if near.is_empty() {
            "`publication-operator explain` lists them all".to_owned()
        } else {
            format!("did you mean {}?", near.join(", "))
        };
        format!("{name:?} is no error code; {hint}")
    })
}

/// All codes with their meaning.
pub fn list() -> String {
    let mut text = String::new();
    for code in ErrorCode::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:24} {}", code.as_str(), meaning(*code));
    }
    text
}
