//! The fault proxy between the operator and one member's HTTP port.
//!
//! Without a rule every request goes through verbatim, on an upstream connection of its own, once. A request that
//! was taken is carried to its end even when the client has gone: that is what a network does.

mod forward;
mod log;
mod rules;
mod statement;
mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use log::{Log, Outcome, Record};
pub use rules::{Fault, Installed, Rule};
pub use statement::{Statement, StatementKind};
pub use tls::{ClientIdentity, Tls};

use crate::error::{Context, Result};
use crate::ports;

/// What happens to a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    /// Nobody listens: connection refused, as for a dead server. Connections that exist are cut.
    Closed,
    /// Accepted and closed at once. Connections that exist are cut.
    Slammed,
}

/// Orders the records of all proxies of this process.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Shared {
    member: usize,
    upstream: SocketAddr,
    tls: Option<Tls>,
    rules: Mutex<Vec<Installed>>,
    log: Mutex<Log>,
    connections: AtomicU64,
}

#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    door: watch::Sender<Door>,
    /// The door the accept loop has taken up.
    entered: watch::Receiver<Door>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port and sends on to `upstream`.
    pub async fn start(member: usize, upstream: SocketAddr) -> Result<Self> {
        Self::launch(member, upstream, None).await
    }

    /// The same, speaking TLS to the client.
    pub async fn start_tls(member: usize, upstream: SocketAddr, tls: &Tls) -> Result<Self> {
        Self::launch(member, upstream, Some(tls.clone())).await
    }

    async fn launch(member: usize, upstream: SocketAddr, tls: Option<Tls>) -> Result<Self> {
        let address = ports::loopback(ports::free()?);
        let shared = Arc::new(Shared {
            member,
            upstream,
            tls,
            rules: Mutex::default(),
            log: Mutex::default(),
            connections: AtomicU64::new(0),
        });
        let door = watch::Sender::new(Door::Open);
        let (started, on_start) = oneshot::channel();
        let entered = watch::Sender::new(Door::Closed);
        let entered_by = entered.subscribe();
        let task = tokio::spawn(listen(address, Arc::clone(&shared), door.subscribe(), entered, started));
        on_start.await.context("start the proxy")??;
        Ok(Self { address, shared, door, entered: entered_by, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    pub fn member(&self) -> usize {
        self.shared.member
    }

    /// Puts a rule behind the ones there are; the first that strikes decides.
    pub fn rule(&self, rule: Rule) -> Installed {
        let installed = Installed::new(rule);
        self.share(&installed);
        installed
    }

    /// The same rule as on another proxy: matches are counted over all of them.
    pub fn share(&self, rule: &Installed) {
        lock(&self.shared.rules).push(rule.clone());
    }

    /// Removes all rules and releases what they hold.
    pub fn clear_rules(&self) {
        for rule in std::mem::take(&mut *lock(&self.shared.rules)) {
            rule.release();
        }
    }

    /// Back when the accept loop has done so.
    pub async fn door(&self, door: Door) -> Result<()> {
        self.door.send_replace(door);
        self.entered.clone().wait_for(|d| *d == door).await.context("the proxy's door")?;
        Ok(())
    }

    pub fn log(&self) -> Log {
        lock(&self.shared.log).clone()
    }

    pub fn records(&self) -> Vec<Record> {
        self.log().records()
    }

    /// Starts an empty log; requests under way still report to the old one.
    pub fn clear_log(&self) {
        *lock(&self.shared.log) = Log::default();
    }

    /// Client connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn listen(
    address: SocketAddr,
    shared: Arc<Shared>,
    mut door: watch::Receiver<Door>,
    entered: watch::Sender<Door>,
    started: oneshot::Sender<Result<()>>,
) {
    let mut started = Some(started);
    loop {
        let now = *door.borrow_and_update();
        let listener = match now {
            Door::Closed => None,
            Door::Open | Door::Slammed => {
                let bound = TcpListener::bind(address).await.context(format!("listen on {address}"));
                match bound {
                    Ok(listener) => Some(listener),
                    Err(e) => {
                        if let Some(started) = started.take() {
                            let _ = started.send(Err(e));
                        }
                        // Closing `entered` is how `door` learns of it.
                        return;
                    }
                }
            }
        };
        if let Some(started) = started.take() {
            let _ = started.send(Ok(()));
        }
        entered.send_replace(now);
        // Dropping the set at the end of the round cuts the connections.
        let mut serving = JoinSet::new();
        loop {
            tokio::select! {
                changed = door.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    break;
                }
                accepted = accept(listener.as_ref()) => {
                    let Ok(stream) = accepted else { continue };
                    let number = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    if now == Door::Open {
                        serving.spawn(serve(stream, number, Arc::clone(&shared)));
                    }
                }
                Some(_) = serving.join_next() => {}
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn serve(stream: TcpStream, number: u64, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    match shared.tls.clone() {
        None => speak(stream, number, shared).await,
        // A handshake that fails is the client's to report.
        Some(tls) => {
            if let Ok(stream) = tls.acceptor().accept(stream).await {
                speak(stream, number, shared).await;
            }
        }
    }
}

async fn speak<S: AsyncRead + AsyncWrite + Unpin>(stream: S, number: u64, shared: Arc<Shared>) {
    let service = service_fn(|request| handle(request, number, Arc::clone(&shared)));
    // An error here is the client's doing or a fault's.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn handle(request: Request<Incoming>, number: u64, shared: Arc<Shared>) -> forward::Answer {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.context("the client's request")?.to_bytes();
    let statement = Statement::read(&parts.method, &parts.uri, &body);
    // A copy: a rule that strikes must not keep others from being added.
    let rules = lock(&shared.rules).clone();
    let struck = rules.into_iter().find_map(|rule| rule.strike(&statement).map(|fault| (rule, fault)));
    let entry = lock(&shared.log).add(Record {
        sequence: SEQUENCE.fetch_add(1, Ordering::SeqCst),
        member: shared.member,
        connection: number,
        statement,
        request_bytes: body.len(),
        forwarded: 0,
        fault: struck.as_ref().map(|(_, fault)| fault.clone()),
        outcome: Outcome::InFlight,
    });
    let carried =
        tokio::spawn(forward::carry(shared.upstream, Request::from_parts(parts, body), struck, entry));
    carried.await.context("carry a request")?
}
