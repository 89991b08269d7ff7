//! Waiting for a state instead of for a time. Each look is bounded, and a failure says what was last seen.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Result};

const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_millis(100);
/// A look that hangs (a server that accepts before it serves) must not use up the whole wait.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// What one look found.
#[derive(Debug)]
pub enum Seen<T> {
    Done(T),
    NotYet(String),
}

impl<T> Seen<T> {
    pub fn not_yet(state: impl Display) -> Self {
        Self::NotYet(state.to_string())
    }
}

impl Seen<()> {
    pub fn when(done: bool, state: impl Display) -> Self {
        if done { Self::Done(()) } else { Self::not_yet(state) }
    }
}

impl<T> From<Option<T>> for Seen<T> {
    fn from(found: Option<T>) -> Self {
        found.map_or_else(|| Self::not_yet("nothing there"), Self::Done)
    }
}

/// Looks until `Done`. An error counts as "not yet", unless asking again cannot help.
pub async fn eventually<T, S, F, Fut>(within: Duration, what: &str, mut look: F) -> Result<T>
where
    S: Into<Seen<T>>,
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<S>>,
{
    let end = Instant::now() + within;
    let mut interval = INTERVAL_MIN;
    let mut last = "a look that did not come back".to_owned();
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        match timeout(LOOK_MAX.min(rest), look()).await {
            Ok(Ok(seen)) => match seen.into() {
                Seen::Done(found) => return Ok(found),
                Seen::NotYet(state) => last = state,
            },
            Ok(Err(e)) if e.is_final() => return Err(e),
            Ok(Err(e)) => last = format!("error: {e}"),
            // Cut by the end of the wait: what the look before it saw says more.
            Err(_) if rest < LOOK_MAX => {}
            Err(_) => last = "a look that did not come back".to_owned(),
        }
        if Instant::now() + interval >= end {
            return Err(Error::Timeout { what: what.to_owned(), within, last });
        }
        sleep(interval).await;
        interval = (interval * 2).min(INTERVAL_MAX);
    }
}
