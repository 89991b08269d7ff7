//! D: distributed statements, each sent once, and the queue that alone tells what became of them.

use super::backlog;
use super::connection::Connection;
use super::permit::{Held, PermitGate};
use super::rows::DdlQueueRow;
use super::sql::{Scratch, ScratchStep};
use super::transport::{Answer, Endpoint, OneShot};
use super::{settings, sql};
use publication_protocol::authority::{DispatchPermit, Now};
use publication_protocol::identity::{Action, CorrelationToken, RootId, ServerUuid};
use publication_protocol::ports::{Ddl, Order, ReadFailure, SendOutcome};
use publication_protocol::preflight::Backlog;
use publication_protocol::queue::{ExceptionText, QueueRow};
use publication_protocol::sqltext;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Both clocks.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// The distributed DDL behind a connection.
#[derive(Clone)]
pub struct DistributedDdl {
    connection: Arc<Connection>,
    clock: Clock,
    scans: Arc<AtomicU64>,
}

impl fmt::Debug for DistributedDdl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedDdl").field("connection", &self.connection).finish_non_exhaustive()
    }
}

/// What became of a statement that needs no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootstrapOutcome {
    /// An answer arrived; the server's code if it was an exception. Queue and catalogs tell.
    Answered(Option<u32>),
    /// No answer: queue and catalogs tell.
    Unknown,
    /// No byte was written.
    NotSent,
    /// C-4 was broken.
    OneShotViolation,
}

impl DistributedDdl {
    /// Sends over this connection; the clock is asked right before a statement is written.
    pub fn new(connection: Arc<Connection>, clock: Clock) -> Self {
        Self { connection, clock, scans: Arc::default() }
    }

    /// Scans of the queue so far, over all clones: each reads the whole queue from Keeper.
    pub fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }

    /// B-6: the facade's CREATE, once. Repeating it with the same root is harmless, so there is no permit.
    pub async fn bootstrap(
        &self,
        server: &ServerUuid,
        root: RootId,
        token: &CorrelationToken,
    ) -> BootstrapOutcome {
        let statement =
            sql::create_facade(self.connection.control_database(), self.connection.cluster(), root);
        self.without_permit(server, &statement, token).await
    }

    /// A step of a self-test, once: it touches tables of its own and nothing else, so there is no permit.
    pub async fn scratch(
        &self,
        server: &ServerUuid,
        scratch: &Scratch,
        step: ScratchStep,
        token: &CorrelationToken,
    ) -> BootstrapOutcome {
        self.without_permit(server, &scratch.sql(step), token).await
    }

    async fn without_permit(
        &self,
        server: &ServerUuid,
        statement: &sql::Sql,
        token: &CorrelationToken,
    ) -> BootstrapOutcome {
        let Some(endpoint) = self.connection.endpoint_of(server).await else {
            return BootstrapOutcome::NotSent;
        };
        let sent = self.submit(endpoint, statement, token, None).await;
        match (sent.calls, sent.answer) {
            (1, Answer::Done { .. }) => BootstrapOutcome::Answered(None),
            (1, Answer::Exception(error)) => BootstrapOutcome::Answered(Some(error.code)),
            (1, Answer::Broken) => BootstrapOutcome::Unknown,
            (1, Answer::NotSent) => BootstrapOutcome::NotSent,
            _ => BootstrapOutcome::OneShotViolation,
        }
    }

    async fn submit(
        &self,
        endpoint: &Endpoint,
        statement: &sql::Sql,
        token: &CorrelationToken,
        gate: Option<super::wire::Gate>,
    ) -> OneShot {
        let timeouts = self.connection.timeouts();
        let settings = settings::distributed(token, timeouts.ddl_wait);
        self.connection.one_shot(endpoint, statement, settings, timeouts.ddl_send, gate).await
    }

    async fn scan_at(&self, endpoint: &Endpoint, query: &sql::Sql) -> Result<Vec<QueueRow>, ReadFailure> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        let (_, rows) = self.connection.read::<DdlQueueRow>(endpoint, query).await?;
        // The row without an entry is there to say who answers.
        rows.into_iter().filter(|row| !row.entry.is_empty()).map(queue_row).collect()
    }
}

