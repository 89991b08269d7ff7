//! B, F: facts about members. Several queries, no snapshot: the protocol reads the record before and after.

use super::ask::From;
use super::connection::Connection;
use super::members::{Facts, answers};
use super::rows::{ExistsRow, IdentityRow, NameRow};
use super::sql;
use super::transport::Endpoint;
use futures::future::{join_all, try_join_all};
use futures::try_join;
use publication_protocol::generation::TableFact;
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::{Catalog, MemberAnswer, MembersAnswer, MembersAsk, ReadFailure, Scope};
use publication_protocol::preflight::{PreflightAnswer, PreflightAsk};
use std::sync::Arc;

/// The members' catalogs behind a connection.
#[derive(Debug, Clone)]
pub struct MemberCatalog {
    connection: Arc<Connection>,
}

impl MemberCatalog {
    /// Reads over this connection.
    pub fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// B-2: through the first endpoint that answers. Once one does, its answer counts, good or bad: what keeps it
    /// from reading a member would keep the next one too.
    async fn through_one(&self, ask: &MembersAsk) -> MembersAnswer {
        let mut answer = MembersAnswer::default();
        for endpoint in self.connection.endpoints() {
            let found = match self.connection.identify(endpoint).await {
                Ok(_) => self.everywhere(endpoint, ask).await,
                Err(failure) => {
                    answer.failures.push((endpoint.label().to_owned(), failure));
                    continue;
                }
            };
            match found {
                // An endpoint that was passed over is no failure: the members themselves have answered.
                Ok(members) => {
                    let failures = self.all_surely_absent(&ask.database, &members).await;
                    let members = if failures.is_empty() { members } else { Vec::new() };
                    return MembersAnswer { members, failures };
                }
                Err(failure) => {
                    answer.failures.push((endpoint.label().to_owned(), failure));
                    return answer;
                }
            }
        }
        answer
    }

    async fn everywhere(
        &self,
        endpoint: &Endpoint,
        ask: &MembersAsk,
    ) -> Result<Vec<MemberAnswer>, ReadFailure> {
        let from = From::Cluster(endpoint, &ask.cluster);
        let who = sql::identity();
        let identities = from.rows::<IdentityRow>(&self.connection, &who);
        let (identities, facts) = try_join!(identities, self.facts(from, ask))?;
        answers(ask, &identities, &facts)
    }

    async fn one(&self, endpoint: &Endpoint, ask: &MembersAsk) -> Result<MemberAnswer, ReadFailure> {
        let (server, version) = self.connection.identify(endpoint).await?;
        let facts = self.facts(From::Server(endpoint, &server), ask).await?;
        let identity = IdentityRow { server: server.to_string(), version };
        let member = answers(ask, &[identity], &facts)?.pop().ok_or(ReadFailure::Malformed)?;
        self.surely_absent(endpoint, &ask.database, &member).await?;
        Ok(member)
    }

    /// B-6: what every member has under these names, and under retired names of these targets; by member. A name that
    /// is absent is surely so, not hidden (K19).
    ///
    /// # Errors
    /// The first endpoint that gave nothing, with why.
    pub async fn borne(
        &self,
        database: &str,
        names: &[&str],
        targets: &[&str],
    ) -> Result<Vec<(ServerUuid, Vec<String>)>, (String, ReadFailure)> {
        let query = &sql::borne(database, names, targets);
        let looks = self.connection.endpoints().iter().map(|endpoint| async move {
            let found = self.borne_at(endpoint, (database, names), query).await;
            found.map_err(|failure| (endpoint.label().to_owned(), failure))
        });
        try_join_all(looks).await
    }

    async fn borne_at(
        &self,
        endpoint: &Endpoint,
        (database, names): (&str, &[&str]),
        query: &sql::Inner,
    ) -> Result<(ServerUuid, Vec<String>), ReadFailure> {
        let (server, _) = self.connection.identify(endpoint).await?;
        let rows = From::Server(endpoint, &server).rows::<NameRow>(&self.connection, query).await?;
        let found: Vec<String> = rows.into_iter().map(|row| row.name).collect();
        for name in names.iter().filter(|name| !found.iter().any(|f| f == *name)) {
            self.is_absent(endpoint, database, name).await?;
        }
        Ok((server, found))
    }

