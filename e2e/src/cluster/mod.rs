//! The embedded ClickHouse cluster: one process a member, one shard.

mod member;
mod spec;
mod tables;

use std::path::{Path, PathBuf};

use futures::future::try_join_all;

pub use member::{Member, query};
pub use spec::{CLUSTER, ClusterSpec, Lane, MemberSpec, OTHER_CLUSTER, PUBLISHER, User};
pub use tables::{COLUMNS, ORDER_BY};

use crate::error::{Context, Error, Result};

#[derive(Debug)]
pub struct ClickHouseCluster {
    pub spec: ClusterSpec,
    pub members: Vec<Member>,
    pub spec_file: PathBuf,
}

impl ClickHouseCluster {
    /// N members on this ZooKeeper, all serving.
    pub async fn start(members: usize, lane: Lane, zookeeper: String, dir: &Path) -> Result<Self> {
        Self::start_spec(ClusterSpec::new(members, zookeeper, dir)?, lane, dir).await
    }

    /// From a spec the test has changed (extra clusters, internal replication, other names).
    pub async fn start_spec(spec: ClusterSpec, lane: Lane, dir: &Path) -> Result<Self> {
        let spec_file = dir.join("cluster.json");
        let text = serde_json::to_string_pretty(&spec).context("cluster spec")?;
        std::fs::write(&spec_file, text).context(format!("write {}", spec_file.display()))?;
        let start = |(index, member): (usize, &MemberSpec)| {
            let (member, spec_file) = (member.clone(), spec_file.clone());
            async move {
                std::fs::create_dir_all(&member.dir).context(format!("create {}", member.dir))?;
                let mut member = Member::start(index, member, &spec_file, dir, lane).await?;
                member.ready().await?;
                Ok::<_, Error>(member)
            }
        };
        let members = try_join_all(spec.members.iter().enumerate().map(start)).await?;
        let this = Self { spec, members, spec_file };
        this.meet_keeper().await?;
        Ok(this)
    }

    /// The embedded engines have one (zero) server UUID, hence one session node in Keeper: members that connect at the
    /// same moment fail with "Node exists". So each connects here, one after the other.
    async fn meet_keeper(&self) -> Result<()> {
        for member in &self.members {
            // Reads one path of Keeper, writes nothing, and is refused (305) because nothing is there.
            match member.sql("SYSTEM DROP REPLICA 'none' FROM ZKPATH '/e2e/none'").await {
                Err(Error::Sql { code: Some(305), .. }) => {}
                other => return Err(Error::other("first contact with Keeper", format!("{other:?}"))),
            }
        }
        Ok(())
    }

    pub fn member(&self, index: usize) -> Result<&Member> {
        self.members.get(index).context(format!("member {index}"))
    }

    pub fn member_mut(&mut self, index: usize) -> Result<&mut Member> {
        self.members.get_mut(index).context(format!("member {index}"))
    }

    pub async fn sql(&self, index: usize, statement: &str) -> Result<String> {
        self.member(index)?.sql(statement).await
    }

    pub async fn rows(&self, index: usize, statement: &str) -> Result<Vec<Vec<String>>> {
        self.member(index)?.rows(statement).await
    }

    pub async fn kill9(&mut self, index: usize) -> Result<()> {
        self.member_mut(index)?.kill9().await
    }

    pub async fn restart(&mut self, index: usize) -> Result<()> {
        self.member_mut(index)?.restart().await
    }

    pub fn sigstop(&mut self, index: usize) -> Result<()> {
        self.member_mut(index)?.sigstop()
    }

    pub fn sigcont(&mut self, index: usize) -> Result<()> {
        self.member_mut(index)?.sigcont()
    }

    /// The operator's password, as the spec has it.
    pub fn publisher_password(&self) -> &str {
        self.spec.users.get(PUBLISHER).map_or("", |user| user.password.as_str())
    }

    /// Changes a user's password on every member.
    pub async fn set_password(&mut self, user: &str, password: &str) -> Result<()> {
        try_join_all(self.members.iter().map(|m| m.set_password(user, password))).await?;
        let user = self.spec.users.entry(user.to_owned());
        user.or_insert_with(|| User { password: String::new() }).password = password.to_owned();
        // A member that is restarted later reads it from there.
        let spec = serde_json::to_vec(&self.spec).context("spec")?;
        std::fs::write(&self.spec_file, spec).context("spec file")
    }

    pub fn log_tails(&self) -> String {
        let tail = |m: &Member| format!("--- member {}\n{}\n", m.index, m.log_tail());
        self.members.iter().map(tail).collect()
    }
}
