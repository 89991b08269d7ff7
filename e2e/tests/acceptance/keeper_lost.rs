//! Keeper itself comes back older than it was, or empty (B-6, F-2): its data directory is replaced while it is stopped.
//! Nothing is sent, the status says what is lost, and docs/recovery.md leads out. What the servers do about their own
//! replicas then is theirs; the members here are restarted, because their sessions would not meet a younger Keeper.

use crate::Case;
use crate::looks::{TARGET, text};
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::manifests::Publication;
use publication_e2e::poll::{Seen, eventually};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

pub const CASES: &[(&str, usize, Case)] = &[
    ("keeper_restored_from_an_old_backup", 2, |s| Box::pin(old_backup(s))),
    ("keeper_emptied_while_tables_exist", 2, |s| Box::pin(emptied(s))),
];

/// What was there right after Keeper came back as another.
struct Lost {
    tables: Vec<BTreeMap<String, Uuid>>,
    effects: usize,
    entries: usize,
}

impl Stage {
    async fn servers_again(&mut self) -> Result<()> {
        for member in 0..self.env.cluster.members.len() {
            self.env.restart_member(member).await?;
        }
        Ok(())
    }

    /// Another publication of the case's target.
    fn other(&self, name: &str, candidate: &str, rows: u64) -> Publication {
        let name = format!("{}-{name}", self.name());
        Publication { name, ..self.publication(rows) }.candidate(candidate)
    }

    async fn publishes(&self, publication: &Publication) -> Result<()> {
        self.env.publish(publication).await?;
        self.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await.map(|_| ())
    }

    /// The usual publication is dispatched, and fails on the second member.
    async fn partly_published(&self) -> Result<String> {
        self.env.cluster.member(1)?.ddl_fail("EXCHANGE TABLES", 48, "not here", 1).await?;
        self.env.publish(&self.publication(5)).await?;
        let object = self.blocked("PARTIAL_TERMINAL").await?;
        Ok(text(&object["status"]["facadeRoot"]).to_owned())
    }

    /// Keeper is another one now, and the servers have met it.
    async fn lost(&mut self, how: impl AsyncFnOnce(&mut Self) -> Result<()>) -> Result<Lost> {
        let tables = vec![self.tables_of(0).await?, self.tables_of(1).await?];
        let effects = self.effects();
        how(self).await?;
        self.servers_again().await?;
        Ok(Lost { tables, effects, entries: self.env.ddl_entries().await?.len() })
    }

    /// Looked at again and again, nothing is sent and nothing has moved. A lost authority is seen in one read of the
    /// slot, so passes are counted, not looks at tables.
    async fn nothing_since(&self, lost: &Lost) -> Result<()> {
        for _ in 0..3 {
            let before = self.passes().await?;
            self.nudge().await?;
            let passed = || async { Ok(Seen::when(self.passes().await? > before, "none")) };
            eventually(SOON, "another pass", passed).await?;
        }
        expect("statements with an effect", &self.effects(), &lost.effects)?;
        expect("entries in the queue", &self.env.ddl_entries().await?.len(), &lost.entries)?;
        self.expect_tables(&lost.tables).await
    }

    /// The page's "First the tables": replicas that Keeper does not know, then the member that is behind.
    async fn finish_by_hand(&self) -> Result<()> {
        let broken = format!(
            "SELECT table FROM system.replicas WHERE database = '{}' AND (is_readonly OR zookeeper_exception != '')",
            self.database
        );
        let mut restored = 0;
        for member in 0..self.env.cluster.members.len() {
            for row in self.env.cluster.rows(member, &broken).await? {
                let table = format!("{}.{}", self.database, row.join(""));
                let named = [(format!("{}.{TARGET}", self.database), table)];
                let named = named.each_ref().map(|(from, to)| (from.as_str(), to.as_str()));
                self.run_sql_with("restore-replica", member, &named).await?;
                restored += 1;
            }
        }
        expect("a replica was lost", &(restored > 0), &true)?;
        self.run_sql("private-name", 0).await?;
        self.run_sql("swap", 1).await?;
        // A restored replica fetches what another one has; the embedded members do not reach each other for parts.
        let counts = self.env.cluster.counts(&self.database, TARGET).await?;
        for (member, _) in counts.iter().enumerate().filter(|(_, rows)| **rows == 0) {
            self.env.cluster.member(member)?.load(&self.database, TARGET, 5, 100).await?;
        }
        self.expect_rows(5).await
    }

