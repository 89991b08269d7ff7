//! Tables and generations, as tests speak of them.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use uuid::Uuid;

use super::ClickHouseCluster;
use crate::error::{Context, Result};

/// Columns and key of the tables that tests make when they need nothing special.
pub const COLUMNS: &str = "id UInt64, value String";
pub const ORDER_BY: &str = "id";

impl ClickHouseCluster {
    /// An `Atomic` database on every member.
    pub async fn create_database(&self, database: &str) -> Result<()> {
        let on = &self.spec.cluster;
        self.sql(0, &format!("CREATE DATABASE IF NOT EXISTS {database} ON CLUSTER {on} ENGINE = Atomic"))
            .await
            .map(|_| ())
    }

    /// A replicated table on every member, through one `ON CLUSTER` statement; the database must exist.
    pub async fn create_replicated(
        &self,
        database: &str,
        table: &str,
        columns: &str,
        order_by: &str,
    ) -> Result<()> {
        let on = &self.spec.cluster;
        let statement = format!(
            "CREATE TABLE {database}.{table} ON CLUSTER {on} ({columns}) ENGINE = \
             ReplicatedMergeTree('/clickhouse/tables/{{uuid}}/{{shard}}', '{{replica}}') ORDER BY {order_by}"
        );
        self.sql(0, &statement).await.map(|_| ())
    }

    /// The same rows on every member: `start..start + rows`.
    pub async fn load_rows(&self, database: &str, table: &str, rows: u64, start: u64) -> Result<()> {
        try_join_all(self.members.iter().map(|m| m.load(database, table, rows, start))).await.map(|_| ())
    }

    /// Database, table and rows in one go, with the usual columns.
    pub async fn table_with_rows(&self, database: &str, table: &str, rows: u64, start: u64) -> Result<()> {
        self.create_database(database).await?;
        self.create_replicated(database, table, COLUMNS, ORDER_BY).await?;
        if rows > 0 {
            self.load_rows(database, table, rows, start).await?;
        }
        Ok(())
    }

    /// The UUID of a table on one member; none when it is absent.
    pub async fn generation(&self, member: usize, database: &str, table: &str) -> Result<Option<Uuid>> {
        let statement = format!(
            "SELECT uuid FROM system.tables WHERE database = {} AND name = {}",
            literal(database),
            literal(table)
        );
        let text = self.sql(member, &statement).await?;
        match text.trim() {
            "" => Ok(None),
            uuid => uuid.parse().map(Some).context(format!("UUID of {database}.{table}")),
        }
    }

    /// Per member, the UUIDs of those of these tables that exist there.
    pub async fn uuid_map(&self, database: &str, tables: &[&str]) -> Result<Vec<BTreeMap<String, Uuid>>> {
        let names = tables.iter().map(|t| literal(t)).collect::<Vec<_>>().join(", ");
        let statement = format!(
            "SELECT name, uuid FROM system.tables WHERE database = {} AND name IN ({names})",
            literal(database)
        );
        try_join_all(self.members.iter().map(|member| async {
            let rows = member.rows(&statement).await?;
            rows.into_iter()
                .map(|row| match row.as_slice() {
                    [name, uuid] => Ok((name.clone(), uuid.parse().context("UUID of a table")?)),
                    other => Err(crate::error::Error::other("row of system.tables", format!("{other:?}"))),
                })
                .collect()
        }))
        .await
    }

    /// `count()` on each member.
    pub async fn counts(&self, database: &str, table: &str) -> Result<Vec<u64>> {
        let statement = format!("SELECT count() FROM {database}.{table}");
        try_join_all(self.members.iter().map(|member| async {
            member.sql(&statement).await?.trim().parse().context(format!("count of {database}.{table}"))
        }))
        .await
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
