//! A server made of bytes: it counts connections and requests, and answers as its script says.

#![allow(clippy::unwrap_used, dead_code)]

use publication_e2e::cluster::{CLUSTER, ClickHouseCluster, PUBLISHER};
use publication_operator::clickhouse::{Connection, ConnectionSpec, Endpoint, Timeouts, TlsMaterial};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Names, RootId, RowExpectation, ServerUuid, plan_digest};
use publication_protocol::intent::Intent;
use publication_protocol::limits::Deadlines;
use publication_protocol::record::{Owner, RawRow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

pub const PASSWORD: &str = "s3cret-of-the-operator";
pub const USER: &str = "publisher-user";

/// What the server does with a connection.
#[derive(Debug, Clone)]
pub enum Script {
    /// Reads one request, writes these bytes, closes.
    Answer(Vec<u8>),
    /// The same, but keeps the connection and answers each further request.
    KeepAlive(Vec<u8>),
    /// Writes these bytes as soon as the head was read, then reads the rest.
    AnswerEarly(Vec<u8>),
    /// Reads one request, closes without a word.
    Swallow,
    /// Closes at once.
    Close,
    /// Reads one request and never answers.
    Hang,
    /// Accepts and reads nothing.
    Deaf,
    /// Answers for ever.
    Endless,
}

#[derive(Debug)]
pub struct Server {
    pub port: u16,
    connections: Arc<AtomicU32>,
    requests: Arc<AtomicU32>,
    bytes: Arc<Mutex<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(script: Script) -> Self {
        Self::start_with(script, None).await
    }

    pub async fn start_with(script: Script, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, requests) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (connected, requested, seen) =
            (Arc::clone(&connections), Arc::clone(&requests), Arc::clone(&bytes));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connected.fetch_add(1, Ordering::SeqCst);
                let (script, requested, seen) = (script.clone(), Arc::clone(&requested), Arc::clone(&seen));
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, script, &requested, &seen).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            serve(stream, script, &requested, &seen).await;
                        }
                    }
                });
            }
        });
        Self { port, connections, requests, bytes, task }
    }

    /// Connections and requests so far.
    pub fn counts(&self) -> (u32, u32) {
        (self.connections.load(Ordering::SeqCst), self.requests.load(Ordering::SeqCst))
    }

    /// Everything that arrived.
    pub fn received(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: Script,
    requests: &AtomicU32,
    seen: &Mutex<Vec<u8>>,
) {
    match script {
        Script::Close => {}
        Script::Deaf => std::future::pending().await,
        Script::AnswerEarly(bytes) => {
            read_head(&mut stream, requests, seen).await;
            let _ = stream.write_all(&bytes).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
        Script::Answer(bytes) => {
            read_request(&mut stream, requests, seen).await;
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Script::KeepAlive(bytes) => {
            while read_request(&mut stream, requests, seen).await && stream.write_all(&bytes).await.is_ok() {}
        }
        Script::Swallow => {
            read_request(&mut stream, requests, seen).await;
        }
        Script::Hang => {
            read_request(&mut stream, requests, seen).await;
            // Whatever else comes is counted as well.
            read_request(&mut stream, requests, seen).await;
            std::future::pending::<()>().await;
        }
        Script::Endless => {
            read_request(&mut stream, requests, seen).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
            while stream.write_all(&chunk).await.is_ok() {}
        }
    }
}

async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    requests: &AtomicU32,
    seen: &Mutex<Vec<u8>>,
) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0_u8; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await.unwrap_or(0) == 0 {
            return None;
        }
        if head.is_empty() {
            requests.fetch_add(1, Ordering::SeqCst);
        }
        head.push(byte[0]);
        seen.lock().unwrap().push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).to_lowercase())
}

async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    requests: &AtomicU32,
    seen: &Mutex<Vec<u8>>,
) -> bool {
    let Some(head) = read_head(stream, requests, seen).await else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let whole = stream.read_exact(&mut body).await.is_ok();
    seen.lock().unwrap().extend_from_slice(&body);
    whole
}

/// An answer with a body of the announced length.
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}

pub fn server_uuid() -> ServerUuid {
    ServerUuid::parse("00000000-0000-0000-0000-000000000001").unwrap()
}

pub fn timeouts() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(5),
        read: Duration::from_secs(1),
        mutation: Duration::from_secs(1),
        ddl_wait: Duration::from_secs(1),
        ddl_send: Duration::from_secs(1),
    }
}

pub fn spec(url: &str) -> ConnectionSpec {
    let endpoint = Endpoint::parse(url).unwrap();
    let known_servers = BTreeMap::from([(endpoint.label().to_owned(), server_uuid())]);
    ConnectionSpec {
        endpoints: vec![endpoint],
        user: USER.to_owned(),
        password: PASSWORD.to_owned(),
        tls: TlsMaterial::default(),
        timeouts: timeouts(),
        cluster: "main".to_owned(),
        control_database: "control".to_owned(),
        known_servers,
    }
}

/// For the embedded cluster.
pub fn live_spec(cluster: &ClickHouseCluster, control_database: &str) -> ConnectionSpec {
    let url = |port: u16| Endpoint::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let mut timeouts = Timeouts::with_send_deadline(Duration::from_secs(60));
    timeouts.ddl_wait = Duration::from_secs(20);
    ConnectionSpec {
        endpoints: cluster.members.iter().map(|m| url(m.spec.http_port)).collect(),
        user: PUBLISHER.to_owned(),
        password: cluster.publisher_password().to_owned(),
        tls: TlsMaterial::default(),
        timeouts,
        cluster: CLUSTER.to_owned(),
        control_database: control_database.to_owned(),
        known_servers: BTreeMap::new(),
    }
}

pub fn connection(port: u16) -> Arc<Connection> {
    Arc::new(Connection::new(spec(&format!("http://127.0.0.1:{port}"))).unwrap())
}

/// A row of the control table, as far as the adapters care.
pub fn raw_row(payload: &str) -> RawRow {
    RawRow {
        target_key: "k".into(),
        operation_id: "o".into(),
        fence_token: "f".into(),
        phase: "PREPARED".into(),
        dispatch_epoch: 0,
        payload: payload.to_owned(),
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
    }
}

/// What an object asks for that wants ten rows under these names.
pub fn intent(names: Names, root: RootId, statement_timeout_ms: u64) -> Intent {
    let rows = RowExpectation::Exact(10);
    Intent {
        operation: Digest::of_bytes(names.target.as_bytes()),
        root,
        rows,
        plan: plan_digest(&names.candidate, rows),
        names,
        owner: Owner {
            kube_uid: "k".into(),
            namespace: "n".into(),
            name: "o".into(),
            uid: "u".into(),
            created_ms: 1,
        },
        declared_internal_replication: false,
        accepted_dependents: BTreeSet::new(),
        deadlines: Deadlines { statement_timeout_ms },
        deleted: false,
        deadline_passed: false,
        suspended: false,
        behind: None,
        witnessed: None,
        changed: false,
    }
}
