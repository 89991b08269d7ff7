//! Corpus, mutation, and texts of what the codecs read.

use crate::support::build::render as statement_text;
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::sqltext::{Statement, Token};
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use std::path::PathBuf;

pub struct Corpus {
    pub seeds: Vec<String>,
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(target)
}

impl Corpus {
    pub fn read(target: &str) -> Self {
        let entries = std::fs::read_dir(directory(target)).expect("a committed corpus");
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let seeds: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert!(!seeds.is_empty(), "{target}: an empty corpus");
        Self { seeds }
    }

    pub fn add(target: &str, name: &str, text: &str) {
        std::fs::create_dir_all(directory(target)).unwrap();
        std::fs::write(directory(target).join(name), text).unwrap();
    }
}

/// Pieces that the grammars know.
const PIECES: &[&str] = &[
    "`",
    "'",
    "\"",
    "\\",
    "\\'",
    "``",
    "''",
    "(",
    ")",
    ",",
    ".",
    ";",
    "--",
    "/*",
    "*/",
    " ",
    "\n",
    "\t",
    "\0",
    "0",
    "-1",
    "18446744073709551615",
    "null",
    "NULL",
    "true",
    "{}",
    "[]",
    "{uuid}",
    "{replica}",
    "ON CLUSTER",
    "SYNC",
    "UUID",
    "IF EXISTS",
    "Finished",
    "Inactive",
    "Active",
    "Removing",
    "Unknown",
    "\u{e9}",
    "\u{1f600}",
    "chpub1:",
    "COMMENT 'x'",
    "\"schema\":1",
    "\"schema\":2",
    "1e3",
    "1.0",
];

/// A seed with a few changes; now and then as it is.
pub fn mutate(corpus: &Corpus, rng: &mut ChaCha8Rng) -> String {
    let mut text = corpus.seeds.choose(rng).expect("a seed").clone();
    for _ in 0..rng.random_range(0..4) {
        change(&mut text, corpus, rng);
    }
    text
}

fn change(text: &mut String, corpus: &Corpus, rng: &mut ChaCha8Rng) {
    let from = border(text, rng);
    let to = (from + rng.random_range(0..12)).min(text.len());
    let to = (to..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    match rng.random_range(0..8) {
        0 => text.insert_str(from, PIECES.choose(rng).expect("pieces")),
        1 => text.replace_range(from..to, ""),
        2 => text.replace_range(from..to, PIECES.choose(rng).expect("pieces")),
        3 => {
            let again = text[from..to].to_owned();
            text.insert_str(from, &again);
        }
        4 => text.truncate(from),
        // Another digit or letter for one: what keeps a text well-formed.
        5 | 6 => {
            let kept: Vec<(usize, char)> =
                text.char_indices().filter(|(_, c)| c.is_ascii_alphanumeric()).collect();
            if let Some((at, c)) = kept.choose(rng) {
                let other = if c.is_ascii_digit() {
                    char::from(b'0' + rng.random_range(0..10_u8))
                } else {
                    char::from(b'a' + rng.random_range(0..26_u8))
                };
                text.replace_range(*at..at + 1, other.encode_utf8(&mut [0; 4]));
            }
        }
        _ => {
            let other = corpus.seeds.choose(rng).expect("a seed");
            let cut = border(other, rng);
            text.truncate(from);
            text.push_str(&other[cut..]);
        }
    }
}

fn border(text: &str, rng: &mut ChaCha8Rng) -> usize {
    let at = rng.random_range(0..=text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn escaped(text: &str, quote: char) -> String {
    let inside: String =
        text.chars().flat_map(|c| if c == quote || c == '\\' { vec!['\\', c] } else { vec![c] }).collect();
    format!("{quote}{inside}{quote}")
}

/// Tokens in one spelling of several.
pub fn render(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Word(word) | Token::Number(word) => text.push_str(word),
            Token::Quoted(name) => text.push_str(&escaped(name, '`')),
            Token::Text(value) => text.push_str(&escaped(value, '\'')),
            Token::Symbol(c) => text.push(*c),
        }
        text.push(' ');
    }
    text
}

pub fn render_statement(statement: &Statement) -> String {
    statement_text(statement)
}

/// One row a line, one tab between cells; `\N` is NULL.
pub fn row_text(row: &QueueRow) -> String {
    let cell = |text: Option<String>| text.unwrap_or_else(|| "\\N".into());
    [
        row.entry.clone(),
        row.token.clone(),
        row.cluster.clone(),
        row.query.clone(),
        cell(row.host.clone()),
        cell(row.port.map(|p| p.to_string())),
        cell(row.status.clone()),
        cell(row.exception_code.map(|c| c.to_string())),
        format!("{:?}", row.exception_text),
    ]
    .join("\t")
}

pub fn rows_of(text: &str) -> Vec<QueueRow> {
    text.split('\n').map(row_of).collect()
}

fn row_of(line: &str) -> QueueRow {
    let mut cells = line.split('\t').map(|cell| (cell != "\\N").then(|| cell.to_owned()));
    let mut next = || cells.next().flatten();
    QueueRow {
        entry: next().unwrap_or_default(),
        token: next().unwrap_or_default(),
        cluster: next().unwrap_or_default(),
        query: next().unwrap_or_default(),
        host: next(),
        port: next().and_then(|p| p.parse().ok()),
        status: next(),
        exception_code: next().and_then(|c| c.parse().ok()),
        exception_text: match next().as_deref() {
            Some("Empty") => ExceptionText::Empty,
            Some("Some") => ExceptionText::Some,
            _ => ExceptionText::Null,
        },
    }
}
