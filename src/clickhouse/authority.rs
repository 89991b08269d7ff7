//! C: the facade as a raw table. Judging what a mutation meant is the protocol's business, not this module's.

use super::connection::Connection;
use super::error::mutation_outcome;
use super::rows::SlotRow;
use super::transport::{Answer, Endpoint};
use super::{settings, sql};
use futures::future::join_all;
use publication_protocol::authority::{Mutation, MutationAnswer, MutationOutcome};
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::{AuthorityRead, ControlTable, ReadFailure};
use publication_protocol::record::{RawRow, VersionedRow};
use rand::TryRngCore as _;
use std::sync::Arc;

/// The KeeperMap facade behind a connection.
#[derive(Debug, Clone)]
pub struct Authority {
    connection: Arc<Connection>,
}

impl Authority {
    /// Reads and writes over this connection.
    pub fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    async fn slot(
        &self,
        endpoint: &Endpoint,
        key: &str,
    ) -> Result<(ServerUuid, Option<VersionedRow>), ReadFailure> {
        let query = sql::slot(self.connection.control_database(), key);
        let (server, rows) = self.connection.read::<SlotRow>(endpoint, &query).await?;
        Ok((server, decode(rows, key)?))
    }
}

impl ControlTable for Authority {
    async fn read_all(&self, key: &str) -> AuthorityRead {
        let endpoints = self.connection.endpoints();
        let answers = join_all(endpoints.iter().map(|endpoint| self.slot(endpoint, key))).await;
        let mut read = AuthorityRead::default();
        for (endpoint, answer) in endpoints.iter().zip(answers) {
            match answer {
                Ok(row) => read.rows.push(row),
                Err(failure) => read.failures.push((endpoint.label().to_owned(), failure)),
            }
        }
        read
    }

    async fn read_exact(&self, server: &ServerUuid, key: &str) -> Option<(ServerUuid, Option<VersionedRow>)> {
        let endpoint = self.connection.endpoint_of(server).await?;
        self.slot(endpoint, key).await.ok()
    }

    async fn mutate(&self, server: &ServerUuid, mutation: &Mutation) -> MutationAnswer {
        let statement = sql::mutation(self.connection.control_database(), mutation);
        mutate(&self.connection, server, mutation, &statement).await
    }
}

/// C-4: one mutation, once.
pub(super) async fn mutate(
    connection: &Connection,
    server: &ServerUuid,
    mutation: &Mutation,
    statement: &sql::Sql,
) -> MutationAnswer {
    // Without an endpoint or a query id of its own nothing is sent; "unknown" is the safe thing to say of it.
    let unsent = MutationAnswer { outcome: MutationOutcome::Unknown, transport_calls: 1 };
    let Some(endpoint) = connection.endpoint_of(server).await else { return unsent };
    let Some(query_id) = query_id() else { return unsent };
    let limit = connection.timeouts().mutation;
    let sent = connection.one_shot(endpoint, statement, settings::mutation(query_id), limit, None).await;
    MutationAnswer { outcome: outcome(mutation, sent.answer), transport_calls: sent.calls }
}

/// C-5.
fn outcome(mutation: &Mutation, answer: Answer) -> MutationOutcome {
    match answer {
        Answer::Done { empty: true } => MutationOutcome::Acknowledged,
        Answer::Exception(error) => mutation_outcome(mutation, error),
        // A mutation's success has no body: something else has answered.
        Answer::Done { empty: false } | Answer::NotSent | Answer::Broken => MutationOutcome::Unknown,
    }
}

fn query_id() -> Option<String> {
    let mut bytes = [0_u8; 16];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).ok()?;
    Some(format!("chpub1-cas-{:032x}", u128::from_be_bytes(bytes)))
}

/// One row that says who answers, and at most one with the key that was asked for.
fn decode(rows: Vec<SlotRow>, key: &str) -> Result<Option<VersionedRow>, ReadFailure> {
    let (found, witness): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.found != 0);
    let mut found = found.into_iter();
    match (witness.len(), found.next(), found.next()) {
        (1, None, _) => Ok(None),
        (1, Some(row), None) if row.target_key == key => {
            let version = u64::try_from(row.version).map_err(|_| ReadFailure::Malformed)?;
            Ok(Some(VersionedRow { row: raw(row), version }))
        }
        _ => Err(ReadFailure::Malformed),
    }
}

fn raw(row: SlotRow) -> RawRow {
    RawRow {
        target_key: row.target_key,
        operation_id: row.operation_id,
        fence_token: row.fence_token,
        phase: row.phase,
        dispatch_epoch: row.dispatch_epoch,
        payload: row.payload,
        payload_sha256: row.payload_sha256,
    }
}
