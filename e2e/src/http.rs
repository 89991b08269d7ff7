//! The smallest HTTP client that does what it is told: one connection a request, no replay, no redirect.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::error::{Context, Result};

/// Sends one request and reads the whole answer. `Host` and `Content-Length` are filled in when absent.
pub async fn send(to: SocketAddr, mut request: Request<Bytes>) -> Result<Response<Bytes>> {
    if !request.headers().contains_key(http::header::HOST) {
        let host = http::HeaderValue::from_str(&to.to_string()).context("host header")?;
        request.headers_mut().insert(http::header::HOST, host);
    }
    let stream = TcpStream::connect(to).await.context(format!("connect to {to}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.context(format!("talk to {to}"))?;
    let driver = tokio::spawn(connection);
    let answer = async {
        let response = sender.send_request(request.map(Full::new)).await.context(format!("ask {to}"))?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context(format!("answer of {to}"))?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
    .await;
    driver.abort();
    answer
}

pub async fn get(to: SocketAddr, path: &str) -> Result<(u16, String)> {
    plain(to, "GET", path, String::new()).await
}

/// Method, path and a (JSON) body; status and body as text.
pub async fn plain(to: SocketAddr, method: &str, path: &str, body: String) -> Result<(u16, String)> {
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header(http::header::CONTENT_TYPE, "application/json");
    }
    let request = request.body(Bytes::from(body)).context(format!("{method} {path}"))?;
    let response = send(to, request).await?;
    Ok((response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned()))
}
