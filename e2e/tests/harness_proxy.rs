//! Each fault of the proxy against a trivial upstream that counts what reaches it. Needs no service.

#![allow(clippy::unwrap_used)] // helpers of tests are tests as well

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use publication_e2e::http::send;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::proxy::{Door, Fault, FaultProxy, Outcome, Rule, StatementKind, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(10);

/// Answers `effect N: <body>` to the Nth request.
struct Upstream {
    address: SocketAddr,
    effects: Arc<AtomicUsize>,
}

impl Upstream {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let effects = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&effects);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let counter = Arc::clone(&counter);
                    async move {
                        let seen = request.headers().get("x-seen").cloned();
                        let body = request.into_body().collect().await?.to_bytes();
                        let n = counter.fetch_add(1, Ordering::SeqCst) + 1;
                        let text = format!("effect {n}: {}", String::from_utf8_lossy(&body));
                        let mut answer = Response::new(Full::new(Bytes::from(text)));
                        if let Some(seen) = seen {
                            answer.headers_mut().insert("x-seen", seen);
                        }
                        Ok::<_, hyper::Error>(answer)
                    }
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, effects }
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

async fn pair() -> (Upstream, FaultProxy) {
    let upstream = Upstream::start().await;
    let proxy = FaultProxy::start(3, upstream.address).await.unwrap();
    (upstream, proxy)
}

async fn ask(proxy: &FaultProxy, id: &str, sql: &str) -> publication_e2e::Result<(u16, String)> {
    let request = Request::post(format!("/?query_id={id}&log_comment=token-{id}&password=secret"))
        .header("x-seen", "yes")
        .body(Bytes::from(sql.to_owned()))
        .unwrap();
    let answer = send(proxy.address(), request).await?;
    Ok((answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned()))
}

/// Every byte the proxy sends to one raw request.
async fn raw(proxy: &FaultProxy, sql: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
    let text = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{sql}", sql.len());
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut got).await;
    got
}

#[tokio::test]
async fn without_a_rule_all_goes_through_once_and_is_logged() {
    let (upstream, proxy) = pair().await;
    let request =
        Request::post("/?query_id=q1").header("x-seen", "yes").body(Bytes::from("SELECT 1")).unwrap();
    let answer = send(proxy.address(), request).await.unwrap();
    assert_eq!(answer.headers()["x-seen"], "yes");
    assert_eq!(answer.body(), "effect 1: SELECT 1");
    ask(&proxy, "q2", "/* c */ ALTER TABLE p.control UPDATE phase = 'x' WHERE 1").await.unwrap();
    ask(&proxy, "q2", "-- c\n ALTER TABLE p.control UPDATE phase = 'x' WHERE 1").await.unwrap();
    assert_eq!(upstream.effects(), 3);
    let counts = proxy.log().counts();
    assert_eq!(counts[&("q1".to_owned(), StatementKind::Select)], 1);
    assert_eq!(counts[&("q2".to_owned(), StatementKind::Update)], 2);
    let records = proxy.records();
    assert_eq!(records.len(), 3);
    assert_eq!((records[0].member, records[0].connection, records[2].connection), (3, 1, 3));
    assert_eq!(records[1].statement.params["log_comment"], "token-q2");
    assert!(!format!("{records:?}").contains("secret"));
    assert!(matches!(records[0].outcome, Outcome::Answered { status: 200, .. }));
}

#[tokio::test]
async fn a_dropped_answer_took_effect_and_left_no_byte() {
    let (upstream, proxy) = pair().await;
    let rule = proxy.rule(Rule::new(Fault::DropAnswer).kind(StatementKind::Exchange));
    ask(&proxy, "a", "SELECT 1").await.unwrap();
    let got = raw(&proxy, "EXCHANGE TABLES a AND b ON CLUSTER c").await;
    assert_eq!(got, b"");
    assert_eq!((upstream.effects(), rule.hits()), (2, 1));
    assert!(matches!(proxy.records()[1].outcome, Outcome::Withheld { status: 200 }));
    // One shot.
    ask(&proxy, "b", "EXCHANGE TABLES a AND b ON CLUSTER c").await.unwrap();
    assert_eq!(upstream.effects(), 3);
}

