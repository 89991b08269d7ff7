//! Chaos: 20 publications on 5 targets while operator, members and Keeper are killed, answers are cut, and objects are
//! deleted and made anew. Seeded and bounded; judged from ClickHouse and Keeper alone.
//!
//! `CHAOS_SEEDS=7` replays one seed, `CHAOS_SEEDS=1..40` runs many.

#![allow(clippy::unwrap_used, clippy::panic)] // the whole target is tests

mod judge;
mod storm;

use judge::Ledger;
use libtest_mimic::{Arguments, Failed, Trial};
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, PLATFORM, Publication};
use publication_e2e::paths::root;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::{Environment, Options, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use std::time::Duration;

const SEEDS: std::ops::Range<u64> = 1..4;
/// Environments at once, as many as the acceptance suite has.
const AT_ONCE: usize = 2;
const SPACE: &str = "shop";
const DATABASE: &str = "shop";
const TARGETS: usize = 5;
const ROUNDS: usize = 4;
/// Small, so that the waits of D-5 (this, and about 45 s) end within a round.
const STATEMENT_TIMEOUT_SECONDS: u32 = 1;
const PASSING: [&str; 5] = [
    "ENDPOINT_UNAVAILABLE",
    "AUTHORITY_UNAVAILABLE",
    "INCOMPLETE_INVENTORY",
    "CAS_OUTCOME_UNKNOWN",
    "CAS_CONFLICT",
];
const READY_WITHIN: Duration = Duration::from_secs(60);
const SETTLES_WITHIN: Duration = Duration::from_secs(240);

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(AT_ONCE);
    let seeds: Vec<u64> = std::env::var("CHAOS_SEEDS").map_or_else(|_| SEEDS.collect(), |text| parse(&text));
    let whole = arguments.filter.is_none() && seeds.len() >= SEEDS.count();
    let trials = seeds
        .into_iter()
        .map(|seed| {
            Trial::test(format!("seed_{seed}"), move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
                runtime.block_on(run(seed)).map_err(|error| {
                    Failed::from(format!(
                        "{error}\nreplay: CHAOS_SEEDS={seed} cargo test -p publication-e2e --test chaos"
                    ))
                })
            })
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    // A single seed that is replayed is no new figure.
    if whole {
        write(conclusion.num_passed, conclusion.num_failed).expect("target/ is writable");
    }
    conclusion.exit();
}

/// For tools/proof-report.
fn write(passed: u64, failed: u64) -> std::io::Result<()> {
    let parts = root().join("target/proof-parts");
    std::fs::create_dir_all(&parts)?;
    let figures = json!({"chaos_runs": passed + failed, "violations": failed});
    std::fs::write(parts.join("chaos.json"), figures.to_string())
}

/// `7`, or `1..40`.
fn parse(text: &str) -> Vec<u64> {
    match text.split_once("..") {
        Some((from, to)) => (from.parse().unwrap()..to.parse().unwrap()).collect(),
        None => vec![text.parse().unwrap()],
    }
}

// proves: C-3, C-4, C-6, C-7, C-8, C-12, D-3, D-5, G-1, G-2, G-3, G-5, K30
async fn run(seed: u64) -> Result<()> {
    let options = Options { name: format!("chaos-{seed}"), ..Options::default() };
    let mut env = Environment::start(options).await?;
    env.apply_platform().await?;
    let patch = json!({"spec": {"statementTimeoutSeconds": STATEMENT_TIMEOUT_SECONDS}});
    env.control_plane.merge_patch(Kind::Cluster, PLATFORM, CLUSTER_OBJECT, &patch).await?;
    env.namespace(SPACE).await?;
    env.start_operator().await?;
    env.wait_cluster_ready(READY_WITHIN).await?;
    let result = rounds(&mut env, seed).await;
    let ledger = result.map_err(|error| env.explain(&error))?;
    println!("seed {seed}: {}", ledger.summary());
    Ok(())
}

async fn rounds(env: &mut Environment, seed: u64) -> Result<Ledger> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut ledger = Ledger::default();
    for target in (0..TARGETS).map(target) {
        env.cluster.table_with_rows(DATABASE, &target, 3, 0).await?;
        ledger.live(env, &target).await?;
    }
    for round in 0..ROUNDS {
        let mut open = Vec::new();
        let moving: Vec<usize> = (0..TARGETS).filter(|at| !ledger.is_stopped(&target(*at))).collect();
        for at in moving {
            let (target, rows) = (target(at), (10 * (round + 1) + at) as u64);
            let candidate = format!("{target}__pub_{round}");
            env.cluster.table_with_rows(DATABASE, &candidate, rows, 1_000).await?;
            ledger.candidate(env, &target, &candidate, rows).await?;
            let name = format!("{target}-{round}");
            let publication = Publication::new(SPACE, &name, DATABASE, &target, rows).candidate(&candidate);
            open.push(publication);
        }
        storm::faults(env, &mut rng)?;
        for publication in &open {
            env.publish(publication).await?;
        }
        storm::disrupt(env, &mut rng, &mut open).await?;
        storm::heal(env).await?;
        for publication in &open {
            settle(env, &mut ledger, publication).await?;
        }
        ledger.judge(env).await?;
    }
    Ok(ledger)
}

/// Waits for an outcome. What it says is used to know when to look, and what to leave alone afterwards; nothing is
/// judged by it.
async fn settle(env: &Environment, ledger: &mut Ledger, publication: &Publication) -> Result<()> {
    let what = format!("{} settles", publication.name);
    // Behind one that waits for a person it waits as long.
    let held = ledger.is_stopped(&publication.target);
    let outcome = eventually(SETTLES_WITHIN, &what, || async {
        let Some(object) = env.control_plane.object(Kind::Publication, SPACE, &publication.name).await?
        else {
            return Ok(Seen::Done("gone".to_owned()));
        };
        let status = &object["status"];
        // Trouble on the way to the evidence passes by itself, now that everybody is well.
        let code = status["error"]["code"].as_str().unwrap_or_default();
        if held && code == "AUTHORITY_CONFLICT" {
            return Ok(Seen::Done("held".to_owned()));
        }
        let passes = PASSING.contains(&code);
        let outcome = status["outcome"].as_str().filter(|outcome| *outcome != "Blocked" || !passes);
        Ok(outcome.map_or_else(|| Seen::not_yet(status), |outcome| Seen::Done(outcome.to_owned())))
    })
    .await?;
    if outcome == "Blocked" {
        ledger.stop(&publication.target);
    }
    ledger.count(&outcome);
    Ok(())
}

fn target(at: usize) -> String {
    format!("t{at}")
}
