//! Two operators at once, and operators that end at the worst moment.

use crate::Case;
use crate::looks::{passes, truth};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::evidence::{check_one_shot, dispatches};
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{Publication, condition};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, Outcome, Record, Rule, StatementKind};
use publication_e2e::{Environment, Error, Options, Result};
use serde_json::Value;
use std::time::{Duration, Instant};

pub const CASES: &[(&str, usize, Case)] = &[
    ("two_operators_one_object", 2, |s| Box::pin(two_operators_one_object(s))),
    ("two_operators_two_objects", 2, |s| Box::pin(two_operators_two_objects(s))),
    ("two_operators_bootstrap", 2, |s| Box::pin(two_operators_bootstrap(s))),
    ("a_lagging_operator_takes_nothing_back", 2, |s| Box::pin(a_lagging_operator_takes_nothing_back(s))),
    ("killed_at_every_boundary", 2, |s| Box::pin(killed_at_every_boundary(s))),
    ("late_effects_of_a_killed_operator", 2, |s| Box::pin(late_effects(s))),
    ("a_permit_outlived_by_a_pause", 2, |s| Box::pin(a_permit_outlived_by_a_pause(s))),
    ("sigterm_while_dispatching", 2, |s| Box::pin(sigterm_while_dispatching(s))),
    ("sigterm_while_idle", 2, |s| Box::pin(sigterm_while_idle(s))),
];

/// Longest permit (10 s), and a little.
const PERMIT_OVER: Duration = Duration::from_secs(11);
/// Well below `terminationGracePeriodSeconds` of the chart.
const GRACE: Duration = Duration::from_secs(15);

// proves: C-3, C-6, C-8, D-2, S05
async fn two_operators_one_object(s: &mut Stage) -> Result<()> {
    const ROUNDS: u64 = 5;
    s.tables(true, 0).await?;
    s.env.start_operator().await?;
    for round in 1..=ROUNDS {
        let candidate = format!("orders__pub_round{round}");
        s.env.cluster.table_with_rows(&s.database, &candidate, round, 100).await?;
        let mut publication = s.publication(round).candidate(&candidate);
        publication.name = format!("{}-{round}", publication.name);
        s.env.publish(&publication).await?;
        s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
        let counts = s.env.cluster.counts(&s.database, "orders").await?;
        expect("rows of the target by member", &counts, &vec![round; 2])?;
        expect(
            "EXCHANGE entries in Keeper",
            &s.entries("EXCHANGE").await?,
            &usize::try_from(round).unwrap(),
        )?;
    }
    let records = s.env.records();
    check_one_shot(&records)?;
    let sent = dispatches(&records, Some(StatementKind::Exchange)).len();
    expect("EXCHANGE statements sent", &sent, &usize::try_from(ROUNDS).unwrap())?;
    expect("EXCHANGE executed by member", &s.executed("EXCHANGE").await?, &vec![sent; 2])
}

/// A waiting object says so.
fn waits(object: &Value) -> Option<()> {
    let slot = condition(object, "SlotAcquired")?;
    (slot["status"] == "False" && slot["reason"] == "Waiting").then_some(())
}

fn is(object: &Value, kind: &str) -> bool {
    truth(object, kind) == Some("True")
}

