//! One pass's connection to a cluster: endpoints, credentials, TLS, deadlines, and which server each endpoint reached.

use super::rows::Attributed;
use super::sql::Sql;
use super::tls::{TlsError, TlsMaterial, client_config};
use super::transport::{Endpoint, Headers, OneShot, Timeouts, Transport};
use super::wire::Gate;
use super::{rows, sql};
use base64::Engine as _;
use clickhouse::{RowOwned, RowRead};
use futures::future::join_all;
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::ReadFailure;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a connection is made from: a Secret, a CA, a PublicationCluster.
#[derive(Clone)]
pub struct ConnectionSpec {
    /// One for each member.
    pub endpoints: Vec<Endpoint>,
    /// Any characters but control characters.
    pub user: String,
    /// Any characters.
    pub password: String,
    /// For https endpoints.
    pub tls: TlsMaterial,
    /// Deadlines.
    pub timeouts: Timeouts,
    /// Cluster name in `system.clusters`.
    pub cluster: String,
    /// Database of the facade.
    pub control_database: String,
    /// B-2: servers that endpoints are known to reach, by label; may be empty.
    pub known_servers: BTreeMap<String, ServerUuid>,
}

impl fmt::Debug for ConnectionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSpec").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

/// Why no connection can be made from a spec. `CREDENTIALS_INVALID`, except for the endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// There are none.
    #[error("there are no endpoints")]
    NoEndpoints,
    /// One endpoint is listed twice.
    #[error("an endpoint is listed twice")]
    DuplicateEndpoint,
    /// They fit neither way of HTTP authentication.
    #[error(
        "the user name cannot be sent: with a colon in it, user and password must be printable ASCII; rename the user"
    )]
    Credentials,
    /// The platform's TLS material.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Cheap to build: made anew for each pass, so that rotated secrets take effect.
pub struct Connection {
    transport: Transport,
    endpoints: Vec<Endpoint>,
    cluster: String,
    control_database: String,
    servers: Mutex<BTreeMap<String, ServerUuid>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Connection {
    /// Checks the spec; connects to nothing.
    ///
    /// # Errors
    /// [`ConnectionError`].
    pub fn new(spec: ConnectionSpec) -> Result<Self, ConnectionError> {
        let ConnectionSpec {
            endpoints,
            user,
            password,
            tls,
            timeouts,
            cluster,
            control_database,
            known_servers,
        } = spec;
        if endpoints.is_empty() {
            return Err(ConnectionError::NoEndpoints);
        }
        let repeated = |at: usize| endpoints[..at].iter().any(|e| e.label() == endpoints[at].label());
        if (1..endpoints.len()).any(repeated) {
            return Err(ConnectionError::DuplicateEndpoint);
        }
        let listed = |label: &String| endpoints.iter().any(|endpoint| endpoint.label() == label);
        let known_servers = known_servers.into_iter().filter(|(label, _)| listed(label)).collect();
        let headers = authentication(&user, &password).ok_or(ConnectionError::Credentials)?;
        let transport = Transport::new(client_config(&tls)?, headers, timeouts);
        Ok(Self { transport, endpoints, cluster, control_database, servers: Mutex::new(known_servers) })
    }

    /// One for each member, in the order of the spec.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Cluster name in `system.clusters`.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Database of the facade.
    pub fn control_database(&self) -> &str {
        &self.control_database
    }

    /// Deadlines.
    pub fn timeouts(&self) -> &Timeouts {
        self.transport.timeouts()
    }

    /// Servers reached so far, by endpoint label.
    pub fn servers(&self) -> BTreeMap<String, ServerUuid> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A read of a statement that always gives at least one row, and every row by the endpoint's own server.
    pub(super) async fn read<T>(
        &self,
        endpoint: &Endpoint,
        sql: &Sql,
    ) -> Result<(ServerUuid, Vec<T>), ReadFailure>
    where
        T: RowOwned + RowRead + Attributed,
    {
        let rows: Vec<T> = self.transport.read(endpoint, sql).await?;
        let server = rows.first().and_then(|row| ServerUuid::parse(row.server()));
        let server = server.ok_or(ReadFailure::Malformed)?;
        if rows.iter().any(|row| ServerUuid::parse(row.server()).as_ref() != Some(&server)) {
            return Err(ReadFailure::WrongServer);
        }
        self.reached(endpoint, &server)?;
        Ok((server, rows))
    }

    /// A read whose rows may be none or of several servers: the caller attributes them.
    pub(super) async fn read_any<T>(&self, endpoint: &Endpoint, sql: &Sql) -> Result<Vec<T>, ReadFailure>
    where
        T: RowOwned + RowRead,
    {
        self.transport.read(endpoint, sql).await
    }

    /// C-4.
    pub(super) async fn one_shot(
        &self,
        endpoint: &Endpoint,
        sql: &Sql,
        settings: Vec<(&'static str, String)>,
        deadline: Duration,
        gate: Option<Gate>,
    ) -> OneShot {
        self.transport.one_shot(endpoint, sql, settings, deadline, gate).await
    }

    /// Who answers at an endpoint.
    pub(super) async fn identify(&self, endpoint: &Endpoint) -> Result<(ServerUuid, String), ReadFailure> {
        let (server, rows) = self.read::<rows::IdentityRow>(endpoint, &sql::identity().here()).await?;
        match rows.as_slice() {
            [row] => Ok((server, row.version.clone())),
            _ => Err(ReadFailure::Malformed),
        }
    }

    /// The endpoint that reaches a server; asks all of them when it is not known yet.
    pub(super) async fn endpoint_of(&self, server: &ServerUuid) -> Option<&Endpoint> {
        if self.known_endpoint(server).is_none() {
            join_all(self.endpoints.iter().map(|endpoint| self.identify(endpoint))).await;
        }
        self.known_endpoint(server)
    }

    fn known_endpoint(&self, server: &ServerUuid) -> Option<&Endpoint> {
        let servers = self.servers();
        self.endpoints.iter().find(|endpoint| servers.get(endpoint.label()) == Some(server))
    }

    /// B-2: an endpoint reaches one server, always the same, and no two endpoints the same one.
    fn reached(&self, endpoint: &Endpoint, server: &ServerUuid) -> Result<(), ReadFailure> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if servers.iter().any(|(label, other)| (label == endpoint.label()) != (other == server)) {
            return Err(ReadFailure::WrongServer);
        }
        servers.insert(endpoint.label().to_owned(), server.clone());
        Ok(())
    }
}

/// ClickHouse's own headers where user and password fit into a header as they are, else HTTP Basic, which takes any
/// password; none for a user name that Basic would cut at its colon.
fn authentication(user: &str, password: &str) -> Option<Headers> {
    let plain = |text: &str| {
        text.bytes().all(|b| (0x20..0x7f).contains(&b)) && text.trim() == text && !text.is_empty()
    };
    if plain(user) && plain(password) {
        let headers = [("X-ClickHouse-User", user), ("X-ClickHouse-Key", password)];
        return Some(Headers(headers.map(|(name, value)| (name, value.to_owned())).to_vec()));
    }
    if user.is_empty() || user.contains(':') {
        return None;
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    Some(Headers(vec![("Authorization", format!("Basic {encoded}"))]))
}
