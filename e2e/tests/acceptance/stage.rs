//! One environment for each number of members and engine, started when first needed, and a database of its own for
//! each case.

use publication_e2e::cluster::Lane;
use publication_e2e::ddl::{DdlEntry, count_kind};
use publication_e2e::kubernetes::Kind;
use publication_e2e::manifests::{CLUSTER_OBJECT, PLATFORM, Publication, condition};
use publication_e2e::{Environment, Error, Options, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};

pub const SOON: Duration = Duration::from_secs(60);
pub const SPACE: &str = "shop";
const STATEMENT_TIMEOUT_DEFAULT: u32 = 180;

/// What a case plays on.
pub struct Stage {
    pub env: Environment,
    databases: usize,
    platform_changed: bool,
    /// A case did what no other can play on: this stage is its last.
    pub spoilt: bool,
    /// Database of the present case.
    pub database: String,
}

impl Stage {
    async fn start(members: usize, lane: Lane) -> Result<Self> {
        let options = Options { name: format!("acceptance-{members}"), members, lane, ..Options::default() };
        let mut env = Environment::start(options).await?;
        env.apply_platform().await?;
        env.namespace(SPACE).await?;
        env.start_operator().await?;
        env.wait_cluster_ready(SOON).await?;
        Ok(Self { env, databases: 0, platform_changed: false, spoilt: false, database: String::new() })
    }

    async fn play(&mut self, case: crate::Case) -> Result<()> {
        self.next().await?;
        case(self).await.map_err(|error| self.env.explain(&error))
    }

    /// A fresh database, no faults, empty logs, everybody alive, whatever the last case left behind.
    async fn next(&mut self) -> Result<()> {
        for member in 0..self.env.cluster.members.len() {
            if !self.env.cluster.member_mut(member)?.is_running() {
                self.env.restart_member(member).await?;
            }
        }
        self.env.clear_faults().await?;
        self.one_operator().await?;
        if std::mem::take(&mut self.platform_changed) {
            self.env.apply_platform().await?;
            self.set_statement_timeout(STATEMENT_TIMEOUT_DEFAULT).await?;
            self.examined().await?;
        }
        self.fresh_database().await
    }

    /// Ends every operator but the first, which runs afterwards.
    pub async fn one_operator(&mut self) -> Result<()> {
        self.env.operators.truncate(1);
        let first = self.env.operator(0)?;
        if first.process().is_running() { first.process().cont() } else { first.restart().await }
    }

    /// Another database: `tables`, `publication`, `entries` and the rest speak of it from now on.
    pub async fn fresh_database(&mut self) -> Result<()> {
        self.databases += 1;
        // None is the beginning of another: statements are counted by the name in their text.
        self.database = format!("shop{:04}", self.databases);
        self.env.cluster.create_database(&self.database).await
    }

    /// The PublicationCluster with this change, until the end of the case; back when the operator has examined it.
    pub async fn platform(&mut self, change: impl FnOnce(&mut Value)) -> Result<()> {
        self.platform_changed = true;
        let mut cluster = self.env.publication_cluster();
        change(&mut cluster);
        self.env.apply(&cluster).await?;
        self.examined().await
    }

    async fn examined(&self) -> Result<()> {
        let look = |cluster: &Value| {
            let seen = &condition(cluster, "Ready")?["observedGeneration"];
            (*seen == cluster["metadata"]["generation"]).then_some(())
        };
        self.env.wait_for(Kind::Cluster, PLATFORM, CLUSTER_OBJECT, SOON, "examined as it is", look).await
    }

    /// Waits until `found` gives a value for this publication.
    pub async fn wait<T>(
        &self,
        name: &str,
        what: &str,
        found: impl FnMut(&Value) -> Option<T> + Send,
    ) -> Result<T> {
        self.env.wait_for(Kind::Publication, SPACE, name, SOON, what, found).await
    }

    /// How the operator names a member to people.
    pub fn member_name(&self, member: usize) -> String {
        self.env.cluster.members.get(member).map(|m| m.spec.shown()).unwrap_or_default()
    }

    /// A target with 3 rows (if wanted) and a candidate with `rows` rows.
    pub async fn tables(&self, target: bool, rows: u64) -> Result<()> {
        if target {
            self.env.cluster.table_with_rows(&self.database, "orders", 3, 0).await?;
        }
        self.env.cluster.table_with_rows(&self.database, "orders__pub_1", rows, 100).await
    }

