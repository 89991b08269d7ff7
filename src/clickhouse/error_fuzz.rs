//! Bodies with exceptions, mutated from a committed corpus: a server's words never say more than was said whole.

use super::error::{KeeperError, ServerError, mutation_outcome, read_failure};
use publication_protocol::authority::{Mutation, MutationOutcome, Predicate};
use publication_protocol::record::RawRow;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};

const EXECUTIONS_BY_DEFAULT: u64 = 20_000;
const PIECES: &[&str] = &[
    "Code: ",
    "Code: 999. ",
    "Coordination::Exception: ",
    "DB::Exception: ",
    "Transaction failed (Node exists): Op #0, path: /x",
    "Transaction failed (Bad version): Op #1, path: /x",
    "Transaction failed: Op #0",
    "\n",
    "\r\n",
    "\u{fffd}",
    "0",
    ". ",
];

fn corpus() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/http");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

fn border(text: &str, rng: &mut StdRng) -> usize {
    let at = rng.random_range(0..=text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn mutate(corpus: &[String], rng: &mut StdRng) -> String {
    let mut body = corpus.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(0..4) {
        let at = border(&body, rng);
        match rng.random_range(0..4) {
            0 => body.insert_str(at, PIECES.choose(rng).unwrap()),
            1 => body.truncate(at),
            2 => {
                let from = border(&body[..at], rng);
                body.replace_range(from..at, "");
            }
            _ => {
                let other = corpus.choose(rng).unwrap();
                body.push_str(&other[border(other, rng)..]);
            }
        }
    }
    body
}

fn mutations() -> [Mutation; 2] {
    let row = RawRow {
        target_key: "k".into(),
        operation_id: "o".into(),
        fence_token: "f".into(),
        phase: "PREPARED".into(),
        dispatch_epoch: 0,
        payload: String::new(),
        payload_sha256: String::new(),
    };
    let expected =
        Predicate { version: 0, operation_id: "o".into(), fence_token: "f".into(), phase: "PREPARED".into() };
    [Mutation::Insert(row.clone()), Mutation::Update { row, expected }]
}

/// What is cut short says the same or less: a conflict is never made of half a sentence.
fn says_no_more(body: &str, whole: ServerError, cut: usize, mutations: &[Mutation; 2]) {
    let Some(part) = ServerError::parse(&body[..cut]) else { return };
    assert_eq!(part.code, whole.code, "{body:?} cut at {cut}");
    for mutation in mutations {
        let (part, whole) = (mutation_outcome(mutation, part), mutation_outcome(mutation, whole));
        assert!(part == whole || part == MutationOutcome::Unknown, "{body:?} cut at {cut}");
    }
}

// proves: C-5
#[test]
fn bodies_with_exceptions() {
    let wanted = std::env::var("FUZZ").map_or(EXECUTIONS_BY_DEFAULT, |n| n.parse().unwrap());
    let (corpus, mutations) = (corpus(), mutations());
    let mut rng = StdRng::seed_from_u64(0);
    let mut found = 0_u64;
    for _ in 0..wanted {
        let body = mutate(&corpus, &mut rng);
        let Some(error) = ServerError::find(&body) else {
            assert_eq!(ServerError::parse(&body), None, "{body:?}");
            continue;
        };
        found += 1;
        let _ = read_failure(error);
        // Written again as a server writes it, it is read as the same.
        let again = format!("Code: {}. DB::Exception: {}", error.code, words(error.keeper));
        assert_eq!(ServerError::parse(&again), Some(error), "{body:?}");
        for mutation in &mutations {
            let conflict = mutation_outcome(mutation, error) == MutationOutcome::Conflict;
            assert!(!conflict || body.contains("Transaction failed"), "{body:?}");
        }
        if let Some(whole) = ServerError::parse(&body) {
            let cut = border(&body, &mut rng);
            says_no_more(&body, whole, cut, &mutations);
        }
    }
    println!("http: {wanted} executions, {found} exceptions");
    assert!(found > 0);
    if std::env::var_os("FUZZ").is_some() {
        let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/proof-parts");
        std::fs::create_dir_all(&parts).unwrap();
        let figures = format!("{{\"fuzz_executions\": {wanted}, \"violations\": 0}}");
        std::fs::write(parts.join("fuzz-http.json"), figures).unwrap();
    }
}

fn words(keeper: Option<KeeperError>) -> &'static str {
    match keeper {
        Some(KeeperError::NodeExists) => "Transaction failed (Node exists): Op #0",
        Some(KeeperError::BadVersion) => "Transaction failed (Bad version): Op #0",
        Some(KeeperError::Refused) => "Transaction failed: Op #0",
        Some(KeeperError::Other) | None => "anything",
    }
}
