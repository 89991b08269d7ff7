//! `publication-operator explain CODE`: the page of an error code, or the line of a rule, offline.

use super::output::{Format, render};
use super::pages::{self, meaning, page};
use super::rules;
use clap::Args as ClapArgs;
use publication_protocol::code::ErrorCode;
use serde::Serialize;
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The code of `status.error.code`, a condition's reason, or a rule such as B-7; without it all codes are listed.
    code: Option<String>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A code or a rule, and what there is to say of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topic {
    /// `PARTIAL_TERMINAL`, `B-7`.
    pub name: &'static str,
    /// In one sentence.
    pub meaning: String,
    /// For people; a list leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// Prints; what does not exist is a wrong command line.
pub(super) fn main(args: &Args) -> ExitCode {
    let text = match &args.code {
        None => render(&list(), args.output, |topics| table(topics)).map_err(|error| error.to_string()),
        Some(name) => explain(name).and_then(|topic| {
            let shown = |topic: &Topic| topic.page.clone().unwrap_or_default();
            render(&topic, args.output, shown).map_err(|error| error.to_string())
        }),
    };
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(super::USAGE)
        }
    }
}

/// The page of a code, or the line of a rule.
///
/// # Errors
/// What to try instead.
pub fn explain(name: &str) -> Result<Topic, String> {
    if let Some(code) = pages::find(name) {
        let page = Some(page(code).to_owned());
        return Ok(Topic { name: code.as_str(), meaning: meaning(code), page });
    }
    if let Some(rule) = rules::find(name) {
        let page = Some(rules::shown(&rule));
        return Ok(Topic { name: rule.id, meaning: rule.demands.replace('`', ""), page });
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
pub fn list() -> Vec<Topic> {
    let topic = |code: &ErrorCode| Topic { name: code.as_str(), meaning: meaning(*code), page: None };
    ErrorCode::ALL.iter().map(topic).collect()
}

/// A line for each.
pub fn table(topics: &[Topic]) -> String {
    topics.iter().map(|topic| format!("{:24} {}\n", topic.name, topic.meaning)).collect()
}
