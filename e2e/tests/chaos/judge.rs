//! The truth: UUIDs on the members, entries and slots in Keeper.

use crate::{DATABASE, TARGETS, target};
use publication_e2e::ddl::DdlEntry;
use publication_e2e::error::Context;
use publication_e2e::evidence::Slot;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::{Environment, Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

const READ_WITHIN: Duration = Duration::from_secs(60);

/// Every generation that was ever built, and what became of the objects.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By target, in the order of building; the first is what was live at the start.
    generations: BTreeMap<String, Vec<Uuid>>,
    /// Candidate's name to what it was built as.
    candidates: BTreeMap<String, Uuid>,
    /// By target, those that a member was seen to serve.
    lived: BTreeMap<String, BTreeSet<usize>>,
    stopped: BTreeSet<String>,
    outcomes: BTreeMap<String, usize>,
    exchanges: usize,
}

impl Ledger {
    pub async fn live(&mut self, env: &Environment, target: &str) -> Result<()> {
        let uuid = env.cluster.generation(0, DATABASE, target).await?.context("a live table")?;
        self.generations.entry(target.to_owned()).or_default().push(uuid);
        Ok(())
    }

    pub async fn candidate(&mut self, env: &Environment, target: &str, name: &str, rows: u64) -> Result<()> {
        let uuid = env.cluster.generation(0, DATABASE, name).await?.context("a candidate")?;
        let counts = env.cluster.counts(DATABASE, name).await?;
        if counts.iter().any(|count| *count != rows) {
            return Err(Error::other("rows of a candidate", format!("{counts:?}, expected {rows}")));
        }
        self.candidates.insert(name.to_owned(), uuid);
        self.generations.entry(target.to_owned()).or_default().push(uuid);
        Ok(())
    }

    /// Nothing is published there any more: its slot waits for a person.
    pub fn stop(&mut self, target: &str) {
        self.stopped.insert(target.to_owned());
    }

    pub fn is_stopped(&self, target: &str) -> bool {
        self.stopped.contains(target)
    }

    pub fn count(&mut self, outcome: &str) {
        *self.outcomes.entry(outcome.to_owned()).or_default() += 1;
    }

    pub fn summary(&self) -> String {
        format!("{:?}, {} EXCHANGE entries, stopped: {:?}", self.outcomes, self.exchanges, self.stopped)
    }

    pub async fn judge(&mut self, env: &Environment) -> Result<()> {
        // Keeper may have started a moment ago.
        let (entries, slots) = eventually(READ_WITHIN, "Keeper answers", || async {
            Ok(Seen::Done((env.ddl_entries().await?, env.slots().await?)))
        })
        .await?;
        self.exchanges = statements(&entries)?;
        for at in 0..TARGETS {
            let name = target(at);
            let slot = slots.iter().find(|slot| slot.payload["names"]["target"] == name.as_str());
            self.target(env, &name, slot).await?;
        }
        Ok(())
    }

    /// G: a generation is gone from a member only if it was live once and no member serves it any more.
    async fn target(&mut self, env: &Environment, name: &str, slot: Option<&Slot>) -> Result<()> {
        let wrong = |what: &str, found: &dyn std::fmt::Debug| {
            Err(Error::other(format!("{name}: {what}"), format!("{found:?}, slot {slot:?}")))
        };
        let built = self.generations.get(name).context("a target of ours")?;
        let (mut served, mut missing) = (Vec::new(), BTreeSet::new());
        let all = format!("SELECT uuid FROM system.tables WHERE database = '{DATABASE}'");
        for member in 0..env.cluster.members.len() {
            let Some(live) = env.cluster.generation(member, DATABASE, name).await? else {
                return wrong("no target on a member", &member);
            };
            let Some(age) = built.iter().position(|uuid| *uuid == live) else {
                return wrong("a target that nobody built", &live);
            };
            served.push(age);
            let text = env.cluster.sql(member, &all).await?;
            let there: BTreeSet<Uuid> = text.lines().filter_map(|line| line.parse().ok()).collect();
            missing.extend(built.iter().enumerate().filter(|(_, b)| !there.contains(b)).map(|(age, _)| age));
        }
        let lived = self.lived.entry(name.to_owned()).or_default();
        // At the start nobody has published yet.
        lived.insert(0);
        if let Some(lost) = missing.iter().find(|age| !lived.contains(age) || served.contains(age)) {
            return wrong("a generation was dropped that nothing had replaced", &(lost, &lived, &served));
        }
        lived.extend(&served);
        let same = served.windows(2).all(|pair| pair[0] == pair[1]);
        let phase = slot.map(|slot| slot.phase.as_str());
        if phase == Some("COMPLETED") && !same {
            return wrong("COMPLETED, and members serve different generations", &served);
        }
        if phase == Some("COMPLETED") {
            let candidate =
                slot.and_then(|slot| slot.payload["names"]["candidate"].as_str()).unwrap_or_default();
            let published =
                self.candidates.get(candidate).and_then(|uuid| built.iter().position(|b| b == uuid));
            if published != served.first().copied() {
                return wrong("COMPLETED, and another generation is served", &(published, served));
            }
        }
        Ok(())
    }
}

/// Zero blind EXCHANGE: one entry for a candidate at most. Nothing but retired names is ever dropped.
fn statements(entries: &[DdlEntry]) -> Result<usize> {
    let mut exchanged = BTreeMap::<&str, usize>::new();
    for entry in entries {
        match entry.kind() {
            "EXCHANGE" => *exchanged.entry(entry.query.as_str()).or_default() += 1,
            "DROP" if !entry.query.contains("__retired_") => {
                return Err(Error::other("a DROP of a name that is not retired", &entry.query));
            }
            _ => {}
        }
    }
    match exchanged.iter().find(|(_, count)| **count > 1) {
        Some((query, count)) => Err(Error::other("zero blind EXCHANGE", format!("{count} entries: {query}"))),
        None => Ok(exchanged.values().sum()),
    }
}
