//! Calls to one server over the `clickhouse` crate: bounded reads, and the one-shot transport of C-4.
//!
//! Every call has its own client and its own [`Wire`]: a new connection, no pool, no retry, no redirect. The crate
//! does the HTTP of both kinds of call; what it hides (whether a byte was written, how often it connected) is seen
//! on the wire, and an exception inside of a successful answer is looked for here.

use super::error::{ServerError, read_failure};
use super::sql::Sql;
use super::wire::{Connector, Gate, Traffic, Wire};
use clickhouse::error::Error as ClientError;
use clickhouse::{Client, RowOwned, RowRead};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use publication_protocol::ports::ReadFailure;
use std::fmt;
use std::future::Future;
use std::time::Duration;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// Longest answer of a read. 64 members with health, views and tables stay far below.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest answer of a mutation or a distributed statement.
const ONE_SHOT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One server's HTTP interface.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
    label: String,
}

impl Endpoint {
    /// Takes `http://HOST:PORT` or `https://HOST:PORT`, nothing else; none for any other text.
    pub fn parse(url: &str) -> Option<Self> {
        let parsed = url::Url::parse(url).ok()?;
        let bare = parsed.username().is_empty() && parsed.password().is_none();
        let plain =
            matches!(parsed.path(), "" | "/") && parsed.query().is_none() && parsed.fragment().is_none();
        if !(bare && plain && matches!(parsed.scheme(), "http" | "https")) {
            return None;
        }
        let label = format!("{}:{}", parsed.host_str()?, parsed.port_or_known_default()?);
        Some(Self { url: format!("{}://{label}", parsed.scheme()), label })
    }

    /// Host and port: how failures name it.
    pub fn label(&self) -> &str {
        &self.label
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.label)
    }
}

/// How long calls may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Name look-up, TCP and TLS of one connection.
    pub connect: Duration,
    /// One read, all of it.
    pub read: Duration,
    /// One mutation of the control table, all of it.
    pub mutation: Duration,
    /// How long a server waits for the members before it answers a distributed statement.
    pub ddl_wait: Duration,
    /// M: `send_deadline_ms`; after this no byte of a distributed statement leaves.
    pub ddl_send: Duration,
}

impl Timeouts {
    /// The defaults, with the send deadline that follows from the cluster's statement timeout.
    pub fn with_send_deadline(ddl_send: Duration) -> Self {
        Self {
            connect: Duration::from_secs(3),
            read: Duration::from_secs(15),
            mutation: Duration::from_secs(30),
            ddl_wait: Duration::from_secs(5),
            ddl_send,
        }
    }
}

/// Headers that say who asks.
#[derive(Clone)]
pub(super) struct Headers(pub(super) Vec<(&'static str, String)>);

/// What a one-shot call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneShot {
    /// What came back.
    pub answer: Answer,
    /// C-4: connections or requests, whichever is more; anything but 1 is a correctness failure. A call that did
    /// not get as far as a connection counts as one.
    pub calls: u32,
}

/// The answer of a one-shot call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Status 200, whole body read, no exception in it.
    Done {
        /// Whether there was no body at all: a mutation has none.
        empty: bool,
    },
    /// The server reported an exception, in full.
    Exception(ServerError),
    /// No byte was written, and none will be.
    NotSent,
    /// Anything else: nothing is known (C-5).
    Broken,
}

/// Calls servers.
#[derive(Clone)]
pub(super) struct Transport {
    connector: HttpsConnector<HttpConnector>,
    headers: Headers,
    timeouts: Timeouts,
}

impl Transport {
    pub(super) fn new(tls: rustls::ClientConfig, headers: Headers, timeouts: Timeouts) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Self { connector, headers, timeouts }
    }

    pub(super) fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    fn client(&self, endpoint: &Endpoint, wire: &Wire) -> Client {
        let connector =
            Connector { inner: self.connector.clone(), timeout: self.timeouts.connect, wire: wire.clone() };
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .build(connector);
        let client =
            Client::with_http_client(http).with_url(&endpoint.url).with_setting("wait_end_of_query", "1");
        self.headers.0.iter().fold(client, |client, (name, value)| client.with_header(*name, value.clone()))
    }

    /// A read, bounded in time and size.
    pub(super) async fn read<T>(&self, endpoint: &Endpoint, sql: &Sql) -> Result<Vec<T>, ReadFailure>
    where
        T: RowOwned + RowRead,
    {
        let wire = Wire::new(READ_BYTES_MAX, None);
        let client = super::settings::read(self.timeouts.read)
            .into_iter()
            .fold(self.client(endpoint, &wire), |client, (name, value)| client.with_setting(name, value));
        let rows = quietly(client.query_raw(sql.text()).fetch_all::<T>());
        let rows = tokio::time::timeout(self.timeouts.read, rows).await;
        wire.seal();
        rows.map_err(|_| ReadFailure::Unavailable)?.map_err(|error| failure(&error))
    }

    /// C-4: one connection, one request, whole body, within `deadline`. After the return no byte leaves any more.
    pub(super) async fn one_shot(
        &self,
        endpoint: &Endpoint,
        sql: &Sql,
        settings: Vec<(&'static str, String)>,
        deadline: Duration,
        gate: Option<Gate>,
    ) -> OneShot {
        let wire = Wire::new(ONE_SHOT_BYTES_MAX, gate);
        let client = settings
            .into_iter()
            .fold(self.client(endpoint, &wire), |client, (name, value)| client.with_setting(name, value));
        let result = tokio::time::timeout(deadline, quietly(whole_body(&client, sql))).await;
        let traffic = wire.seal();
        let answer = match result {
            Ok(Ok(body)) => judge(&body),
            Ok(Err(error)) => exception(&error).map_or(Answer::Broken, Answer::Exception),
            Err(_) => Answer::Broken,
        };
        OneShot { answer: if traffic.written == 0 { Answer::NotSent } else { answer }, calls: calls(traffic) }
    }
}

/// The crate logs what servers say, and that may quote names, values and SQL.
async fn quietly<F: Future>(call: F) -> F::Output {
    call.with_subscriber(NoSubscriber::new()).await
}

async fn whole_body(client: &Client, sql: &Sql) -> Result<Vec<u8>, ClientError> {
    let mut cursor = client.query_raw(sql.text()).fetch_bytes("TabSeparated")?;
    let mut body = Vec::new();
    while let Some(chunk) = cursor.next().await? {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn calls(traffic: Traffic) -> u32 {
    traffic.connects.max(traffic.requests).max(1)
}

fn judge(body: &[u8]) -> Answer {
    match ServerError::find(&String::from_utf8_lossy(body)) {
        Some(error) => Answer::Exception(error),
        None => Answer::Done { empty: body.is_empty() },
    }
}

fn exception(error: &ClientError) -> Option<ServerError> {
    match error {
        ClientError::BadResponse(text) => ServerError::parse(text),
        _ => None,
    }
}

fn failure(error: &ClientError) -> ReadFailure {
    match error {
        ClientError::BadResponse(_) => exception(error).map_or(ReadFailure::Unavailable, read_failure),
        ClientError::Network(_) | ClientError::TimedOut => ReadFailure::Unavailable,
        // Everything else is about names, types and encodings of what arrived.
        _ => ReadFailure::Malformed,
    }
}