// proves: C-8, H
async fn two_operators_two_objects(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    s.env.cluster.table_with_rows(&s.database, "orders__pub_2", 6, 200).await?;
    s.env.start_operator().await?;
    let (mut a, mut b) = (s.publication(5), s.publication(6).candidate("orders__pub_2"));
    // One second of creation for both: the name decides.
    (a.name, b.name) = (format!("{}-a", s.database), format!("{}-b", s.database));
    s.platform(|cluster| cluster["spec"]["suspend"] = true.into()).await?;
    s.env.apply_yaml(&format!("{}\n---\n{}", b.manifest(), a.manifest())).await?;
    for name in [&a.name, &b.name] {
        s.wait(name, "converged", |o| is(o, "CandidateConverged").then_some(())).await?;
    }
    expect("a slot while suspended", &s.slot().await.is_ok(), &false)?;
    // The first in line stays under way until the second was seen waiting.
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.platform(|_| ()).await?;
    let first = s.wait(&a.name, "dispatched", |o| is(o, "Dispatched").then_some(())).await;
    let made = |o: Option<Value>| o.map(|o| o["metadata"]["creationTimestamp"].clone());
    let a_made = made(s.env.control_plane.object(Kind::Publication, SPACE, &a.name).await?);
    let b_made = made(s.env.control_plane.object(Kind::Publication, SPACE, &b.name).await?);
    let (front, back) = match (a_made == b_made, first) {
        (true, first) => first.map(|()| (&a, &b))?,
        // The machine was slow between the two documents: b is older.
        (false, _) => (&b, &a),
    };
    s.wait(&front.name, "dispatched", |o| is(o, "Dispatched").then_some(())).await?;
    s.wait(&back.name, "waits, and says for whom", |o| {
        let says = condition(o, "SlotAcquired")?["message"].as_str()?.contains(&front.name);
        waits(o).filter(|()| says)
    })
    .await?;
    expect("EXCHANGE entries while one is under way", &s.entries("EXCHANGE").await?, &1)?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    for publication in [front, back] {
        s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    }
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &2)?;
    let rows = back.rows["exact"].as_u64().unwrap();
    s.published(rows).await?;
    check_one_shot(&s.env.records())
}

// proves: B-5, B-6
async fn two_operators_bootstrap(_: &mut Stage) -> Result<()> {
    // An environment of its own: a cluster gets its facade once.
    let mut env = Environment::start(Options { name: "bootstrap".to_owned(), ..Options::default() }).await?;
    env.start_operator().await?;
    env.start_operator().await?;
    env.apply_platform().await?;
    env.namespace(SPACE).await?;
    let cluster = env.wait_cluster_ready(SOON).await?;
    let root = cluster["status"]["facadeRoot"].as_str().unwrap_or_default();
    let roots = env.keeper().keeper_map_roots().await?;
    expect("facades in Keeper", &roots.len(), &1)?;
    expect("the root in status", &(!root.is_empty() && roots[0].ends_with(root)), &true)?;
    env.cluster.table_with_rows("shop", "orders__pub_1", 5, 100).await?;
    env.publish(&Publication::new(SPACE, "orders", "shop", "orders", 5)).await?;
    env.wait_outcome(SPACE, "orders", "Succeeded", SOON).await.map(|_| ())
}

// proves: C-14, F-2
async fn a_lagging_operator_takes_nothing_back(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let story = s.story().await?;
    // One is held in admission, with the object as it was in its hands.
    let admission = s.env.rule(s.fault(Fault::HoldAnswer, StatementKind::Select))?;
    s.env.publish(&s.publication(5)).await?;
    admission.reached(1, SOON).await?;
    s.env.cluster.member(1)?.ddl_pause().await?;
    s.env.start_operator().await?;
    s.status("dispatched by the other", |o| is(o, "Dispatched")).await?;
    // It goes on with what it read long ago, and says what it thinks of it.
    let first = &s.env.operators[..1];
    let before = passes(first).await?;
    admission.release();
    eventually(SOON, "its pass is over", || async { Ok(Seen::when(passes(first).await? > before, "no")) })
        .await?;
    s.poke().await?;
    s.env.cluster.member(1)?.ddl_resume().await?;
    s.env.wait_outcome(SPACE, &s.name(), "Succeeded", SOON).await?;
    s.published(5).await?;
    s.expect_entries(1, 1, 1).await?;
    let statuses = story.statuses();
    let mut shown = statuses.iter().skip_while(|status| status["authorityVersion"].is_null());
    expect("a status without the witness", &shown.find(|status| status["authorityVersion"].is_null()), &None)
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// The statement reaches the server when its sender is dead.
    Before,
    /// It took effect; its sender dies before it knows.
    After,
}

