//! Carrying one request to the member and its answer back, with the fault in between.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, LOCATION, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};

use super::log::{Entry, Outcome};
use super::rules::{Fault, Installed};
use crate::error::{Context, Error, Result};

/// What the client gets: an answer, or (`Err`) the end of its connection without a byte.
pub(super) type Answer = Result<Response<Answering>>;

pub(super) async fn carry(
    upstream: SocketAddr,
    request: Request<Bytes>,
    struck: Option<(Installed, Fault)>,
    entry: Entry,
) -> Answer {
    let Some((rule, fault)) = struck else {
        return Ok(answered(&entry, forward(upstream, request, &entry).await?));
    };
    match fault {
        Fault::CutBeforeSend => {
            entry.outcome(Outcome::NotForwarded);
            rule.reach();
            Err(Error::other("fault", "cut before it was sent"))
        }
        Fault::Status(code) => {
            entry.outcome(Outcome::NotForwarded);
            rule.reach();
            replaced(code)
        }
        Fault::Redirect(place) => {
            entry.outcome(Outcome::NotForwarded);
            rule.reach();
            let mut answer = replaced(StatusCode::TEMPORARY_REDIRECT.as_u16())?;
            answer.headers_mut().insert(LOCATION, place.parse().context("redirect")?);
            Ok(answer)
        }
        Fault::HoldRequest => {
            rule.reach();
            rule.held().await;
            Ok(answered(&entry, forward(upstream, request, &entry).await?))
        }
        Fault::HoldAnswer => {
            let answer = forward(upstream, request, &entry).await?;
            rule.reach();
            rule.held().await;
            Ok(answered(&entry, answer))
        }
        Fault::SendTwice => {
            forward(upstream, request.clone(), &entry).await?;
            let answer = forward(upstream, request, &entry).await?;
            rule.reach();
            Ok(answered(&entry, answer))
        }
        Fault::DropAnswer => {
            withheld(&entry, &forward(upstream, request, &entry).await?);
            rule.reach();
            Err(Error::other("fault", "answer dropped"))
        }
        Fault::StatusAfterEffect(code) => {
            withheld(&entry, &forward(upstream, request, &entry).await?);
            rule.reach();
            replaced(code)
        }
        Fault::TruncateBody => {
            let answer = forward(upstream, request, &entry).await?;
            withheld(&entry, &answer);
            rule.reach();
            Ok(answer.map(|body| Answering::half(&body)))
        }
    }
}

async fn forward(upstream: SocketAddr, request: Request<Bytes>, entry: &Entry) -> Result<Response<Bytes>> {
    entry.forwarded();
    let mut sent = request;
    end_to_end(sent.headers_mut());
    match crate::http::send(upstream, sent).await {
        Ok(mut answer) => {
            end_to_end(answer.headers_mut());
            Ok(answer)
        }
        Err(e) => {
            entry.outcome(Outcome::UpstreamFailed(e.to_string()));
            Err(e)
        }
    }
}

/// Framing belongs to each hop; all else goes through untouched.
fn end_to_end(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONTENT_LENGTH);
}

fn answered(entry: &Entry, answer: Response<Bytes>) -> Response<Answering> {
    entry.outcome(Outcome::Answered { status: answer.status().as_u16(), bytes: answer.body().len() });
    answer.map(Answering::whole)
}

fn withheld(entry: &Entry, answer: &Response<Bytes>) {
    entry.outcome(Outcome::Withheld { status: answer.status().as_u16() });
}

fn replaced(code: u16) -> Answer {
    let status = StatusCode::from_u16(code).context("status of a rule")?;
    let mut answer = Response::new(Answering::whole(Bytes::from_static(b"from the fault proxy\n")));
    *answer.status_mut() = status;
    Ok(answer)
}

/// A body that may promise more than it gives.
#[derive(Debug)]
pub struct Answering {
    data: Option<Bytes>,
    promised: u64,
    end: End,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    /// One poll later, so that head and first half are flushed before the connection ends.
    BreakNext,
    BreakNow,
}

impl Answering {
    fn whole(data: Bytes) -> Self {
        Self { promised: data.len() as u64, data: Some(data), end: End::Whole }
    }

    /// An empty body is cut too: one byte is promised and none comes.
    fn half(data: &Bytes) -> Self {
        let promised = data.len().max(1) as u64;
        Self { promised, data: Some(data.slice(..data.len() / 2)), end: End::BreakNext }
    }
}

impl Body for Answering {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(data) = self.data.take().filter(|d| !d.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match self.end {
            End::Whole => Poll::Ready(None),
            End::BreakNext => {
                self.end = End::BreakNow;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            End::BreakNow => Poll::Ready(Some(Err(std::io::Error::other("body truncated by rule")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Whole && self.data.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.promised)
    }
}
