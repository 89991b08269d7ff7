//! The named configurations, each exhausted.

use super::explore::{Explored, explore};
use super::state::Config;
use std::time::Instant;

const STATES_MAX: usize = 3_000_000;

/// Two members, one worker, two faults of the kinds that a configuration names.
fn base(name: &'static str) -> Config {
    Config { name, members: 2, workers: vec![0], faults: 2, ..Config::default() }
}

/// The same with a person who follows `docs/recovery.md`, in a world of snapshots.
#[cfg(publication_model)]
fn verdict(name: &'static str) -> Config {
    Config { snapshot: true, verdicts: true, ..base(name) }
}

/// Small enough for a build without optimisation.
fn light() -> Vec<Config> {
    vec![
        Config { workers: vec![0, 0], faults: 0, snapshot: true, coarse: true, ..base("n2_w2_race") },
        Config {
            absent_target: true,
            loss: true,
            crash: true,
            split: true,
            permit: true,
            ..base("n2_w1_absent_target")
        },
        Config { members: 3, faults: 1, crash: true, coarse: true, ..base("n3_w1") },
        Config {
            faults: 1,
            deletion: true,
            permit: true,
            crash: true,
            again: true,
            ..base("n2_w1_deletion")
        },
    ]
}

#[cfg(publication_model)]
fn heavy() -> Vec<Config> {
    vec![
        Config { loss: true, crash: true, ..base("n2_w1_loss") },
        Config { loss: true, refuse: true, delay: true, coarse: true, ..verdict("n2_w1_verdict") },
        Config {
            faults: 1,
            snapshot: false,
            loss: true,
            refuse: true,
            delay: true,
            crash: true,
            ..verdict("n2_w1_verdict_unhurried")
        },
        Config {
            absent_target: true,
            loss: true,
            refuse: true,
            delay: true,
            down: true,
            ..verdict("n2_w1_verdict_absent_target")
        },
        Config {
            faults: 1,
            removal: true,
            undo: true,
            twice: true,
            refuse: true,
            ..verdict("n2_w1_verdict_residue")
        },
        Config {
            workers: vec![0, 1],
            faults: 1,
            loss: true,
            refuse: true,
            delay: true,
            coarse: true,
            ..verdict("n2_two_operations_verdict")
        },
        Config { members: 3, faults: 1, refuse: true, loss: true, coarse: true, ..verdict("n3_w1_verdict") },
        Config {
            workers: vec![0, 0],
            faults: 1,
            snapshot: true,
            coarse: true,
            crash: true,
            ..base("n2_w2_crash")
        },
        Config { twice: true, undo: true, refuse: true, ..base("n2_w1_double_execution") },
        Config { down: true, split: true, crash: true, ..base("n2_w1_member_down") },
        Config {
            faults: 1,
            split: true,
            stale: true,
            removal: true,
            permit: true,
            ..base("n2_w1_stale_and_retention")
        },
        Config { faults: 1, delay: true, crash: true, ..base("n2_w1_network_delay") },
        Config {
            workers: vec![0, 1],
            faults: 1,
            snapshot: true,
            loss: true,
            crash: true,
            permit: true,
            deletion: true,
            delay: true,
            ..base("n2_two_operations")
        },
    ]
}

fn check(config: &Config) -> Explored {
    let begun = Instant::now();
    let found = explore(config, STATES_MAX);
    println!(
        "{}: {} unique states, {} transitions, exhausted {}, {} can still succeed, {} ms",
        found.name,
        found.unique_states,
        found.transitions,
        if found.exhausted { "yes" } else { "no" },
        found.can_succeed,
        begun.elapsed().as_millis(),
    );
    assert!(found.violation.is_none(), "{}: {}", found.name, found.violation.unwrap_or_default());
    assert!(found.exhausted, "{} was not exhausted", found.name);
    found
}

#[test]
fn the_small_configurations_are_exhausted() {
    light().iter().for_each(|config| {
        check(config);
    });
}

/// Ready, `NotReady` are admission's, and `Nothing` is reported as an end.
#[cfg(publication_model)]
#[test]
fn every_configuration_is_exhausted_and_everything_is_reached() {
    use crate::phase::Phase;
    use std::collections::BTreeSet;
    let all: Vec<Config> = heavy().into_iter().chain(light()).collect();
    let explored = on_every_core(&all);
    let reached: BTreeSet<&str> =
        explored.iter().flat_map(|e| e.reached.iter().map(String::as_str)).collect();
    println!("reached: {reached:?}");
    for phase in Phase::ALL.into_iter().filter(|p| *p != Phase::Committed) {
        assert!(reached.contains(format!("phase {phase}").as_str()), "{phase} was not reached");
    }
    for class in [
        "InProgress",
        "PartialInProgress",
        "PartialTerminal",
        "CommittedPendingReceipt",
        "Committed",
        "FailedUnchanged",
        "OutcomeUnknown",
        "Cleanup",
        "CleanupBlocked",
    ] {
        assert!(reached.contains(format!("class {class}").as_str()), "{class} was not reached");
    }
    for end in ["Succeeded", "Failed", "Gone", "Waiting", "Stalled"] {
        assert!(reached.contains(format!("end {end}").as_str()), "{end} was not reached");
    }
    for verdict in ["Committed on IN_PROGRESS", "NotApplied on IN_PROGRESS", "NameCleared on ABANDONED"] {
        assert!(reached.contains(format!("verdict {verdict}").as_str()), "{verdict} was not reached");
    }
    write(&explored);
}

/// Configurations are independent of each other.
#[cfg(publication_model)]
fn on_every_core(all: &[Config]) -> Vec<Explored> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let take = || {
        let mine = std::iter::from_fn(|| all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        mine.map(check).collect::<Vec<Explored>>()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a configuration holds")).collect()
    })
}

/// Of this process, as the kernel saw it.
#[cfg(publication_model)]
fn peak_rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    peak.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) / 1024
}

/// `target/proof-report.json`, for CI and for readers.
#[cfg(publication_model)]
fn write(explored: &[Explored]) {
    let configurations: Vec<serde_json::Value> = explored
        .iter()
        .map(|e| {
            serde_json::json!({"name": e.name, "unique_states": e.unique_states, "exhausted": e.exhausted})
        })
        .collect();
    let report = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/proof-report.json");
    let known = std::fs::read(&report).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut all: serde_json::Map<String, serde_json::Value> = known.unwrap_or_default();
    all.insert("configurations".into(), configurations.into());
    all.insert("peak_rss_mib".into(), peak_rss_mib().into());
    let text = serde_json::to_string_pretty(&all).expect("a map serialises");
    std::fs::write(&report, text).expect("target/ is writable");
}
