//! `publication-operator explain CODE`: the page of an error code, or the line of a rule, offline.

use super::pages::{self, meaning, page};
use super::rules;
use clap::Args as ClapArgs;
use publication_protocol::code::ErrorCode;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The code of `status.error.code`, a condition's reason, or a rule such as B-7; without it all codes are listed.
    code: Option<String>,
}

/// Prints; what does not exist is a wrong command line.
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
                ExitCode::from(super::USAGE)
            }
        },
    }
}

/// The page of a code, or the line of a rule.
///
/// # Errors
/// What to try instead.
pub fn explain(name: &str) -> Result<String, String> {
    if let Some(code) = pages::find(name) {
        return Ok(page(code).to_owned());
    }
    if let Some(rule) = rules::find(name) {
        return Ok(rules::shown(&rule));
    }
    let codes = pages::near(name).into_iter().map(ErrorCode::as_str);
    let near: Vec<&str> = rules::near(name).into_iter().chain(codes).collect();
    let hint = if near.is_empty() {
        "`publication-operator explain` lists the codes, docs/rules.md the rules".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Err(format!("{name:?} is neither an error code nor a rule; {hint}"))
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
