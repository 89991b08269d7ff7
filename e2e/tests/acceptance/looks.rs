//! What cases look at: statuses over time, the slot in Keeper, tables on members, requests at the proxies.

use crate::stage::{SOON, SPACE, Stage, expect};
use futures::StreamExt;
use publication_e2e::ddl::DdlEntry;
use publication_e2e::error::Context;
use publication_e2e::evidence::Slot;
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::condition;
use publication_e2e::operator::Operator;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Fault, Record, Rule, StatementKind};
use publication_e2e::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use uuid::Uuid;

pub const TARGET: &str = "orders";
const NUDGE_EVERY: Duration = Duration::from_secs(3);
pub const CANDIDATE: &str = "orders__pub_1";

/// The two generations of a case, as they were before anything was published.
#[derive(Debug, Clone, Copy)]
pub struct Generations {
    pub old: Uuid,
    pub new: Uuid,
}

impl Generations {
    /// Target is the old generation, the candidate's name has the new one.
    pub fn before(&self) -> BTreeMap<String, Uuid> {
        BTreeMap::from([(TARGET.to_owned(), self.old), (CANDIDATE.to_owned(), self.new)])
    }

    /// The reverse.
    pub fn after(&self) -> BTreeMap<String, Uuid> {
        BTreeMap::from([(TARGET.to_owned(), self.new), (CANDIDATE.to_owned(), self.old)])
    }
}

