//! J-3: whether a statement still runs somewhere.

use super::connection::Connection;
use super::rows::RunningRow;
use super::sql;
use futures::future::try_join_all;
use publication_protocol::ports::Processes;
use std::sync::Arc;

/// The members' process lists behind a connection.
#[derive(Debug, Clone)]
pub struct MemberProcesses {
    connection: Arc<Connection>,
}

impl MemberProcesses {
    /// Reads over this connection.
    pub fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }
}

impl Processes for MemberProcesses {
    async fn running(&self, query_ids: &[String]) -> Option<bool> {
        let query = sql::running(query_ids).here();
        let reads = self.connection.endpoints().iter().map(|e| self.connection.read::<RunningRow>(e, &query));
        // One member that cannot say is enough not to know.
        let answers = try_join_all(reads).await.ok()?;
        Some(answers.iter().flat_map(|(_, rows)| rows).any(|row| row.running > 0))
    }
}