/// Every statement with an effect of one publication, in order.
pub const BOUNDARIES: [(&str, StatementKind, &str); 8] = [
    ("create PREPARED", StatementKind::Insert, "'PREPARED'"),
    ("CAS to DISPATCHING", StatementKind::Update, "phase = 'DISPATCHING', "),
    ("EXCHANGE", StatementKind::Exchange, ""),
    ("CAS to RETIRE_DISPATCHING", StatementKind::Update, "phase = 'RETIRE_DISPATCHING', "),
    ("RENAME", StatementKind::Rename, ""),
    ("CAS to DROP_DISPATCHING", StatementKind::Update, "phase = 'DROP_DISPATCHING', "),
    ("DROP", StatementKind::Drop, ""),
    ("CAS to COMPLETED", StatementKind::Update, "phase = 'COMPLETED', "),
];

pub fn at(s: &Stage, fault: Fault, (_, kind, text): (&str, StatementKind, &str)) -> Rule {
    let rule = s.fault(fault, kind);
    if text.is_empty() { rule } else { rule.containing(text) }
}

/// Nothing was swapped twice, and nothing was dropped that was not replaced everywhere.
pub async fn harmless(s: &Stage, what: &str) -> Result<()> {
    let exchanged = s.entries("EXCHANGE").await?;
    if exchanged > 1 {
        return Err(Error::other(what, format!("{exchanged} EXCHANGE entries")));
    }
    let counts = s.env.cluster.counts(&s.database, "orders").await?;
    if s.entries("DROP").await? > 0 && counts.iter().any(|rows| *rows != 5) {
        return Err(Error::other(what, format!("a drop while the members serve {counts:?}")));
    }
    Ok(())
}

// proves: C-7, D-3, D-5, F-2, G-4, H
async fn killed_at_every_boundary(s: &mut Stage) -> Result<()> {
    // A cleanup step whose statement was never sent is looked for as long as the statement timeout demands.
    s.platform(|cluster| cluster["spec"]["statementTimeoutSeconds"] = 1.into()).await?;
    let mut played = Vec::new();
    for boundary in BOUNDARIES {
        for moment in [Moment::Before, Moment::After] {
            let what = format!("killed {moment:?} {}", boundary.0);
            s.fresh_database().await?;
            s.tables(true, 5).await?;
            let fault = if moment == Moment::Before { Fault::HoldRequest } else { Fault::HoldAnswer };
            let rule = s.env.rule(at(s, fault, boundary))?;
            let publication = s.publication(5);
            s.env.publish(&publication).await?;
            rule.reached(1, SOON).await.map_err(|e| Error::other(&what, e))?;
            let operator = s.env.operator(0)?;
            operator.kill9().await?;
            rule.release();
            operator.restart().await?;
            harmless(s, &what).await?;
            played.push((what, boundary.0, s.database.clone(), publication.name));
        }
    }
    // The slow ones wait side by side.
    for (what, boundary, database, name) in played {
        s.database = database;
        resolved(s, boundary, &name).await.map_err(|e| Error::other(what, e))?;
    }
    check_one_shot(&s.env.records())
}

async fn resolved(s: &Stage, boundary: &str, name: &str) -> Result<()> {
    harmless(s, "at the end").await?;
    // Dispatching was recorded, and its only sender is dead: nobody may send it again, and nobody knows.
    if boundary == "CAS to DISPATCHING" {
        let object = s.env.wait_outcome(SPACE, name, "Blocked", SOON * 2).await?;
        expect("code", &object["status"]["error"]["code"], &"OUTCOME_UNKNOWN".into())?;
        expect("cause", &object["status"]["cause"], &"EntryNotFound".into())?;
        expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &0)?;
        let both = [s.env.cluster.counts(&s.database, "orders").await?];
        expect("rows of the target", &both, &[vec![3, 3]])?;
        let candidate = s.env.cluster.counts(&s.database, "orders__pub_1").await?;
        return expect("rows of the candidate", &candidate, &vec![5, 5]);
    }
    s.env.wait_outcome(SPACE, name, "Succeeded", SOON * 2).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)
}