    /// The deadlines of D-5 follow from it; the next case has the default again.
    pub async fn statement_timeout(&mut self, seconds: u32) -> Result<()> {
        self.platform_changed = true;
        self.set_statement_timeout(seconds).await
    }

    async fn set_statement_timeout(&self, seconds: u32) -> Result<()> {
        let patch = json!({"spec": {"statementTimeoutSeconds": seconds}});
        self.env.control_plane.merge_patch(Kind::Cluster, PLATFORM, CLUSTER_OBJECT, &patch).await
    }

    /// The usual publication of this case.
    pub fn publication(&self, rows: u64) -> Publication {
        Publication::new(SPACE, &format!("{}-orders", self.database), &self.database, "orders", rows)
    }

    /// Statements of a kind that name this case's database, counted in Keeper.
    pub async fn entries(&self, kind: &str) -> Result<usize> {
        Ok(count_kind(&self.own_entries().await?, kind, None))
    }

    /// Entries in Keeper that name this case's database.
    pub async fn own_entries(&self) -> Result<Vec<DdlEntry>> {
        let all = self.env.ddl_entries().await?;
        Ok(all.into_iter().filter(|entry| entry.query.contains(&self.database)).collect())
    }

    /// How often each member's engine was given a statement of a kind that names this case's database.
    pub async fn executed(&self, kind: &str) -> Result<Vec<usize>> {
        let own = |query: &&String| query.starts_with(kind) && query.contains(&self.database);
        let mut counts = Vec::new();
        for member in &self.env.cluster.members {
            counts.push(member.ddl_executed().await?.iter().filter(own).count());
        }
        Ok(counts)
    }

    /// Every member's engine was given this many of each, by its DDL worker.
    pub async fn expect_executed(&self, exchange: usize, rename: usize, drop: usize) -> Result<()> {
        let members = self.env.cluster.members.len();
        for (kind, wanted) in [("EXCHANGE", exchange), ("RENAME", rename), ("DROP", drop)] {
            expect(
                &format!("{kind} executed by member"),
                &self.executed(kind).await?,
                &vec![wanted; members],
            )?;
        }
        Ok(())
    }

    /// Every member serves exactly this many rows and nothing but the target is left.
    pub async fn published(&self, rows: u64) -> Result<()> {
        let counts = self.env.cluster.counts(&self.database, "orders").await?;
        expect("rows of the target by member", &counts, &vec![rows; counts.len()])?;
        let tables = format!("SELECT name FROM system.tables WHERE database = '{}'", self.database);
        for member in 0..counts.len() {
            let names = self.env.cluster.sql(member, &tables).await?;
            expect("tables left", &names.trim(), &"orders")?;
        }
        Ok(())
    }
}

pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<()> {
    if found == wanted {
        Ok(())
    } else {
        Err(Error::other(what, format!("found {found:?}, expected {wanted:?}")))
    }
}

/// Stages of one kind that may play at once: most of a case is waiting, and the machine has two cores.
pub const AT_ONCE: usize = 2;

type Bed = (usize, Lane);

/// All stages of the run. A case has one for itself.
pub struct Stages {
    free: Mutex<BTreeMap<Bed, Vec<Stage>>>,
    /// Two-member stages of the main engine, which nearly all cases play on, come in `AT_ONCE`; others alone.
    common: Semaphore,
    rare: Semaphore,
    /// One environment starts at a time: a port that was free for one must not be found by the next.
    starting: Mutex<()>,
}

impl Default for Stages {
    fn default() -> Self {
        Self {
            free: Mutex::default(),
            common: Semaphore::new(AT_ONCE),
            rare: Semaphore::new(1),
            starting: Mutex::default(),
        }
    }
}

impl Stages {
    pub async fn run(&self, members: usize, lane: Lane, case: crate::Case) -> Result<()> {
        let bed = (members, lane);
        let turns = if bed == (2, Lane::V26_9) { &self.common } else { &self.rare };
        let _turn = turns.acquire().await.map_err(|e| Error::other("stage", e.to_string()))?;
        let free = self.free.lock().await.get_mut(&bed).and_then(Vec::pop);
        let mut stage = if let Some(stage) = free {
            stage
        } else {
            let _alone = self.starting.lock().await;
            Stage::start(members, lane).await?
        };
        let result = stage.play(case).await;
        if !stage.spoilt {
            self.free.lock().await.entry(bed).or_default().push(stage);
        }
        result
    }

    /// Ends every process.
    pub async fn end(&self) {
        self.free.lock().await.clear();
    }
}