    /// A new candidate is published as ever.
    async fn goes_on(&self) -> Result<()> {
        self.env.cluster.table_with_rows(&self.database, "orders__pub_2", 7, 500).await?;
        self.publishes(&self.other("next", "orders__pub_2", 7)).await?;
        self.expect_rows(7).await
    }

    async fn expect_rows(&self, rows: u64) -> Result<()> {
        let counts = self.env.cluster.counts(&self.database, TARGET).await?;
        expect("rows of the target by member", &counts, &vec![rows; counts.len()])
    }
}

/// The candidate was built and half published after the backup.
// proves: F-2, B-6, C-14
async fn old_backup(s: &mut Stage) -> Result<()> {
    s.alone().await?;
    s.spoilt = true;
    s.env.cluster.table_with_rows(&s.database, TARGET, 3, 0).await?;
    s.env.cluster.table_with_rows(&s.database, "orders__pub_0", 4, 50).await?;
    let first = s.other("first", "orders__pub_0", 4);
    s.publishes(&first).await?;
    let backed_up = s.slot().await?;
    s.env.zookeeper.back_up().await?;
    s.servers_again().await?;
    s.tables(false, 5).await?;
    let root = s.partly_published().await?;
    let lost = s.lost(async |s| s.env.zookeeper.restore().await).await?;
    expect("the slot is as it was backed up", &s.slot().await?, &backed_up)?;
    s.nudge().await?;
    let object = s.blocked("AUTHORITY_LOST").await?;
    let message = text(&object["status"]["error"]["message"]);
    expect(
        message,
        &message.contains("every member is below the version that this object has shown"),
        &true,
    )?;
    expect("names the page", &message.contains("docs/recovery.md"), &true)?;
    s.nothing_since(&lost).await?;
    // What had ended before says so still, and asks nobody.
    let done = s.env.publication(SPACE, &first.name).await?;
    expect("outcome of the first", &text(&done["status"]["outcome"]), &"Succeeded")?;

    s.finish_by_hand().await?;
    s.run_sh("accept-loss", &[("ROOT", &root)]).await?;
    let ended = s.env.wait_outcome(SPACE, &s.name(), "Failed", SOON).await?;
    expect("code", &text(&ended["status"]["error"]["code"]), &"AUTHORITY_LOST")?;
    let cluster = s.env.wait_cluster_ready(SOON).await?;
    expect("the root stays", &text(&cluster["status"]["facadeRoot"]), &root.as_str())?;
    s.goes_on().await
}

// proves: B-5, B-6, F-2, C-14
async fn emptied(s: &mut Stage) -> Result<()> {
    s.alone().await?;
    s.spoilt = true;
    s.tables(true, 5).await?;
    let root = s.partly_published().await?;
    let lost = s.lost(async |s| s.env.zookeeper.empty().await).await?;
    expect("entries in the queue", &lost.entries, &0)?;
    s.nudge().await?;
    let said = |o: &Value| {
        let message = text(&o["status"]["error"]["message"]);
        o["status"]["error"]["code"] == "AUTHORITY_UNAVAILABLE" && message.contains("668")
    };
    let object = s.status("AUTHORITY_UNAVAILABLE, 668", said).await?;
    let message = text(&object["status"]["error"]["message"]);
    expect(message, &message.contains("docs/recovery.md, AUTHORITY_LOST"), &true)?;
    s.run_sh("look-at-cluster", &[("recovered=yes", "recovered=emptied")]).await?;
    let said = s.cluster_says("FacadeReady", "False", "AuthorityUnavailable").await?;
    expect(&said, &said.contains("668"), &true)?;
    s.nothing_since(&lost).await?;
    expect("facades in Keeper", &s.env.keeper().keeper_map_roots().await?, &Vec::new())?;

    s.finish_by_hand().await?;
    for member in 0..s.env.cluster.members.len() {
        s.run_sql("drop-facade", member).await?;
    }
    s.nudge().await?;
    let object = s.blocked("AUTHORITY_LOST").await?;
    let message = text(&object["status"]["error"]["message"]);
    expect(message, &message.contains(&root), &true)?;
    s.run_sh("accept-loss", &[("ROOT", &root)]).await?;
    let ended = s.env.wait_outcome(SPACE, &s.name(), "Failed", SOON).await?;
    expect("code", &text(&ended["status"]["error"]["code"]), &"AUTHORITY_LOST")?;
    let cluster = s.env.wait_cluster_ready(SOON).await?;
    let new = text(&cluster["status"]["facadeRoot"]).to_owned();
    expect("another root", &(new == root || new.is_empty()), &false)?;
    s.goes_on().await
}
