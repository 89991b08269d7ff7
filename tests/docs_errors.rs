//! Every stable error code has its page, in the same form; every command in it parses; every link leads somewhere.
#![allow(clippy::panic, clippy::unwrap_used)]

use clap::CommandFactory;
use publication_operator::cli::Cli;
use publication_operator::cli::pages::{DATABASE_REMEDY, HEADINGS, find, meaning, near, page, remedy};
use publication_protocol::code::ErrorCode;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

fn files(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(docs().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Section I of the protocol.
#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let wanted: BTreeSet<String> = ErrorCode::ALL.iter().map(|code| format!("{code}.md")).collect();
    assert_eq!(files("errors"), wanted);
    let index = std::fs::read_to_string(docs().join("README.md")).unwrap();
    for code in ErrorCode::ALL {
        assert!(
            index.contains(&format!("- [{code}](errors/{code}.md)\n")),
            "{code} is not in docs/README.md"
        );
    }
}

#[test]
fn every_page_has_the_same_form() {
    for code in ErrorCode::ALL {
        let page = page(*code);
        assert!(page.starts_with(&format!("# {code}\n\nRules: ")), "{code}: title and rules");
        let found: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        assert_eq!(found, HEADINGS, "{code}");
        let lines = page.lines().count();
        assert!((15..=40).contains(&lines), "{code}: {lines} lines");
        for text in [meaning(*code), remedy(*code, "")] {
            assert!(text.ends_with('.') && text.len() > 15 && !text.contains("]("), "{code}: {text}");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 130), "{code}: a long line");
    }
}

/// The page and the remedy on the screens are one text.
#[test]
fn the_remedy_of_a_missing_database_is_not_the_targets() {
    let page = page(ErrorCode::TargetInvalid).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(DATABASE_REMEDY), "{page}");
    let told = remedy(ErrorCode::TargetInvalid, "database: shop does not exist on h1:9000 (replica 1)");
    assert!(told.starts_with("Create the database as `Atomic`"), "{told}");
    assert!(remedy(ErrorCode::TargetInvalid, "target: orders is a View").starts_with("Make the target"));
}

/// `publication-operator …` as the pages and the index write it, with the placeholders as they are.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.starts_with("```");
        if code && line.starts_with("publication-operator ") {
            commands.push(line.split_whitespace().map(str::to_owned).collect());
        }
    }
    commands
}

#[test]
fn every_command_of_ours_in_the_pages_parses() {
    let mut seen = 0;
    for code in ErrorCode::ALL {
        for command in commands(page(*code)) {
            Cli::command().try_get_matches_from(&command).unwrap_or_else(|e| panic!("{code}: {e}"));
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} commands");
}

#[test]
fn every_link_leads_to_a_file() {
    let own = |folder: &str| {
        files(folder).into_iter().map(|name| docs().join(folder).join(name)).collect::<Vec<_>>()
    };
    let mut pages: Vec<PathBuf> = own("errors");
    pages.extend(own("adr"));
    pages.extend(["README.md", "rules.md"].map(|name| docs().join(name)));
    for path in pages {
        let text = std::fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split([')', '#']).next().unwrap();
            // Written beside these pages, with tests of its own.
            if !target.contains("://") && !target.ends_with("recovery.md") {
                let found = path.parent().unwrap().join(target);
                assert!(found.exists(), "{}: {target} leads nowhere", path.display());
            }
        }
    }
}

#[test]
fn codes_are_found_in_every_spelling_and_near_ones_are_named() {
    for name in ["PARTIAL_TERMINAL", "PartialTerminal", "partial-terminal", "partial terminal"] {
        assert_eq!(find(name), Some(ErrorCode::PartialTerminal), "{name}");
    }
    assert_eq!(find("PARTIAL"), None);
    assert_eq!(near("PARTIAL_TERMINATE").first(), Some(&ErrorCode::PartialTerminal));
    assert_eq!(near("cas"), [ErrorCode::CasConflict, ErrorCode::CasOutcomeUnknown]);
    assert!(near("xyzzy").is_empty() && near("").is_empty());
}
