//! Which request gets which fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::statement::{Statement, StatementKind};
use crate::error::{Error, Result};

/// What happens to a matching request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Forwarded, the whole answer is read, then the connection ends without a byte: it took effect, nobody knows.
    DropAnswer,
    /// Read whole, never forwarded, the connection ends: it took no effect, nobody knows.
    CutBeforeSend,
    /// Not forwarded before the rule is released; forwarded then even when the client is gone (a slow network).
    HoldRequest,
    /// Forwarded at once; the answer waits until the rule is released.
    HoldAnswer,
    /// Forwarded; the head promises the whole body, half of it comes.
    TruncateBody,
    /// Forwarded twice, as a retrying proxy would; the second answer goes back.
    SendTwice,
    /// Answered with this status, never forwarded.
    Status(u16),
    /// Forwarded; the answer is replaced with this status (a gateway that gave up).
    StatusAfterEffect(u16),
    /// 307 to this place, never forwarded.
    Redirect(String),
}

/// A fault for the requests that match every condition given.
#[derive(Debug, Clone)]
pub struct Rule {
    fault: Fault,
    kind: Option<StatementKind>,
    mutations_only: bool,
    contains: Vec<String>,
    skip: usize,
    times: Option<usize>,
}

impl Rule {
    /// One shot, on the first request of any kind, unless narrowed.
    pub fn new(fault: Fault) -> Self {
        Self { fault, kind: None, mutations_only: false, contains: Vec::new(), skip: 0, times: Some(1) }
    }

    pub fn kind(mut self, kind: StatementKind) -> Self {
        self.kind = Some(kind);
        self
    }

    pub fn mutations(mut self) -> Self {
        self.mutations_only = true;
        self
    }

    /// The statement's text, or a value of its URL parameters, contains this. May be given several times.
    pub fn containing(mut self, text: impl Into<String>) -> Self {
        self.contains.push(text.into());
        self
    }

    /// From the Nth match on (1 is the first).
    pub fn nth(mut self, n: usize) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    pub fn lasting(mut self) -> Self {
        self.times = None;
        self
    }

    fn matches(&self, statement: &Statement) -> bool {
        let holds = |text: &String| {
            statement.text.contains(text) || statement.params.values().any(|value| value.contains(text))
        };
        self.kind.is_none_or(|kind| kind == statement.kind)
            && (!self.mutations_only || statement.kind.is_mutation())
            && self.contains.iter().all(holds)
    }
}

/// An installed rule: tells how often it struck and lets go what it holds. Clones are the same rule.
#[derive(Debug, Clone)]
pub struct Installed {
    rule: Arc<Rule>,
    matched: Arc<AtomicUsize>,
    struck: Arc<watch::Sender<usize>>,
    /// Requests that have come as far as the fault lets them (held, or their answer read and dropped).
    reached: Arc<watch::Sender<usize>>,
    released: Arc<watch::Sender<bool>>,
}

impl Installed {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule: Arc::new(rule),
            matched: Arc::default(),
            struck: Arc::new(watch::Sender::new(0)),
            reached: Arc::new(watch::Sender::new(0)),
            released: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The fault for this request, if the rule matches and still has shots.
    pub(super) fn strike(&self, statement: &Statement) -> Option<Fault> {
        if !self.rule.matches(statement) {
            return None;
        }
        let at = self.matched.fetch_add(1, Ordering::SeqCst);
        let last = self.rule.times.map(|times| self.rule.skip + times);
        if at < self.rule.skip || last.is_some_and(|last| at >= last) {
            return None;
        }
        self.struck.send_modify(|n| *n += 1);
        Some(self.rule.fault.clone())
    }

    pub(super) fn reach(&self) {
        self.reached.send_modify(|n| *n += 1);
    }

    pub(super) async fn held(&self) {
        // The sender is in self: the wait can only end with the release.
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }

    pub fn hits(&self) -> usize {
        *self.struck.borrow()
    }

    /// Waits until N requests have come as far as the fault lets them: with `HoldRequest` and `CutBeforeSend` they
    /// are here, with the others their answer has been read, so the statement has taken effect.
    pub async fn reached(&self, n: usize, within: Duration) -> Result<()> {
        let mut reached = self.reached.subscribe();
        let waited = tokio::time::timeout(within, reached.wait_for(|r| *r >= n)).await;
        let last = format!("{} struck, {} reached", self.hits(), *self.reached.borrow());
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Error::Timeout { what: format!("{:?} reached {n} times", self.rule), within, last }),
        }
    }

    /// Lets go of what is held, now and from now on.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}
