//! What goes wrong: drawn from the seed, triggered by what the operator has sent so far, never by time.

use crate::{DATABASE, SPACE};
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CONTROL_DATABASE, Publication};
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, Rule};
use publication_e2e::{Environment, Result};
use rand::Rng;
use rand::rngs::StdRng;
use std::time::Duration;

/// A trigger that does not come: the operator has nothing to send any more.
const TRIGGER_WITHIN: Duration = Duration::from_secs(5);
/// After a restart, or Keeper's.
const WELL_WITHIN: Duration = Duration::from_secs(60);
const DISRUPTIONS: std::ops::Range<usize> = 2..5;

/// Answers that are lost, requests that are cut: each once, on a mutation of any member.
pub fn faults(env: &Environment, rng: &mut StdRng) -> Result<()> {
    for _ in 0..rng.random_range(0..3) {
        let fault = match rng.random_range(0..4) {
            0 => Fault::DropAnswer,
            1 => Fault::CutBeforeSend,
            2 => Fault::TruncateBody,
            _ => Fault::StatusAfterEffect(504),
        };
        env.rule(Rule::new(fault).mutations().nth(rng.random_range(1..25)))?;
    }
    Ok(())
}

pub async fn disrupt(env: &mut Environment, rng: &mut StdRng, open: &mut Vec<Publication>) -> Result<()> {
    for _ in 0..rng.random_range(DISRUPTIONS) {
        let more = rng.random_range(1..60);
        let sent = env.records().len() + more;
        // Not every round has so many statements; what has not come by then does not come.
        let _ = eventually(TRIGGER_WITHIN, "statements", || async {
            let now = env.records().len();
            Ok(Seen::when(now >= sent, now))
        })
        .await;
        let member = rng.random_range(0..env.cluster.members.len());
        match rng.random_range(0..6) {
            0 => {
                env.operator(0)?.kill9().await?;
                env.operator(0)?.restart().await?;
            }
            1 if env.cluster.member_mut(member)?.is_running() => env.kill_member(member).await?,
            1 | 2 => env.restart_member(member).await?,
            3 => {
                env.zookeeper.kill9().await?;
                env.zookeeper.restart().await?;
            }
            4 => env.cluster.member(member)?.ddl_pause().await.or(Ok(()))?,
            _ => replace(env, rng, open).await?,
        }
    }
    Ok(())
}

/// An object is deleted, and another asks for the same: a second operation for one candidate.
async fn replace(env: &Environment, rng: &mut StdRng, open: &mut Vec<Publication>) -> Result<()> {
    if open.is_empty() {
        return Ok(());
    }
    let at = rng.random_range(0..open.len());
    let old = open[at].clone();
    if env.control_plane.object(Kind::Publication, SPACE, &old.name).await?.is_none() {
        return Ok(());
    }
    env.control_plane.delete(Kind::Publication, SPACE, &old.name).await?;
    let name = format!("{}-again", old.name);
    let rows = old.rows["exact"].as_u64().unwrap_or(0);
    let again = Publication::new(SPACE, &name, DATABASE, &old.target, rows).candidate(&old.candidate);
    env.publish(&again).await?;
    open.push(again);
    Ok(())
}

/// Everybody alive and nothing in the way: what is left is the protocol's to resolve.
pub async fn heal(env: &mut Environment) -> Result<()> {
    for member in 0..env.cluster.members.len() {
        if !env.cluster.member_mut(member)?.is_running() {
            env.restart_member(member).await?;
        }
        env.cluster.member(member)?.ddl_resume().await?;
    }
    for proxy in &env.proxies {
        proxy.clear_rules();
    }
    // A member that does not find its way back to Keeper is the test bed's fault, and is told as such.
    let facade = format!("SELECT count() FROM {CONTROL_DATABASE}.publication_authority");
    for member in 0..env.cluster.members.len() {
        eventually(WELL_WITHIN, &format!("member {member} reads Keeper"), || async {
            env.cluster.sql(member, &facade).await.map(Seen::Done)
        })
        .await?;
    }
    Ok(())
}
