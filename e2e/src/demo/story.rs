//! The chapters after the set-up. Each shows something and proves it, or ends the demo.

use serde_json::Value;

use super::proof::{self, Table, Tables, expect};
use super::samples::{self, Sample};
use super::terminal::{Terminal, grouped};
use super::watch::Watch;
use crate::environment::Environment;
use crate::error::{Context, Result};

const NAMESPACE: &str = "shop";
const OLD_ROWS: u64 = 1_204_117;
const CUSTOMERS: u64 = 48_210;
const NEXT_ROWS: u64 = 1_495_810;
/// The member whose DDL worker is paused.
const PAUSED: usize = 1;

fn succeeded(object: &Value) -> bool {
    object["status"]["outcome"] == "Succeeded"
}

fn operation(object: &Value) -> Result<String> {
    object["status"]["operationId"].as_str().map(str::to_owned).context("status.operationId")
}

/// `kubectl`, shown as typed and as answered.
async fn kubectl(ui: &Terminal, env: &Environment, args: &[&str]) -> Result<()> {
    ui.command(&format!("kubectl {}", args.join(" ")));
    ui.quote(&env.control_plane.kubectl(args).await?);
    Ok(())
}

/// Applies the sample as it lies in the checkout.
async fn apply<'a>(ui: &Terminal, env: &'a Environment, file: &str, sample: &Sample) -> Result<Watch<'a>> {
    let watch = Watch::begin(env, NAMESPACE, &sample.name).await?;
    ui.command(&format!("cat {file}"));
    ui.quote(&sample.body());
    ui.command(&format!("kubectl apply -f {file}"));
    let path = samples::path(file).display().to_string();
    ui.quote(&env.control_plane.kubectl(["apply", "-f", &path]).await?);
    ui.line("");
    Ok(watch)
}

/// Chapters 2 to 4: a target that exists.
pub async fn existing_target(ui: &Terminal, env: &Environment) -> Result<()> {
    let sample = Sample::load(samples::AUTHOR)?;
    let new_rows = sample.exact_rows()?;
    ui.title("2  A live table, and the candidate that is to take its place");
    let fill = async {
        env.cluster.table_with_rows(&sample.database, &sample.target, OLD_ROWS, 0).await?;
        env.cluster.table_with_rows(&sample.database, &sample.candidate, new_rows, 0).await
    };
    let said = format!("{} old and {} new rows on each replica", grouped(OLD_ROWS), grouped(new_rows));
    ui.step("create and fill", fill, |()| said).await?;
    let before = proof::tables(env, &sample).await?;
    let (old, new) =
        (proof::generation(&before, &sample.target)?, proof::generation(&before, &sample.candidate)?);
    let names = [(old, "old"), (new, "new")];
    proof::show_tables(ui, env, &sample, &before, &names);

    ui.title("3  The author applies one manifest, the operator does the rest");
    let mut watch = apply(ui, env, samples::AUTHOR, &sample).await?;
    let object = watch.follow(ui, succeeded).await?;

    ui.title("4  The proof, read past the operator");
    let after = proof::tables(env, &sample).await?;
    ui.text("Tables on each replica now:");
    proof::show_tables(ui, env, &sample, &after, &names);
    proof::expect_only(&after, &sample, &Table { rows: new_rows, generation: new })?;
    proof::expect_dropped(env, old).await?;
    ui.proved(
        "every replica serves the new generation; the candidate's name and the old generation are gone",
    );

    let operation = operation(&object)?;
    let entries = proof::entries(env, &operation).await?;
    ui.line("");
    ui.text(
        "What the operator sent to the cluster, as it lies in Keeper (entry, statement, log_comment, hosts):",
    );
    proof::show_entries(ui, env, &entries);
    proof::expect_entries(env, &entries, &[("EXCHANGE", 1), ("RENAME", 1), ("DROP", 1)])?;
    expect("EXCHANGE entries in Keeper", &proof::exchanges(env, &sample).await?, &1)?;
    ui.proved("exactly one EXCHANGE, finished with code 0 on both hosts; one RENAME and one DROP cleaned up");

    slot(ui, env, &sample, &operation).await?;
    kubectl(ui, env, &["-n", NAMESPACE, "get", "cpub"]).await?;
    ui.line("");
    proof::show_conditions(ui, &object);
    Ok(())
}

async fn slot(ui: &Terminal, env: &Environment, sample: &Sample, operation: &str) -> Result<()> {
    ui.line("");
    ui.text("The target's slot in Keeper, the only authority on what may be sent:");
    let slot = proof::slot(env, operation).await?;
    proof::show_slot(ui, sample, &slot);
    expect("phase of the slot", &slot.phase.as_str(), &"COMPLETED")?;
    ui.proved("the slot is closed: nothing of this operation can be sent again");
    Ok(())
}

/// Chapter 5: the first publication of a name.
pub async fn absent_target(ui: &Terminal, env: &Environment) -> Result<()> {
    let sample = Sample::load(samples::AUTHOR_FIRST)?;
    ui.title("5  The same for a target that does not exist yet");
    let fill = env.cluster.table_with_rows(&sample.database, &sample.candidate, CUSTOMERS, 0);
    ui.step("create and fill", fill, |()| format!("{} rows on each replica", grouped(CUSTOMERS))).await?;
    let before = proof::tables(env, &sample).await?;
    let new = proof::generation(&before, &sample.candidate)?;
    proof::show_tables(ui, env, &sample, &before, &[(new, "new")]);

    let mut watch = apply(ui, env, samples::AUTHOR_FIRST, &sample).await?;
    let object = watch.follow(ui, succeeded).await?;
    let after = proof::tables(env, &sample).await?;
    ui.line("");
    proof::show_tables(ui, env, &sample, &after, &[(new, "new")]);
    proof::expect_only(&after, &sample, &Table { rows: CUSTOMERS, generation: new })?;
    let operation = operation(&object)?;
    let entries = proof::entries(env, &operation).await?;
    proof::show_entries(ui, env, &entries);
    proof::expect_entries(env, &entries, &[("EXCHANGE", 0), ("RENAME", 1), ("DROP", 0)])?;
    let slot = proof::slot(env, &operation).await?;
    expect("phase of the slot", &slot.phase.as_str(), &"COMPLETED")?;
    ui.proved("one RENAME and nothing else: there was nothing to exchange and nothing to clean up");
    Ok(())
}