#[tokio::test]
async fn a_cut_request_took_no_effect() {
    let (upstream, proxy) = pair().await;
    proxy.rule(Rule::new(Fault::CutBeforeSend).containing("token-x").nth(2).lasting());
    ask(&proxy, "x", "INSERT INTO t VALUES (1)").await.unwrap();
    for _ in 0..2 {
        ask(&proxy, "x", "INSERT INTO t VALUES (1)").await.unwrap_err();
    }
    ask(&proxy, "y", "INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!(upstream.effects(), 2);
    assert_eq!(proxy.records()[1].outcome, Outcome::NotForwarded);
    assert_eq!(proxy.records()[1].forwarded, 0);
    assert_eq!(raw(&proxy, "token-x").await, b"");
}

#[tokio::test]
async fn a_shared_rule_counts_over_all_proxies() {
    let (upstream, first) = pair().await;
    let second = FaultProxy::start(4, upstream.address).await.unwrap();
    let rule = first.rule(Rule::new(Fault::CutBeforeSend).mutations().nth(2));
    second.share(&rule);
    ask(&second, "a", "INSERT INTO t VALUES (1)").await.unwrap();
    ask(&second, "b", "SELECT 1").await.unwrap();
    ask(&first, "c", "INSERT INTO t VALUES (1)").await.unwrap_err();
    ask(&second, "d", "INSERT INTO t VALUES (1)").await.unwrap();
    assert_eq!((rule.hits(), upstream.effects()), (1, 3));
    assert!(first.records()[0].sequence > second.records()[1].sequence);
}

#[tokio::test]
async fn a_held_request_goes_on_release_even_when_the_client_left() {
    let (upstream, proxy) = pair().await;
    let rule = proxy.rule(Rule::new(Fault::HoldRequest).mutations().times(2));
    let proxy = Arc::new(proxy);
    let client = |sql: &'static str| {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move { ask(&proxy, "a", sql).await })
    };
    let (stays, leaves) = (client("DROP TABLE t"), client("DROP TABLE u"));
    rule.reached(2, SOON).await.unwrap();
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    assert_eq!(upstream.effects(), 0);
    rule.release();
    assert_eq!(stays.await.unwrap().unwrap().0, 200);
    eventually(SOON, "both took effect", || async {
        Ok(Seen::when(upstream.effects() == 2, upstream.effects()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_held_answer_took_effect_before_the_release() {
    let (upstream, proxy) = pair().await;
    let rule = proxy.rule(Rule::new(Fault::HoldAnswer));
    let (answer, ()) = tokio::join!(ask(&proxy, "a", "SELECT 1"), async {
        rule.reached(1, SOON).await.unwrap();
        assert_eq!(upstream.effects(), 1);
        proxy.clear_rules();
    });
    assert_eq!(answer.unwrap().1, "effect 1: SELECT 1");
}

#[tokio::test]
async fn a_truncated_body_ends_in_the_middle() {
    let (upstream, proxy) = pair().await;
    proxy.rule(Rule::new(Fault::TruncateBody));
    let got = String::from_utf8(raw(&proxy, "SELECT 12345").await).unwrap();
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    assert!(got.to_lowercase().contains("content-length: 22\r\n"), "{got}");
    assert!(got.ends_with("\r\n\r\neffect 1: S"), "{got}");
    proxy.rule(Rule::new(Fault::TruncateBody));
    ask(&proxy, "a", "SELECT 1").await.unwrap_err();
    assert_eq!(upstream.effects(), 2);
}

#[tokio::test]
async fn sent_twice_takes_effect_twice() {
    let (upstream, proxy) = pair().await;
    proxy.rule(Rule::new(Fault::SendTwice));
    assert_eq!(ask(&proxy, "a", "SELECT 1").await.unwrap().1, "effect 2: SELECT 1");
    assert_eq!((upstream.effects(), proxy.records()[0].forwarded), (2, 2));
}

#[tokio::test]
async fn answers_of_the_proxys_own() {
    let (upstream, proxy) = pair().await;
    proxy.rule(Rule::new(Fault::Status(503)));
    assert_eq!(ask(&proxy, "a", "SELECT 1").await.unwrap().0, 503);
    proxy.rule(Rule::new(Fault::Redirect("http://127.0.0.1:1/".to_owned())));
    assert_eq!(ask(&proxy, "a", "SELECT 1").await.unwrap().0, 307);
    assert_eq!(upstream.effects(), 0);
    proxy.rule(Rule::new(Fault::StatusAfterEffect(502)));
    assert_eq!(ask(&proxy, "a", "SELECT 1").await.unwrap().0, 502);
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn doors_refuse_or_slam_and_open_again() {
    let (upstream, proxy) = pair().await;
    proxy.door(Door::Closed).await.unwrap();
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    proxy.door(Door::Slammed).await.unwrap();
    ask(&proxy, "a", "SELECT 1").await.unwrap_err();
    assert_eq!(upstream.effects(), 0);
    proxy.door(Door::Open).await.unwrap();
    ask(&proxy, "a", "SELECT 1").await.unwrap();
    assert_eq!(upstream.effects(), 1);
}

#[tokio::test]
async fn a_dead_upstream_ends_the_connection() {
    let gone = publication_e2e::ports::free().unwrap();
    let proxy = FaultProxy::start(0, publication_e2e::ports::loopback(gone)).await.unwrap();
    assert_eq!(raw(&proxy, "SELECT 1").await, b"");
    assert!(matches!(proxy.records()[0].outcome, Outcome::UpstreamFailed(_)));
}

/// A TLS client that trusts `tls`; with or without the client certificate.
async fn tls_ask(
    proxy: &FaultProxy,
    tls: &Tls,
    identified: bool,
) -> Result<String, Box<dyn std::error::Error>> {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(tls.ca.as_bytes())?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = if identified {
        let certificate = CertificateDer::from_pem_slice(tls.client.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(tls.client.key.as_bytes())?;
        config.with_client_auth_cert(vec![certificate], key)?
    } else {
        config.with_no_client_auth()
    };
    let stream = TcpStream::connect(proxy.address()).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(ServerName::try_from("127.0.0.1")?, stream).await?;
    stream.write_all(b"GET /?query=SELECT%201 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
    let mut got = String::new();
    stream.read_to_string(&mut got).await?;
    Ok(got)
}

#[tokio::test]
async fn tls_with_an_own_ca_and_a_client_certificate() {
    let upstream = Upstream::start().await;
    let open = Tls::new(false).unwrap();
    let proxy = FaultProxy::start_tls(0, upstream.address, &open).await.unwrap();
    assert!(proxy.url().starts_with("https://127.0.0.1:"));
    assert!(tls_ask(&proxy, &open, false).await.unwrap().contains("effect 1"));
    assert_eq!(proxy.records()[0].statement.text, "SELECT 1");
    ask(&proxy, "a", "SELECT 1").await.unwrap_err();

    let strict = Tls::new(true).unwrap();
    let proxy = FaultProxy::start_tls(0, upstream.address, &strict).await.unwrap();
    assert!(tls_ask(&proxy, &strict, true).await.unwrap().contains("effect 2"));
    tls_ask(&proxy, &strict, false).await.unwrap_err();
    tls_ask(&proxy, &open, true).await.unwrap_err();
    assert_eq!(upstream.effects(), 2);
}
