//! Fuzzing of every codec of the core: inputs are mutated from a committed corpus by a seeded generator, so a failure
//! is found again by its number. `FUZZ=n` sets the executions of each target (1,000,000 in the suite).
#![allow(clippy::unwrap_used, clippy::panic)]

mod fuzz_support;
mod support;

use fuzz_support::{Corpus, mutate, render, render_statement, row_text, rows_of};
use publication_protocol::canonical::Digest;
use publication_protocol::evidence::queue_digest;
use publication_protocol::generation::EngineFull;
use publication_protocol::identity::{CorrelationToken, FenceToken, RootId, ServerUuid, TableUuid};
use publication_protocol::phase::Phase;
use publication_protocol::queue::{QueueView, Sought, view};
use publication_protocol::record::{RawRow, Record};
use publication_protocol::sqltext::{Ddl, Token, fingerprint, parse_statement, table_elements, tokenize};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use support::build::record_in;
use support::proof::{number, on_every_core, write};

const BY_DEFAULT: u64 = 3_000;
const CHUNK: u64 = 1_000;

/// Runs one target; `check` panics on an input that breaks a property. Counts what was accepted: a target whose
/// inputs are all refused tests nothing.
fn fuzz(target: &'static str, check: impl Fn(&str, &mut ChaCha8Rng) -> bool + Sync) {
    let corpus = Corpus::read(target);
    let wanted = number("FUZZ").unwrap_or(BY_DEFAULT);
    let accepted: u64 = on_every_core(wanted.div_ceil(CHUNK), |chunk| {
        let mut rng = ChaCha8Rng::seed_from_u64(chunk);
        let last = Mutex::new(String::new());
        let ran = catch_unwind(AssertUnwindSafe(|| {
            (0..CHUNK)
                .filter(|_| {
                    let input = mutate(&corpus, &mut rng);
                    last.lock().unwrap().clone_from(&input);
                    check(&input, &mut rng)
                })
                .count() as u64
        }));
        ran.unwrap_or_else(|_| panic!("{target}, chunk {chunk}: {:?}", last.lock().unwrap()))
    })
    .into_iter()
    .sum();
    println!("{target}: {wanted} executions, {accepted} accepted");
    assert!(accepted > 0, "{target}: every input was refused");
    if number("FUZZ").is_some() {
        write(&format!("fuzz-{target}"), &serde_json::json!({"fuzz_executions": wanted, "violations": 0}));
    }
}

/// A row from text: the columns in one line, the payload in the rest; its digest is made to fit.
fn record_row(text: &str) -> RawRow {
    let (columns, payload) = text.split_once('\n').unwrap_or((text, ""));
    let mut columns = columns.split(' ').map(str::to_owned);
    let mut next = || columns.next().unwrap_or_default();
    let (target_key, operation_id, fence_token, phase) = (next(), next(), next(), next());
    RawRow {
        target_key,
        operation_id,
        fence_token,
        phase,
        dispatch_epoch: next().parse().unwrap_or(0),
        payload: payload.to_owned(),
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
    }
}

fn record_text(row: &RawRow) -> String {
    let RawRow { target_key, operation_id, fence_token, phase, dispatch_epoch, payload, .. } = row;
    format!("{target_key} {operation_id} {fence_token} {phase} {dispatch_epoch}\n{payload}")
}

/// What an earlier version wrote is read, and given back byte for byte. `UPDATE_CORPUS=1` adds what this one writes.
// proves: C-9
#[test]
fn committed_records_are_read() {
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        for phase in Phase::ALL {
            let row = record_in(phase, 2 + phase as u32 % 2).encode();
            Corpus::add("record", &format!("1-{phase}"), &record_text(&row));
        }
    }
    for text in Corpus::read("record").seeds {
        let row = record_row(&text);
        assert_eq!(Record::decode(&row).map(|r| r.encode()), Ok(row));
    }
}

// proves: C-9, A-7
#[test]
fn records() {
    fuzz("record", |text, rng| {
        let row = record_row(text);
        let Ok(record) = Record::decode(&row) else { return false };
        assert_eq!(record.encode(), row, "what is accepted is canonical");
        assert_eq!(Record::decode(&record.encode()), Ok(record));
        // Any other byte is noticed by the digest column.
        let mut bytes = row.payload.clone().into_bytes();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1;
        if let Ok(payload) = String::from_utf8(bytes) {
            assert!(Record::decode(&RawRow { payload, ..row }).is_err());
        }
        true
    });
}