/// Chapter 6: a replica that lags in the middle of the swap.
pub async fn paused_replica(ui: &Terminal, env: &Environment) -> Result<()> {
    let (sample, sed) = Sample::load(samples::AUTHOR)?.next_day(NEXT_ROWS)?;
    let (first, paused) = (env.cluster.member(0)?.spec.shown(), env.cluster.member(PAUSED)?.spec.shown());
    ui.title("6  A fault on purpose: replica 2 stops taking statements in the middle of the swap");
    let fill = env.cluster.table_with_rows(&sample.database, &sample.candidate, NEXT_ROWS, 0);
    let said = format!("{} with {} rows", sample.candidate, grouped(NEXT_ROWS));
    ui.step("the next day's candidate", fill, |()| said).await?;
    let before = proof::tables(env, &sample).await?;
    let (old, new) =
        (proof::generation(&before, &sample.target)?, proof::generation(&before, &sample.candidate)?);
    let names = [(old, "old"), (new, "new")];
    let member = env.cluster.member(PAUSED)?;
    member.ddl_pause().await?;
    ui.text(&format!("{paused}:"));
    ui.text("the worker that executes distributed statements is paused; the server itself goes on.");

    let mut watch = Watch::begin(env, NAMESPACE, &sample.name).await?;
    ui.command(&format!("sed '{sed}' {} \\\n    | kubectl apply -f -", samples::AUTHOR));
    ui.quote(&env.control_plane.apply_yaml(&sample.text).await?);
    ui.line("");
    let partial = |object: &Value| object["status"]["classification"] == "PartialInProgress";
    let object = watch.follow(ui, partial).await?;
    let operation = operation(&object)?;
    let columns = "CLASSIFICATION:.status.classification,STATES:.status.replicas[*].state";
    ui.command(&format!(
        "kubectl -n {NAMESPACE} get cpub {} \\\n    -o custom-columns='{columns}'",
        sample.name
    ));
    let columns = format!("custom-columns={columns}");
    let get = ["-n", NAMESPACE, "get", "cpub", &sample.name, "-o", &columns];
    ui.quote(&env.control_plane.kubectl(get).await?);
    let between = proof::tables(env, &sample).await?;
    ui.line("");
    proof::show_tables(ui, env, &sample, &between, &names);
    let sent = proof::entries(env, &operation).await?;
    proof::show_entries(ui, env, &sent);
    expect("statements sent so far", &sent.len(), &1)?;
    expect_partial(&between, &sample, (old, new))?;
    expect("EXCHANGE entries in Keeper", &proof::exchanges(env, &sample).await?, &1)?;
    ui.proved(&format!("{first} serves the new generation, {paused} the old one;"));
    ui.text("    the operator waits and sends nothing more");

    ui.line("");
    ui.text(&format!("{paused}: resumed."));
    member.ddl_resume().await?;
    watch.follow(ui, succeeded).await?;
    let after = proof::tables(env, &sample).await?;
    ui.line("");
    proof::show_tables(ui, env, &sample, &after, &names);
    proof::expect_only(&after, &sample, &Table { rows: NEXT_ROWS, generation: new })?;
    let entries = proof::entries(env, &operation).await?;
    proof::show_entries(ui, env, &entries);
    proof::expect_entries(env, &entries, &[("EXCHANGE", 1), ("RENAME", 1), ("DROP", 1)])?;
    expect("EXCHANGE entries in Keeper", &proof::exchanges(env, &sample).await?, &1)?;
    proof::expect_dropped(env, old).await?;
    ui.proved("converged; EXCHANGE entries for this candidate in Keeper: still 1");
    slot(ui, env, &sample, &operation).await
}

fn expect_partial(tables: &Tables, sample: &Sample, (old, new): (uuid::Uuid, uuid::Uuid)) -> Result<()> {
    let served: Vec<_> = tables.iter().map(|t| t.get(&sample.target).map(|t| t.generation)).collect();
    expect("generations served by replicas 1 and 2", &served, &vec![Some(new), Some(old)])
}

pub async fn summary(ui: &Terminal, env: &Environment) -> Result<()> {
    ui.title("7  What happened");
    kubectl(ui, env, &["-n", NAMESPACE, "get", "cpub"]).await?;
    ui.line("");
    let entries = env.ddl_entries().await?;
    let swaps = entries.iter().filter(|e| e.kind() == "EXCHANGE").count();
    expect("EXCHANGE entries in all of Keeper", &swaps, &2)?;
    for member in &env.cluster.members {
        ui.text(&member.spec.shown());
        ui.text(
            "    shop.orders was exchanged twice (two publications), shop.customers renamed into place once.",
        );
    }
    for line in [
        "The second exchange came late on replica 2, because its worker was paused, and was not sent again.",
        "Keeper holds 2 EXCHANGE entries, one for each publication of shop.orders, and not one more.",
        "Old generations were dropped only after every replica was proved to serve the new one.",
    ] {
        ui.text(line);
    }
    ui.line("");
    ui.text("Next: config/samples/ for the platform's and the author's side, charts/ to install, README.md for limits.");
    Ok(())
}
