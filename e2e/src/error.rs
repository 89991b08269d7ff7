//! One error type for the harness: a test prints it and a person must see what to do next.

use std::fmt::Display;
use std::time::Duration;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} is missing; remedy: {remedy}")]
    Missing { what: String, remedy: String },

    #[error("{what}: not within {within:?}; last seen: {last}")]
    Timeout { what: String, within: Duration, last: String },

    #[error("{what} ended with code {code}; its log ends:\n{tail}")]
    Exited { what: String, code: i32, tail: String },

    /// `code` is ClickHouse's own number, when the answer carried one.
    #[error("member {member}: HTTP {status}, code {code:?}: {message}")]
    Sql { member: usize, status: u16, code: Option<i32>, message: String },

    #[error("{context}: {message}")]
    Other { context: String, message: String },
}

impl Error {
    pub fn other(context: impl Into<String>, message: impl Display) -> Self {
        Self::Other { context: context.into(), message: message.to_string() }
    }

    /// True when asking again cannot help: polling stops at once.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::Exited { .. })
    }
}

/// Adds what was being done to an error of any kind.
pub trait Context<T> {
    fn context(self, context: impl Into<String>) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::other(context, e))
    }
}

impl<T> Context<T> for Option<T> {
    fn context(self, context: impl Into<String>) -> Result<T> {
        self.ok_or_else(|| Error::other(context, "nothing there"))
    }
}
