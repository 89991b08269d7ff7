//! The named configurations, each exhausted.

use super::configs::light;
#[cfg(publication_model)]
use super::configs::{heavy, soak};
#[cfg(publication_model)]
use super::explore::memory_mib;
use super::explore::{Bounds, Explored, explore};
use super::state::Config;
#[cfg(publication_model)]
use std::collections::BTreeSet;
use std::time::Instant;

const BOUNDS: Bounds = Bounds { states_max: 3_000_000, rss_mib_max: u64::MAX, progress: false };
/// One configuration after the other; a machine with 8 GiB does it.
#[cfg(publication_model)]
const SOAK: Bounds = Bounds { states_max: 25_000_000, rss_mib_max: 6_000, progress: true };

fn check(config: &Config) -> Explored {
    let found = look(config, BOUNDS);
    assert!(found.exhausted, "{} was not exhausted", found.name);
    found
}

fn look(config: &Config, bounds: Bounds) -> Explored {
    let begun = Instant::now();
    let found = explore(config, bounds);
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
    use crate::classify::Classification;
    use crate::phase::Phase;
    if let Ok(wanted) = std::env::var("MODEL") {
        return some(&wanted);
    }
    let all: Vec<Config> = heavy().into_iter().chain(light()).collect();
    let explored = on_every_core(&all);
    let reached: BTreeSet<&str> =
        explored.iter().flat_map(|e| e.reached.iter().map(String::as_str)).collect();
    println!("reached: {reached:?}");
    for phase in Phase::ALL.into_iter().filter(|p| *p != Phase::Committed) {
        assert!(reached.contains(format!("phase {phase}").as_str()), "{phase} was not reached");
    }
    // What precedes a dispatch is decided by D-1, not by a class.
    for class in Classification::WORDS.into_iter().filter(|c| !["Ready", "NotReady"].contains(c)) {
        assert!(reached.contains(format!("class {class}").as_str()), "{class} was not reached");
    }
    for end in ["Succeeded", "Failed", "Gone", "Waiting", "Stalled"] {
        assert!(reached.contains(format!("end {end}").as_str()), "{end} was not reached");
    }
    for verdict in [
        "Committed on IN_PROGRESS",
        "NotApplied on IN_PROGRESS",
        "NameCleared on ABANDONED",
        "Rebaselined on IN_PROGRESS",
    ] {
        assert!(reached.contains(format!("verdict {verdict}").as_str()), "{verdict} was not reached");
    }
    write(&explored);
}

/// `MODEL=soak`, or names; as far as the bounds let it. What is not exhausted is said to be so.
#[cfg(publication_model)]
fn some(wanted: &str) {
    let names: Vec<&str> = wanted.split(',').collect();
    let large = soak().into_iter().map(|config| (config, true));
    let others = heavy().into_iter().chain(light()).map(|config| (config, false));
    let is_wanted = |(config, large): &(Config, bool)| {
        names.contains(&config.name) || (*large && names.contains(&"soak"))
    };
    let explored: Vec<Explored> =
        large.chain(others).filter(is_wanted).map(|(config, _)| look(&config, SOAK)).collect();
    assert!(!explored.is_empty(), "MODEL={wanted} names no configuration");
    let states: usize = explored.iter().map(|e| e.unique_states).sum();
    let exhausted = explored.iter().filter(|e| e.exhausted).count();
    let reached: BTreeSet<&str> =
        explored.iter().flat_map(|e| e.reached.iter().map(String::as_str)).collect();
    println!("reached: {reached:?}");
    println!("{states} unique states, {exhausted} of {} configurations exhausted", explored.len());
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
    all.insert("peak_rss_mib".into(), memory_mib("VmHWM:").into());
    let text = serde_json::to_string_pretty(&all).expect("a map serialises");
    std::fs::write(&report, text).expect("target/ is writable");
}