// proves: C-1, C-3, D-3
async fn late_effects(s: &mut Stage) -> Result<()> {
    for boundary in BOUNDARIES {
        let adopted = !matches!(boundary.1, StatementKind::Insert | StatementKind::Update);
        s.fresh_database().await?;
        s.tables(true, 5).await?;
        let rule = s.env.rule(at(s, Fault::HoldRequest, boundary))?;
        let publication = s.publication(5);
        s.env.publish(&publication).await?;
        rule.reached(1, SOON).await?;
        let operator = s.env.operator(0)?;
        operator.kill9().await?;
        operator.restart().await?;
        if adopted {
            // Nobody sends it again, and what arrives at last is found by its token.
            if boundary.1 == StatementKind::Exchange {
                s.entry_not_found().await?;
            }
            rule.release();
            s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
        } else {
            // The successor overtakes; what arrives then is an old version's write and changes nothing.
            s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
            let before = s.slot().await?;
            rule.release();
            eventually(SOON, &format!("{}: the late write is over", boundary.0), || async {
                let done = |r: &Record| r.fault.is_some() && r.outcome != Outcome::InFlight;
                Ok(Seen::when(s.requests(boundary.1).iter().any(done), "in flight"))
            })
            .await?;
            expect("the slot after a late write", &s.slot().await?, &before)?;
        }
        s.published(5).await?;
        expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)?;
    }
    Ok(())
}

// proves: C-12, K28
async fn a_permit_outlived_by_a_pause(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let cas = s.env.rule(at(s, Fault::HoldAnswer, BOUNDARIES[1]))?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    cas.reached(1, SOON).await?;
    // The next read of the slot is the exact one that makes the permit. Its answer meets a stopped process.
    let key = s.slot().await?.target_key;
    let exact = s.env.rule(Rule::new(Fault::HoldAnswer).kind(StatementKind::Select).containing(key))?;
    cas.release();
    exact.reached(1, SOON).await?;
    let stopped = Instant::now();
    s.env.operator(0)?.process().stop()?;
    exact.release();
    s.env.start_operator().await?;
    // The other one finds no entry, and waits.
    s.entry_not_found().await?;
    eventually(PERMIT_OVER * 2, "the permit is too old", || async {
        Ok(Seen::when(stopped.elapsed() > PERMIT_OVER, "not yet"))
    })
    .await?;
    expect("EXCHANGE entries before it goes on", &s.entries("EXCHANGE").await?, &0)?;
    s.env.operator(0)?.process().cont()?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)?;
    let records = s.env.records();
    let said = records.iter().filter(|r| r.statement.text.contains("phase = 'RELEASED', ")).count();
    expect("records of a dispatch that was not sent", &said, &1)?;
    expect("EXCHANGE statements sent", &dispatches(&records, Some(StatementKind::Exchange)).len(), &1)
}

// proves: C-12, D-3
async fn sigterm_while_dispatching(s: &mut Stage) -> Result<()> {
    s.tables(true, 5).await?;
    let rule = s.env.rule(at(s, Fault::HoldAnswer, BOUNDARIES[2]))?;
    let publication = s.publication(5);
    s.env.publish(&publication).await?;
    rule.reached(1, SOON).await?;
    let operator = s.env.operator(0)?;
    operator.process().term()?;
    // Its answer comes once it knows that it has to stop.
    let log = operator.log_path().to_owned();
    eventually(GRACE, "it heard the signal", || async {
        Ok(Seen::when(std::fs::read_to_string(&log).unwrap_or_default().contains("stopping: "), "no"))
    })
    .await?;
    rule.release();
    let operator = s.env.operator(0)?;
    expect("exit code", &operator.process().wait_exit(GRACE).await?, &0)?;
    let sent = dispatches(&s.env.records(), None).len();
    expect("statements sent before the end", &sent, &1)?;
    s.env.operator(0)?.restart().await?;
    s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    s.published(5).await?;
    expect("EXCHANGE entries in Keeper", &s.entries("EXCHANGE").await?, &1)
}

async fn sigterm_while_idle(s: &mut Stage) -> Result<()> {
    let operator = s.env.operator(0)?;
    expect("exit code", &operator.terminate(Duration::from_secs(3)).await?, &0)
}
