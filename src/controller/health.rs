//! `/livez`, `/readyz`, `/metrics`.

use super::metrics::Metrics;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at once: probes and a scraper, not more.
const CONNECTIONS_MAX: usize = 64;
/// A client that says nothing is dropped.
const HEADER_WITHIN: Duration = Duration::from_secs(5);
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus takes no metrics that do not say their format.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Counts the caches that are filled. Not by the stores' own waiting, of which only one waiter is woken.
#[derive(Debug)]
pub(super) struct Readiness {
    missing: AtomicU32,
}

impl Readiness {
    pub(super) fn new(caches: u32) -> Self {
        Self { missing: AtomicU32::new(caches) }
    }

    /// To be called when one cache has its first list; further calls say nothing new.
    pub(super) fn caches(self: &Arc<Self>) -> impl Fn() + Send + 'static {
        let (this, first) = (Arc::clone(self), AtomicBool::new(true));
        move || {
            if first.swap(false, Ordering::SeqCst) {
                this.missing.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.missing.load(Ordering::SeqCst) == 0
    }
}

/// Serves until the process ends.
pub(super) async fn serve(listener: TcpListener, ready: Arc<Readiness>, metrics: Arc<Metrics>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _peer)) = listener.accept().await else {
            // Out of file descriptors, say: trying again at once would only take a core.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (ready, metrics) = (Arc::clone(&ready), Arc::clone(&metrics));
        let answer = service_fn(move |request: Request<Incoming>| {
            let response = respond(request.uri().path(), &ready, &metrics);
            async move { Ok::<_, Infallible>(response) }
        });
        tokio::spawn(async move {
            // A prober that hangs up is no event.
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_WITHIN);
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            drop(place);
        });
    }
}

/// Binds first, so that a taken port is an error at start.
pub(super) async fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(listen).await
}

fn respond(path: &str, ready: &Readiness, metrics: &Metrics) -> Response<String> {
    let (status, format, body) = match path {
        "/livez" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" if ready.is_ready() => (StatusCode::OK, TEXT, "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "caches are not filled yet\n".to_owned()),
        "/metrics" => (StatusCode::OK, OPENMETRICS, metrics.render()),
        _ => (StatusCode::NOT_FOUND, TEXT, "not found\n".to_owned()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_says_what_it_is() {
        let (ready, metrics) = (Readiness::new(1), Metrics::new());
        let answers = ["/livez", "/readyz", "/metrics", "/"].map(|path| {
            let answer = respond(path, &ready, &metrics);
            (answer.status().as_u16(), answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned())
        });
        let wanted = [(200, TEXT), (503, TEXT), (200, OPENMETRICS), (404, TEXT)];
        assert_eq!(answers, wanted.map(|(status, format)| (status, format.to_owned())));
        let body = respond("/metrics", &ready, &metrics).into_body();
        assert!(body.contains("\npublication_halted 0\n") && body.ends_with("# EOF\n"), "{body}");
    }
}
