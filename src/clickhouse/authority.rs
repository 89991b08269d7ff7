//! C: the facade as a raw table. Judging what a mutation meant is the protocol's business, not this module's.

use super::connection::Connection;
use super::error::mutation_outcome;
use super::probe::Facade;
use super::rows::SlotRow;
use super::transport::{Answer, Endpoint};
use super::{settings, sql};
use futures::future::join_all;
use publication_protocol::authority::{Mutation, MutationAnswer, MutationOutcome};
use publication_protocol::facade::{BINDING_KEY, FacadeSeen};
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::{AuthorityRead, ControlTable, ReadFailure};
use publication_protocol::record::{RawRow, VersionedRow};
use rand::TryRngCore as _;
use std::collections::BTreeMap;
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

    async fn slot(&self, endpoint: &Endpoint, key: &str) -> Result<(ServerUuid, Seen), ReadFailure> {
        let database = self.connection.control_database();
        let (server, rows) = self.connection.read::<SlotRow>(endpoint, &sql::slot(database, key)).await?;
        Ok((server, decode(rows, key, database)?))
    }
}

/// What one member shows of a slot and of the facade that it is in.
#[derive(Debug)]
struct Seen {
    row: Option<VersionedRow>,
    facade: FacadeSeen,
}

impl ControlTable for Authority {
    async fn read_all(&self, key: &str) -> AuthorityRead {
        let endpoints = self.connection.endpoints();
        let answers = join_all(endpoints.iter().map(|endpoint| self.slot(endpoint, key))).await;
        let mut read = AuthorityRead::default();
        for (endpoint, answer) in endpoints.iter().zip(answers) {
            match answer {
                Ok((server, seen)) => {
                    read.rows.push((server.clone(), seen.row));
                    read.facades.push((server, seen.facade));
                }
                Err(failure) => read.failures.push((endpoint.label().to_owned(), failure)),
            }
        }
        read
    }

    async fn read_exact(&self, server: &ServerUuid, key: &str) -> Option<(ServerUuid, Option<VersionedRow>)> {
        let endpoint = self.connection.endpoint_of(server).await?;
        self.slot(endpoint, key).await.ok().map(|(server, seen)| (server, seen.row))
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

/// One row that says who answers, the facade's definition if the catalog shows it, and at most one row of each key.
fn decode(rows: Vec<SlotRow>, key: &str, database: &str) -> Result<Seen, ReadFailure> {
    let (mut witnesses, mut table, mut by_key) = (0, None, BTreeMap::new());
    for row in rows {
        let repeated = match row.found {
            0 => {
                witnesses += 1;
                witnesses > 1
            }
            1 if row.target_key == key || row.target_key == BINDING_KEY => {
                let version = u64::try_from(row.version).map_err(|_| ReadFailure::Malformed)?;
                let key = row.target_key.clone();
                by_key.insert(key, VersionedRow { row: raw(row), version }).is_some()
            }
            2 => table.replace(Facade::read(database, &row.payload).as_fact(database)).is_some(),
            _ => return Err(ReadFailure::Malformed),
        };
        if repeated {
            return Err(ReadFailure::Malformed);
        }
    }
    if witnesses == 0 {
        return Err(ReadFailure::Malformed);
    }
    let binding = by_key.get(BINDING_KEY).cloned();
    Ok(Seen { row: by_key.remove(key), facade: FacadeSeen { table, binding } })
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
