//! Long mixed runs of the async shell over the in-memory world, each scheduled by a seed.
//!
//! `SEED=n` replays one with its log; `SEEDS=n` sets how many run (a few by default, 20,000 in the suite).
#![allow(clippy::unwrap_used, clippy::panic)]

mod sim;
mod support;

use sim::run::{Simulation, Stats};
use std::panic::{AssertUnwindSafe, catch_unwind};
use support::proof::{number, on_every_core, write};

const SEEDS_BY_DEFAULT: u64 = 60;
/// With so many, everything that can be reached is.
const SEEDS_OF_THE_SUITE: u64 = 20_000;
const REPLAY: &str =
    "cargo test --locked --profile model -p publication-protocol --test simulation -- --nocapture";

fn run(seed: u64, logs: bool) -> Result<Stats, (String, Vec<String>)> {
    let ran = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed, logs).run()));
    ran.unwrap_or_else(|_| Err(("panicked".into(), Vec::new())))
}

// proves: C-3, C-6, C-7, C-8, C-10, C-11, C-12, C-14, D-5, F-2, G-1, G-2, G-3, G-4, G-5, H-1, H-3, J-2, J-3
#[test]
fn seeded_runs_keep_every_invariant_and_come_to_rest() {
    if let Some(seed) = number("SEED") {
        match run(seed, true) {
            Ok(stats) => println!("seed {seed} holds: {stats:?}"),
            Err((violation, log)) => panic!("{}\nseed {seed}: {violation}", log.join("\n")),
        }
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS_BY_DEFAULT);
    let (mut total, mut failed) = (Stats::default(), 0);
    for (seed, ran) in on_every_core(seeds, |seed| (seed, run(seed, false))) {
        match ran {
            Ok(stats) => total.add(stats),
            Err((violation, _)) => {
                failed += 1;
                if failed <= 10 {
                    println!("seed {seed}: {violation}\n  replay: SEED={seed} {REPLAY}");
                }
            }
        }
    }
    println!("{seeds} seeds, {failed} failed; {total:#?}");
    if number("SEEDS").is_some() {
        write("simulation", &serde_json::json!({"simulation_seeds": seeds, "violations": failed}));
    }
    assert_eq!(failed, 0, "of {seeds} seeds");
    if seeds >= SEEDS_OF_THE_SUITE {
        everything_was_reached(&total);
    }
}

/// A simulation that never gets anywhere proves nothing.
fn everything_was_reached(total: &Stats) {
    use publication_protocol::phase::Phase;
    let mut wanted: Vec<String> = Phase::ALL.iter().map(|phase| format!("phase {phase}")).collect();
    wanted.extend(
        [
            "end Succeeded",
            "end Failed",
            "end Gone",
            "end Stalled",
            "class InProgress",
            "class PartialInProgress",
            "class PartialTerminal",
            "class CommittedPendingReceipt",
            "class Committed",
            "class FailedUnchanged",
            "class OutcomeUnknown",
            "class Cleanup",
            "class CleanupBlocked",
            "verdict Committed",
            "verdict NotApplied",
            "verdict NameCleared",
            "by hand",
            "code CANDIDATE_NAME_SPENT",
            "code FAILED_UNCHANGED",
            "code UNSAFE_CLEANUP_IDENTITY",
            "code SUPERSEDED",
        ]
        .map(String::from),
    );
    let missed: Vec<&String> = wanted.iter().filter(|what| !total.reached.contains_key(*what)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
}
