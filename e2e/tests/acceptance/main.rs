//! Acceptance: the operator as its own process, the chart's ServiceAccount, a real API server, the embedded cluster.
//! Every verdict comes from outside: entries counted in Keeper, tables read on the members.

#![allow(clippy::unwrap_used, clippy::panic)] // the whole target is tests

mod admission;
mod answers;
mod api;
mod authority;
mod bad_clusters;
mod basics;
mod cli;
mod cluster_edits;
mod doctor;
mod drift;
mod errors;
mod faults;
mod keeper_lost;
mod late;
mod lifecycle;
mod looks;
mod names;
mod namespaces;
mod obstacles;
mod old_engine;
mod operators;
mod own_clusters;
mod page;
mod receipts;
mod retention;
mod scenarios;
mod stage;
mod stuck;
mod verdicts;
mod verdicts_beside;

use libtest_mimic::{Arguments, Failed, Trial};
use publication_e2e::cluster::Lane;
use stage::Stage;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Case = for<'a> fn(&'a mut Stage) -> Pin<Box<dyn Future<Output = publication_e2e::Result<()>> + 'a>>;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(stage::AT_ONCE);
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap());
    let stages = Arc::new(stage::Stages::default());
    let topics = [
        basics::CASES,
        answers::CASES,
        faults::CASES,
        stuck::CASES,
        drift::CASES,
        late::CASES,
        operators::CASES,
        lifecycle::CASES,
        namespaces::CASES,
        own_clusters::CASES,
        retention::CASES,
        cluster_edits::CASES,
        cli::CASES,
        doctor::CASES,
        receipts::CASES,
        verdicts::CASES,
        verdicts_beside::CASES,
        admission::CASES,
        errors::CASES,
        bad_clusters::CASES,
        names::CASES,
        api::CASES,
        authority::CASES,
        scenarios::CASES,
        keeper_lost::CASES,
    ];
    let trials = topics
        .iter()
        .flat_map(|cases| cases.iter().map(|case| (Lane::V26_9, case)))
        .chain(old_engine::CASES.iter().map(|case| (Lane::V24_8, case)))
        .map(|(lane, (name, members, case))| {
            let (runtime, stages, members, case) =
                (Arc::clone(&runtime), Arc::clone(&stages), *members, *case);
            let trial = Trial::test(*name, move || {
                let run = runtime.block_on(stages.run(members, lane, case));
                run.map_err(|error| Failed::from(error.to_string()))
            });
            // Printed with the name, for the report of `make acceptance`.
            trial.with_kind(lane.name())
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    runtime.block_on(stages.end());
    conclusion.exit();
}