// proves: A-6
#[test]
fn tokens() {
    fuzz("token", |text, _| {
        if let Ok(digest) = Digest::try_from(text.to_owned()) {
            assert_eq!(digest.to_string(), text);
        }
        if let Ok(root) = RootId::try_from(text.to_owned()) {
            assert_eq!(root.to_string(), text);
        }
        if let Ok(fence) = FenceToken::try_from(text.to_owned()) {
            assert_eq!(fence.to_string(), text);
        }
        for parsed in [
            ServerUuid::parse(text).map(|u| u.as_str().to_owned()),
            TableUuid::parse(text).map(|u| u.as_str().to_owned()),
        ] {
            assert!(parsed.is_none_or(|p| p == text.to_ascii_lowercase()));
        }
        let Ok(token) = CorrelationToken::try_from(text.to_owned()) else { return false };
        assert_eq!(token.as_str(), text, "opaque: never rewritten");
        assert!(text.len() <= 200 && text.is_ascii());
        let other = CorrelationToken::try_from(format!("{}x", &text[..text.len() - 1]));
        assert!(other.is_err() || other.as_ref() == Ok(&token) || other.unwrap().digest() != token.digest());
        assert_eq!(token.query_id().len(), "chpub1-".len() + 32);
        true
    });
}

// proves: D-3, D-4, E-1, E-2
#[test]
fn queue_rows() {
    let record = record_in(Phase::Dispatching, 3);
    let dispatch = record.last_dispatch().unwrap();
    let statement = record.statement(dispatch);
    if std::env::var_os("UPDATE_CORPUS").is_some() {
        for (name, codes) in [
            ("finished", [Some(0), Some(0), Some(0)]),
            ("mixed", [Some(0), None, Some(60)]),
            ("waiting", [None, None, None]),
        ] {
            let row = |(at, code): (usize, &Option<u32>)| {
                row_text(&support::build::queue_row(&record, dispatch, at as u32 + 1, *code))
            };
            let text: Vec<String> = codes.iter().enumerate().map(row).collect();
            Corpus::add("queue", name, &text.join("\n"));
        }
    }
    let see = |rows: &[_]| {
        let inventory = &record.payload.inventory;
        view(rows, Sought { token: &dispatch.token, statement: &statement, bound: None, inventory })
    };
    fuzz("queue", |text, rng| {
        let rows = rows_of(text);
        let mut shuffled = rows.clone();
        shuffled.rotate_left(rng.random_range(0..=rows.len().saturating_sub(1)));
        shuffled.reverse();
        let seen = see(&rows);
        assert_eq!(seen, see(&shuffled), "order says nothing");
        assert_eq!(queue_digest(Some(&rows)), queue_digest(Some(&shuffled)));
        match &seen {
            QueueView::Terminal { receipt, .. } => assert_eq!(receipt.codes.len(), 3),
            QueueView::InProgress { hosts, .. } => assert_eq!(hosts.len(), 3),
            QueueView::Unknown(_) => return false,
        }
        // What is bound is this text and no other.
        let mut other = rows.clone();
        other.iter_mut().for_each(|row| row.query.push(' '));
        let bound = |view: QueueView| match view {
            QueueView::Terminal { binding, .. } | QueueView::InProgress { binding, .. } => Some(binding),
            QueueView::Unknown(_) => None,
        };
        assert_ne!(bound(seen), bound(see(&other)));
        assert_ne!(queue_digest(Some(&rows)), queue_digest(Some(&other)));
        assert_ne!(queue_digest(Some(&rows)), queue_digest(Some(&rows[1..])));
        true
    });
}

// proves: A-4
#[test]
fn engines() {
    let uuid = TableUuid::parse("11111111-0000-0000-0000-000000000001").unwrap();
    fuzz("engine", |text, rng| {
        let _ = table_elements(text);
        let Some(engine) = EngineFull::parse(text, &uuid) else { return false };
        let mut tokens = tokenize(text).unwrap();
        assert_eq!(
            EngineFull::parse(&render(&tokens), &uuid).as_ref(),
            Some(&engine),
            "spelling says nothing"
        );
        let at = rng.random_range(0..tokens.len());
        let replica = matches!(
            tokens.as_slice(),
            [_, Token::Symbol('('), Token::Text(_), Token::Symbol(','), Token::Text(_), ..]
        );
        if replica {
            tokens[4] = Token::Text("another replica".into());
            assert_eq!(EngineFull::parse(&render(&tokens), &uuid).map(|e| e.digest()), Some(engine.digest()));
        }
        if !(replica && at == 4) {
            tokens[at] = Token::Text("something else".into());
            let other = EngineFull::parse(&render(&tokens), &uuid);
            let same = EngineFull::parse(text, &uuid) == other;
            assert!(other.is_none_or(|other| (other.digest() == engine.digest()) == same), "token {at}");
        }
        true
    });
}

// proves: D-3
#[test]
fn statements() {
    fuzz("statement", |text, _| {
        if let Some(tokens) = tokenize(text) {
            assert_eq!(tokenize(&render(&tokens)).as_ref(), Some(&tokens));
            assert_eq!(fingerprint(&tokens), fingerprint(&tokenize(&render(&tokens)).unwrap()));
        }
        let Some(statement) = parse_statement(text) else { return false };
        let again = parse_statement(&render_statement(&statement));
        assert_eq!(again.as_ref(), Some(&statement));
        // Only a CREATE may go on behind what is read of it.
        let create = matches!(statement.ddl, Ddl::CreateIfNotExists { .. });
        assert_eq!(parse_statement(&format!("{text}\nSYNC")).is_some(), create);
        true
    });
}