/// Every status that the object of a case has shown since the story began.
#[derive(Debug)]
pub struct Story {
    statuses: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Story {
    pub fn statuses(&self) -> Vec<Value> {
        self.statuses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// At least one status had this code.
    pub async fn told(&self, code: &str) -> Result<Value> {
        eventually(SOON, &format!("a status with {code}"), || async {
            let found = self.statuses().into_iter().find(|status| status["error"]["code"] == code);
            Ok(found.map_or_else(|| Seen::not_yet(format!("{:?}", self.statuses())), Seen::Done))
        })
        .await
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    /// The case's publication, by name.
    pub fn name(&self) -> String {
        self.publication(0).name
    }

    /// Begins to write down the statuses of this case's publication.
    pub async fn story(&self) -> Result<Story> {
        let mut changes = self.env.control_plane.watch(Kind::Publication, SPACE, &self.name()).await?;
        let statuses = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&statuses);
        let task = tokio::spawn(async move {
            while let Some(Ok(object)) = changes.next().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.push(object["status"].clone());
            }
        });
        Ok(Story { statuses, task })
    }

    /// Waits until the status (with conditions) is as wanted, and gives the object.
    pub async fn status(&self, what: &str, mut is: impl FnMut(&Value) -> bool + Send) -> Result<Value> {
        let found = |object: &Value| is(object).then(|| object.clone());
        self.env.wait_for(Kind::Publication, SPACE, &self.name(), SOON, what, found).await
    }

    /// Waits until the publication is Blocked with this code; kstatus must say Stalled, and nothing else.
    pub async fn blocked(&self, code: &str) -> Result<Value> {
        let object = self
            .status(&format!("Blocked with {code}"), |o| {
                o["status"]["outcome"] == "Blocked" && o["status"]["error"]["code"] == code
            })
            .await?;
        expect("Stalled", &truth(&object, "Stalled"), &Some("True"))?;
        expect("Reconciling", &truth(&object, "Reconciling"), &None)?;
        Ok(object)
    }

    /// Waits until the outcome is unknown because no entry is found, which is waited for.
    pub async fn entry_not_found(&self) -> Result<Value> {
        let object =
            self.status("OutcomeUnknown, EntryNotFound", |o| o["status"]["cause"] == "EntryNotFound").await?;
        expect("classification", &text(&object["status"]["classification"]), &"OutcomeUnknown")?;
        expect("code", &text(&object["status"]["error"]["code"]), &"OUTCOME_UNKNOWN")?;
        expect("Reconciling", &truth(&object, "Reconciling"), &Some("True"))?;
        expect("Stalled", &truth(&object, "Stalled"), &None)?;
        expect("outcome", &object["status"]["outcome"], &Value::Null)?;
        Ok(object)
    }

    /// This case's slot as it lies in Keeper.
    pub async fn slot(&self) -> Result<Slot> {
        let slots = self.env.slots().await?;
        let own = slots.into_iter().find(|slot| slot.payload["names"]["database"] == self.database.as_str());
        own.context(format!("a slot of database {}", self.database))
    }

    /// Every table of the case's database on one member.
    pub async fn tables_of(&self, member: usize) -> Result<BTreeMap<String, Uuid>> {
        let query = format!("SELECT name, uuid FROM system.tables WHERE database = '{}'", self.database);
        let rows = self.env.cluster.rows(member, &query).await?;
        rows.into_iter()
            .map(|row| match row.as_slice() {
                [name, uuid] => Ok((name.clone(), uuid.parse().context("UUID of a table")?)),
                other => Err(Error::other("row of system.tables", format!("{other:?}"))),
            })
            .collect()
    }

    /// Every table of the case's database, member by member.
    pub async fn expect_tables(&self, wanted: &[BTreeMap<String, Uuid>]) -> Result<()> {
        for (member, wanted) in wanted.iter().enumerate() {
            expect(&format!("tables of member {member}"), &self.tables_of(member).await?, wanted)?;
        }
        Ok(())
    }

    /// Target and candidate, which must be the same on every member.
    pub async fn generations(&self) -> Result<Generations> {
        let tables = self.tables_of(0).await?;
        let of = |name: &str| tables.get(name).copied().context(format!("UUID of {name}"));
        let generations = Generations { old: of(TARGET)?, new: of(CANDIDATE)? };
        let everywhere = vec![generations.before(); self.env.cluster.members.len()];
        self.expect_tables(&everywhere).await?;
        Ok(generations)
    }

    /// A member that swaps the two names by itself, as a server does that runs or loses an entry on its own.
    pub async fn swap_on(&self, member: usize) -> Result<()> {
        let db = &self.database;
        let swap = format!("EXCHANGE TABLES {db}.{TARGET} AND {db}.{CANDIDATE}");
        self.env.cluster.sql(member, &swap).await.map(|_| ())
    }

    /// A rule for statements of this case alone.
    pub fn fault(&self, fault: Fault, kind: StatementKind) -> Rule {
        Rule::new(fault).kind(kind).containing(self.database.clone())
    }

    /// A rule for the CAS that writes this phase.
    pub fn fault_of_cas(&self, fault: Fault, phase: &str) -> Rule {
        self.fault(fault, StatementKind::Update).containing(sets(phase))
    }

    /// Requests of a kind for this case that reached a proxy.
    pub fn requests(&self, kind: StatementKind) -> Vec<Record> {
        let own = |r: &Record| r.statement.kind == kind && r.statement.text.contains(&self.database);
        self.env.records().into_iter().filter(own).collect()
    }

    /// CAS requests that write this phase.
    pub fn cas_requests(&self, phase: &str) -> Vec<Record> {
        let mut requests = self.requests(StatementKind::Update);
        requests.retain(|r| r.statement.text.contains(&sets(phase)));
        requests
    }

    /// Statements with an effect, for this case, that reached a proxy.
    pub fn effects(&self) -> usize {
        let own = |r: &&Record| r.statement.kind.is_mutation() && r.statement.text.contains(&self.database);
        self.env.records().iter().filter(own).count()
    }

    fn looks(&self) -> usize {
        self.requests(StatementKind::Select).len()
    }

    /// Changes the object in a way that means nothing, and waits until it was observed again.
    pub async fn poke(&self) -> Result<()> {
        let before = (self.passes().await?, self.looks());
        self.nudge().await?;
        self.another_pass(before).await
    }

    /// The same without waiting: for an object that may be through by now.
    pub async fn nudge(&self) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {"e2e/poke": Uuid::new_v4().to_string()}}});
        self.env.control_plane.merge_patch(Kind::Publication, SPACE, &self.name(), &patch).await
    }

    /// Waits until the object is as wanted, and nudges it every few seconds: the operator's own backoff may be long.
    pub async fn nudged_until(
        &self,
        what: &str,
        within: Duration,
        is: impl Fn(&Value) -> bool + Send + Sync,
    ) -> Result<Value> {
        let nudged = Mutex::new(Instant::now());
        let due = || {
            let mut nudged = nudged.lock().unwrap_or_else(PoisonError::into_inner);
            let due = nudged.elapsed() > NUDGE_EVERY;
            if due {
                *nudged = Instant::now();
            }
            due
        };
        eventually(within, what, || async {
            if due() {
                self.nudge().await?;
            }
            let object = self.env.publication(SPACE, &self.name()).await?;
            Ok(if is(&object) { Seen::Done(object) } else { Seen::not_yet(&object["status"]) })
        })
        .await
        .map_err(|e| self.env.explain(&e))
    }

    /// The EXCHANGE has an end on every member; the operator need not wait for its next look.
    pub async fn exchange_ends(&self) -> Result<()> {
        eventually(SOON, "the EXCHANGE is terminal", || async {
            let entries = self.own_entries().await?;
            let ends =
                entries.iter().filter(|e| e.kind() == "EXCHANGE").all(DdlEntry::is_terminal_everywhere);
            Ok(Seen::when(ends, format!("{entries:?}")))
        })
        .await?;
        self.nudge().await
    }

    /// Restarts the operator, which remembers nothing, and waits until it has observed the unchanged object.
    pub async fn forget(&mut self) -> Result<()> {
        self.env.operator(0)?.restart().await?;
        self.another_pass((0, self.looks())).await
    }

    async fn another_pass(&self, before: (u64, usize)) -> Result<()> {
        let waited = eventually(SOON, "another pass", || async {
            let now = (self.passes().await?, self.looks());
            Ok(Seen::when(now.0 > before.0 && now.1 > before.1, format!("{before:?}, then {now:?}")))
        });
        waited.await.map_err(|e| self.env.explain(&e))
    }

    /// Passes over publications so far, of all operators.
    pub async fn passes(&self) -> Result<u64> {
        passes(&self.env.operators).await
    }

    /// Looked at again and again, the operation has no further effect: no statement leaves the operator, nothing
    /// new is in the queue, and every table is where it was.
    pub async fn stays_as_it_is(&self) -> Result<()> {
        let (effects, queue) = (self.effects(), self.own_entries().await?.len());
        let mut tables = Vec::new();
        for member in 0..self.env.cluster.members.len() {
            tables.push(self.tables_of(member).await?);
        }
        for _ in 0..3 {
            self.poke().await?;
        }
        expect("statements sent", &self.effects(), &effects)?;
        expect("entries in the queue", &self.own_entries().await?.len(), &queue)?;
        self.expect_tables(&tables).await
    }

    /// EXCHANGE, RENAME and DROP entries in Keeper.
    pub async fn expect_entries(&self, exchange: usize, rename: usize, drop: usize) -> Result<()> {
        for (kind, wanted) in [("EXCHANGE", exchange), ("RENAME", rename), ("DROP", drop)] {
            expect(&format!("{kind} entries in Keeper"), &self.entries(kind).await?, &wanted)?;
        }
        Ok(())
    }
}

/// Passes over publications so far, of these operators.
pub async fn passes(operators: &[Operator]) -> Result<u64> {
    let mut sum = 0;
    for operator in operators {
        let text = operator.metrics().await?;
        let counts = text.lines().filter(|line| line.starts_with("publication_passes_total{"));
        sum += counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(sum)
}

/// What an UPDATE says that writes this phase (its predicate names a phase as well).
fn sets(phase: &str) -> String {
    format!("phase = '{phase}', ")
}

/// `True` or `False` of a condition; none when it is not there.
pub fn truth<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    condition(object, kind)?["status"].as_str()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// State and statement result of one replica in status.
pub fn replica(object: &Value, index: usize) -> (&str, &str) {
    let replica = &object["status"]["replicas"][index];
    (text(&replica["state"]), text(&replica["statement"]))
}
