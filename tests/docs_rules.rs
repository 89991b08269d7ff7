//! docs/rules.md: every rule that exists, that a finding cites, or that a page of an error code names has its line;
//! what a line names is there.
#![allow(clippy::panic, clippy::unwrap_used)]

use publication_operator::cli::rules::{all, find};
use publication_operator::cli::{explain::explain, pages};
use publication_protocol::code::ErrorCode;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn ids() -> BTreeSet<&'static str> {
    all().iter().map(|rule| rule.id).collect()
}

/// Sections of the protocol and how many numbered rules each has; E, F and H have a table beside them.
#[test]
fn every_rule_of_the_protocol_has_one_line() {
    let sections =
        [("A", 8), ("B", 10), ("C", 14), ("D", 6), ("E", 2), ("F", 3), ("G", 5), ("H", 3), ("J", 5)];
    let mut wanted: BTreeSet<String> = ["E", "F", "H", "api"].map(str::to_owned).into();
    wanted.extend(sections.iter().flat_map(|(s, count)| (1..=*count).map(move |n| format!("{s}-{n}"))));
    assert_eq!(ids().into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), wanted);
    assert_eq!(all().len(), wanted.len(), "one line each");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// String literals that are a rule's id: `"B-7"`.
fn cited(text: &str) -> Vec<&str> {
    let is_id = |part: &&str| {
        let (section, number) = part.split_once('-').unwrap_or((part, ""));
        section.len() == 1
            && section.chars().all(|c| c.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    };
    text.split('"').filter(is_id).collect()
}

#[test]
fn every_rule_that_a_finding_cites_has_a_line() {
    let (ids, mut files, mut seen) = (ids(), Vec::new(), BTreeSet::new());
    sources(&root().join("src"), &mut files);
    sources(&root().join("protocol/src"), &mut files);
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        for id in cited(&text) {
            assert!(ids.contains(id), "{}: {id} has no line in docs/rules.md", path.display());
            seen.insert(id.to_owned());
        }
    }
    assert!(seen.len() > 20, "found only {seen:?}");
}

#[test]
fn every_rule_that_a_page_names_has_a_line_and_every_code_of_a_line_names_the_rule() {
    let named = |code: ErrorCode| -> Vec<String> {
        let line = pages::page(code).lines().find_map(|line| line.strip_prefix("Rules: ")).unwrap();
        let mut found: Vec<String> = Vec::new();
        for part in line.split([',', ';']).map(str::trim) {
            match part.split_once(" to ") {
                None => found.push(part.to_owned()),
                Some((from, to)) => {
                    let number = |id: &str| id[2..].parse::<u32>().unwrap();
                    found.extend((number(from)..=number(to)).map(|n| format!("{}-{n}", &from[..1])));
                }
            }
        }
        found
    };
    for code in ErrorCode::ALL {
        for id in named(*code) {
            let rule = find(&id).unwrap_or_else(|| panic!("{code}: {id} has no line"));
            assert!(rule.codes.contains(&code.as_str()), "{code} is missing in the line of {id}");
        }
    }
    for rule in all() {
        for code in &rule.codes {
            let code = pages::find(code).unwrap_or_else(|| panic!("{}: {code} is no code", rule.id));
            assert!(
                named(code).iter().any(|id| id == rule.id),
                "the page of {code} does not name {}",
                rule.id
            );
        }
    }
}

#[test]
fn every_file_that_a_line_names_is_there() {
    for rule in all() {
        assert!(!rule.enforced.is_empty() && rule.demands.ends_with('.'), "{}", rule.id);
        for file in &rule.enforced {
            assert!(root().join(file).is_file(), "{}: {file}", rule.id);
        }
        assert!(explain(rule.id).unwrap().page.unwrap().contains(rule.enforced[0]));
    }
}
