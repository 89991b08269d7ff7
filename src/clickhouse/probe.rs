//! B-4, B-5, B-6: what the probe of a PublicationCluster looks at. Facts only; what they mean is decided elsewhere.

use super::ask::From;
use super::connection::Connection;
use super::rows::{ClusterViewRow, DatabaseRow, FacadeRow, ServerRow, SettingRow};
use super::sql;
use super::transport::Endpoint;
use futures::future::join_all;
use futures::try_join;
use publication_protocol::facade::FacadeTable;
use publication_protocol::identity::{RootId, ServerUuid};
use publication_protocol::inventory::ClusterRow;
use publication_protocol::ports::ReadFailure;
use publication_protocol::sqltext::{Token, fingerprint, parenthesised, table_elements, tokenize};

/// What one endpoint gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointProbe {
    /// Host and port.
    pub label: String,
    /// Its server, or why there is no answer.
    pub answer: Result<ServerProbe, ReadFailure>,
}

/// One server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProbe {
    /// `serverUUID()`.
    pub server_uuid: ServerUuid,
    /// `hostName()`.
    pub host_name: String,
    /// `tcpPort()`.
    pub tcp_port: u16,
    /// `version()`.
    pub version: String,
    /// Its own `system.clusters`.
    pub view: Vec<ClusterRow>,
    /// Engine of the control database; none = no such database, or no right to see it.
    pub control_database_engine: Option<String>,
    /// Every facade, over all databases.
    pub facades: Vec<Facade>,
    /// `distributed_ddl_entry_format_version` of this user's sessions; none = no such setting.
    pub ddl_entry_format_version: Option<u64>,
}

/// A table with the facade's name and engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facade {
    /// Where it was found.
    pub database: String,
    /// Its Keeper root as written in its definition; none when that cannot be read.
    pub keeper_root: Option<String>,
    /// Columns, engine and keys, comparable between members; none when they cannot be read.
    pub definition: Option<String>,
}

impl Facade {
    /// Reads a table's CREATE.
    pub fn read(database: &str, create_query: &str) -> Self {
        let parts = parts(create_query);
        Self {
            database: database.to_owned(),
            keeper_root: parts.as_ref().and_then(|(_, tail)| keeper_root(tail)),
            definition: parts.map(|(elements, tail)| format!("{elements}|{}", fingerprint(&tail))),
        }
    }

    /// As the protocol judges it.
    pub fn as_fact(&self, control_database: &str) -> FacadeTable {
        let id = self.keeper_root.as_deref().and_then(|root| root.rsplit('/').next()).map(str::to_owned);
        let root = id.and_then(|id| RootId::try_from(id).ok());
        let expected = root.map(|root| Self::expected(control_database, root).definition);
        FacadeTable {
            database: self.database.clone(),
            root: root.filter(|root| self.keeper_root.as_deref() == Some(&sql::facade_root(*root))),
            schema_matches: self.definition.is_some() && expected == Some(self.definition.clone()),
        }
    }

    /// What the facade of this root must look like.
    pub fn expected(control_database: &str, root: RootId) -> Self {
        Self::read(control_database, sql::facade_text(control_database, root).text())
    }
}

/// Columns as a fingerprint, and the tokens behind them (engine, keys).
fn parts(create_query: &str) -> Option<(String, Vec<Token>)> {
    let elements = fingerprint(&table_elements(create_query)?);
    let tokens = tokenize(create_query)?;
    let list = tokens.iter().position(|token| *token == Token::Symbol('('))?;
    let inside = parenthesised(tokens.get(list..)?)?.len();
    Some((elements, tokens.get(list + inside + 2..)?.to_vec()))
}

fn keeper_root(tail: &[Token]) -> Option<String> {
    let engine =
        |w: &[Token]| matches!(&w[0], Token::Word(word) if word == "KeeperMap") && w[1] == Token::Symbol('(');
    let at = tail.windows(2).position(engine)?;
    match tail.get(at + 2)? {
        Token::Text(root) => Some(root.clone()),
        _ => None,
    }
}

const ENTRY_FORMAT: &str = "distributed_ddl_entry_format_version";

/// Looks at every endpoint's server.
pub async fn probe(connection: &Connection) -> Vec<EndpointProbe> {
    let endpoints = connection.endpoints();
    let answers = join_all(endpoints.iter().map(|endpoint| probe_one(connection, endpoint))).await;
    let labels = endpoints.iter().map(|endpoint| endpoint.label().to_owned());
    labels.zip(answers).map(|(label, answer)| EndpointProbe { label, answer }).collect()
}

async fn probe_one(connection: &Connection, endpoint: &Endpoint) -> Result<ServerProbe, ReadFailure> {
    let (server_uuid, servers) = connection.read::<ServerRow>(endpoint, &sql::server().here()).await?;
    let server = servers.into_iter().next().ok_or(ReadFailure::Malformed)?;
    let from = From::Server(endpoint, &server_uuid);
    let (view, database) =
        (sql::cluster_rows(connection.cluster()), sql::database_engine(connection.control_database()));
    let (facades, settings) = (sql::facades(), sql::settings(&[ENTRY_FORMAT]));
    let (view, databases, facades, settings) = try_join!(
        from.rows::<ClusterViewRow>(connection, &view),
        from.rows::<DatabaseRow>(connection, &database),
        from.rows::<FacadeRow>(connection, &facades),
        from.rows::<SettingRow>(connection, &settings),
    )?;
    Ok(ServerProbe {
        server_uuid,
        host_name: server.host_name,
        tcp_port: server.tcp_port,
        version: server.version,
        view: view.iter().map(super::members::cluster_row).collect(),
        control_database_engine: databases.into_iter().next().map(|row| row.engine),
        facades: facades.iter().map(|row| Facade::read(&row.database, &row.create_table_query)).collect(),
        ddl_entry_format_version: settings.iter().find_map(|row| row.value.parse().ok()),
    })
}