impl DistributedDdl {
    /// B-6: the rows of every entry with our prefix.
    pub async fn all_ours(&self) -> Result<Vec<QueueRow>, ReadFailure> {
        self.scan_by(&sql::all_ours(self.connection.cluster())).await
    }

    async fn scan_by(&self, query: &sql::Sql) -> Result<Vec<QueueRow>, ReadFailure> {
        let mut last = ReadFailure::Unavailable;
        for endpoint in self.connection.endpoints() {
            match self.scan_at(endpoint, query).await {
                // An endpoint that cannot be reached, or that cannot reach Keeper, is passed over; what else one says, the
                // others would say too.
                Err(failure @ (ReadFailure::Unavailable | ReadFailure::KeeperUnavailable)) => last = failure,
                answer => return answer,
            }
        }
        Err(last)
    }
}

impl Ddl for DistributedDdl {
    async fn send(&self, permit: DispatchPermit, order: &Order) -> SendOutcome {
        // A permit is for one action: another kind of statement is a bug of the caller, and nothing is sent.
        let Some(statement) = sql::statement(&order.statement).filter(|_| allows(&permit, order)) else {
            return SendOutcome::NotSent(permit);
        };
        let Some(endpoint) = self.connection.endpoint_of(permit.server()).await else {
            return SendOutcome::NotSent(permit);
        };
        let token = permit.token().clone();
        let permit = match permit.redeem((self.clock)()) {
            // Too old already: not even a connection is made.
            Err(late) => return SendOutcome::NotSent(late),
            Ok(in_time) => in_time.not_sent(),
        };
        let gate = PermitGate::new(permit, Arc::clone(&self.clock));
        let sent = self.submit(endpoint, &statement, &token, Some(gate.ask())).await;
        let held = gate.take();
        match (sent.calls, sent.answer, held) {
            (1, Answer::NotSent, Held::Kept(permit)) => SendOutcome::NotSent(permit),
            (1, Answer::NotSent, Held::Redeemed(redeemed)) => SendOutcome::NotSent(redeemed.not_sent()),
            (1, Answer::Done { .. } | Answer::Exception(_), _) => SendOutcome::Answered,
            (1, Answer::Broken | Answer::NotSent, _) => SendOutcome::Unknown,
            _ => SendOutcome::OneShotViolation,
        }
    }

    async fn scan(&self, cluster: &str, tokens: &[CorrelationToken]) -> Result<Vec<QueueRow>, ReadFailure> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        self.scan_by(&sql::queue(cluster, tokens)).await
    }

    async fn backlog(&self, cluster: &str) -> Result<Vec<Backlog>, ReadFailure> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        backlog::read(&self.connection, cluster).await.map_err(|(_, failure)| failure)
    }
}

fn allows(permit: &DispatchPermit, order: &Order) -> bool {
    matches!(
        (permit.action(), &order.statement.ddl),
        (Action::Publish, sqltext::Ddl::Exchange { .. } | sqltext::Ddl::Rename { .. })
            | (Action::Retire, sqltext::Ddl::Rename { .. })
            | (Action::Drop, sqltext::Ddl::DropIfExists { .. })
    )
}

fn queue_row(row: DdlQueueRow) -> Result<QueueRow, ReadFailure> {
    let exception_text = match row.exception_text {
        0 => ExceptionText::Null,
        1 => ExceptionText::Empty,
        2 => ExceptionText::Some,
        _ => return Err(ReadFailure::Malformed),
    };
    Ok(QueueRow {
        entry: row.entry,
        token: row.token,
        cluster: row.cluster,
        query: row.query,
        host: row.host,
        port: row.port,
        status: row.status,
        exception_code: row.exception_code,
        exception_text,
    })
}