    /// [`Self::surely_absent`] at the endpoint of each member that has one.
    async fn all_surely_absent(
        &self,
        database: &str,
        members: &[MemberAnswer],
    ) -> Vec<(String, ReadFailure)> {
        let mut failures = Vec::new();
        for member in members.iter().filter(|member| absent(member).next().is_some()) {
            let Some(endpoint) = self.connection.endpoint_of(&member.server_uuid).await else { continue };
            if let Err(failure) = self.surely_absent(endpoint, database, member).await {
                failures.push((endpoint.label().to_owned(), failure));
            }
        }
        failures
    }

    /// K19: absence is evidence (in cleanup, in verdicts), and a catalog hides what the user may not see. So each
    /// absent name is asked for once more by a statement that checks the right to know.
    async fn surely_absent(
        &self,
        endpoint: &Endpoint,
        database: &str,
        member: &MemberAnswer,
    ) -> Result<(), ReadFailure> {
        try_join_all(absent(member).map(|name| self.is_absent(endpoint, database, name))).await.map(|_| ())
    }

    async fn is_absent(&self, endpoint: &Endpoint, database: &str, name: &str) -> Result<(), ReadFailure> {
        let rows = self.connection.read_any::<ExistsRow>(endpoint, &sql::exists(database, name)).await?;
        match rows.as_slice() {
            [ExistsRow { result: 0 }] => Ok(()),
            // It came into being between two looks: the next pass sees it.
            [ExistsRow { result: 1 }] => Err(ReadFailure::Unavailable),
            _ => Err(ReadFailure::Malformed),
        }
    }

    async fn facts(&self, from: From<'_>, ask: &MembersAsk) -> Result<Facts, ReadFailure> {
        let connection = &*self.connection;
        let names: Vec<&str> = ask.names.iter().map(String::as_str).collect();
        let database = ask.database.as_str();
        let tables = async {
            if names.is_empty() {
                return Ok((Vec::new(), Vec::new()));
            }
            let (tables, replication) = (sql::tables(database, &names), sql::replication(database, &names));
            try_join!(from.rows(connection, &tables), from.rows(connection, &replication))
        };
        let health = async {
            let Some(name) = &ask.health_of else { return Ok((Vec::new(), Vec::new())) };
            let (health, mutations) =
                (sql::health(database, name), sql::unfinished_mutations(database, name));
            try_join!(from.rows(connection, &health), from.rows(connection, &mutations))
        };
        let counts = async {
            let Some(name) = &ask.count_of else { return Ok(Vec::new()) };
            match from.rows(connection, &sql::count(database, name)).await {
                // Somebody does not have the table: the identities say who.
                Err(ReadFailure::NoTable) => Ok(Vec::new()),
                other => other,
            }
        };
        let (views, databases) = (sql::cluster_rows(&ask.cluster), sql::database_engine(database));
        let (views, databases, (tables, replication), (health, mutations), counts) = try_join!(
            from.rows(connection, &views),
            from.rows(connection, &databases),
            tables,
            health,
            counts
        )?;
        Ok(Facts { views, databases, tables, replication, health, mutations, counts })
    }
}

impl Catalog for MemberCatalog {
    async fn members(&self, ask: &MembersAsk) -> MembersAnswer {
        if ask.scope == Scope::Cluster {
            return self.through_one(ask).await;
        }
        let endpoints = self.connection.endpoints();
        let found = join_all(endpoints.iter().map(|endpoint| self.one(endpoint, ask))).await;
        let mut answer = MembersAnswer::default();
        for (endpoint, found) in endpoints.iter().zip(found) {
            match found {
                Ok(member) => answer.members.push(member),
                Err(failure) => answer.failures.push((endpoint.label().to_owned(), failure)),
            }
        }
        answer
    }

    async fn preflight(&self, ask: &PreflightAsk) -> PreflightAnswer {
        self.read_preflight(ask).await
    }
}

fn absent(member: &MemberAnswer) -> impl Iterator<Item = &str> {
    member.tables.iter().filter(|(_, fact)| **fact == TableFact::Absent).map(|(name, _)| name.as_str())
}
