//! The connection of one call, made and watched here: the `clickhouse` crate's HTTP client is sealed, its connector
//! is not.
//!
//! A [`Wire`] belongs to one call. It allows one connection, counts what is written to it, asks a gate right before
//! the first byte, and can be sealed: after that no byte leaves, whatever the client's background task still does.

use super::meter::RequestMeter;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

/// Asked right before the first byte; `false` closes the wire with nothing written.
pub(super) type Gate = Box<dyn FnOnce() -> bool + Send>;

/// Watches one call.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<State>>);

struct State {
    connects: u32,
    meter: RequestMeter,
    written: u64,
    answer_bytes_left: u64,
    gate: Option<Gate>,
    sealed: bool,
}

/// What a call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Connections asked for.
    pub(super) connects: u32,
    /// Requests begun.
    pub(super) requests: u32,
    /// Bytes that the connection took.
    pub(super) written: u64,
}

impl Wire {
    /// A wire for one call whose answer may have `answer_bytes_max` bytes, head included.
    pub(super) fn new(answer_bytes_max: u64, gate: Option<Gate>) -> Self {
        Self(Arc::new(Mutex::new(State {
            connects: 0,
            meter: RequestMeter::default(),
            written: 0,
            answer_bytes_left: answer_bytes_max,
            gate,
            sealed: false,
        })))
    }

    /// Ends writing for good and says what was written. What is returned can no longer change, connects excepted.
    pub(super) fn seal(&self) -> Traffic {
        let mut state = self.lock();
        state.sealed = true;
        Traffic { connects: state.connects, requests: state.meter.requests(), written: state.written }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is one whose holder panicked; its counts are still the ones that were reached.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether bytes may leave now.
    fn open(&mut self) -> io::Result<()> {
        if let Some(gate) = self.gate.take() {
            self.sealed = self.sealed || !gate();
        }
        if self.sealed { Err(io::Error::other("sealed")) } else { Ok(()) }
    }
}

/// Makes the one connection of a wire.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) inner: HttpsConnector<HttpConnector>,
    /// For name look-up, TCP and TLS together.
    pub(super) timeout: Duration,
    pub(super) wire: Wire,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<http::Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connects = {
            let mut state = self.wire.lock();
            state.connects = state.connects.saturating_add(1);
            state.connects
        };
        if connects > 1 {
            return Box::pin(async { Err(BoxError::from("one connection only")) });
        }
        let (connecting, wire, timeout) = (self.inner.call(uri), self.wire.clone(), self.timeout);
        Box::pin(async move {
            let inner = tokio::time::timeout(timeout, connecting).await??;
            Ok(Stream { inner, wire })
        })
    }
}

/// The connection.
pub(super) struct Stream {
    inner: MaybeHttpsStream<TokioIo<TcpStream>>,
    wire: Wire,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

const CHUNK_BYTES: usize = 16 * 1024;

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // Through a buffer of our own: a cursor that is handed on does not tell how much was read.
        let mut bytes = [0_u8; CHUNK_BYTES];
        let room = into.remaining().min(CHUNK_BYTES);
        let mut chunk = ReadBuf::new(&mut bytes[..room]);
        std::task::ready!(Pin::new(&mut self.inner).poll_read(cx, chunk.unfilled()))?;
        let read = chunk.filled();
        let mut state = self.wire.lock();
        let left = state.answer_bytes_left.checked_sub(read.len() as u64);
        state.answer_bytes_left = left.ok_or_else(|| io::Error::other("the answer is too long"))?;
        into.put_slice(read);
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // The lock is held while writing: sealing cannot fall between the check and the write.
        let wire = self.wire.clone();
        let mut state = wire.lock();
        state.open()?;
        let written = std::task::ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        state.written += written as u64;
        state.meter.feed(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
