//! The scratch tables of a self-test (`doctor`): sent and read as the real ones are.

use super::ask::From;
use super::rows::{CatalogRow, ScratchRow};
use super::sql::{self, Scratch, ScratchStep};
use super::transport::Endpoint;
use super::{BootstrapOutcome, Connection, DistributedDdl, authority};
use publication_protocol::authority::{Mutation, MutationAnswer};
use publication_protocol::identity::{CorrelationToken, ServerUuid};
use publication_protocol::ports::ReadFailure;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value for each endpoint, or why there is none.
pub type Each<T> = Vec<(String, Result<T, ReadFailure>)>;

/// One self-test's tables behind a connection.
#[derive(Debug)]
pub struct ScratchTables {
    connection: Arc<Connection>,
    ddl: DistributedDdl,
    scratch: Scratch,
}

impl ScratchTables {
    /// Touches nothing yet.
    pub fn new(connection: Arc<Connection>, ddl: DistributedDdl, scratch: Scratch) -> Self {
        Self { connection, ddl, scratch }
    }

    /// Names and texts.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Sends a distributed statement, once.
    pub async fn send(
        &self,
        server: &ServerUuid,
        step: ScratchStep,
        token: &CorrelationToken,
    ) -> BootstrapOutcome {
        self.ddl.scratch(server, &self.scratch, step, token).await
    }

    /// C-2, C-3: sends a mutation of the map, once.
    pub async fn mutate(&self, server: &ServerUuid, mutation: &Mutation) -> MutationAnswer {
        authority::mutate(&self.connection, server, mutation, &self.scratch.mutation(mutation)).await
    }

    /// Phase and version of the map's row of this key, as every member reads it.
    pub async fn rows(&self, key: &str) -> Each<Option<(String, i64)>> {
        let query = self.scratch.row(key);
        let one = async |endpoint: &Endpoint| {
            let (_, rows) = self.connection.read::<ScratchRow>(endpoint, &query).await?;
            Ok(rows.into_iter().find(|row| row.found != 0).map(|row| (row.phase, row.version)))
        };
        self.each(one).await
    }

    /// UUIDs of the tables that are there, by name, on every member.
    pub async fn uuids(&self) -> Each<BTreeMap<String, String>> {
        let names = self.scratch.names();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let query = sql::tables(self.connection.control_database(), &names);
        let one = async |endpoint: &Endpoint| {
            let (server, _) = self.connection.identify(endpoint).await?;
            let rows = From::Server(endpoint, &server).rows::<CatalogRow>(&self.connection, &query).await?;
            Ok(rows.into_iter().map(|row| (row.name, row.uuid)).collect())
        };
        self.each(one).await
    }

    async fn each<T>(&self, one: impl AsyncFn(&Endpoint) -> Result<T, ReadFailure>) -> Each<T> {
        let mut answers = Vec::new();
        for endpoint in self.connection.endpoints() {
            answers.push((endpoint.label().to_owned(), one(endpoint).await));
        }
        answers
    }
}
