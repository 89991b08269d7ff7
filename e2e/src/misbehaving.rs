//! What may stand at an endpoint instead of one ClickHouse server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::error::{Context, Result};

/// How it answers a request.
#[derive(Debug, Clone)]
pub enum Manner {
    /// With these bytes, and then the connection ends.
    Says(Vec<u8>),
    /// Never.
    Hangs,
    /// A load balancer: each connection goes to the next of these servers.
    Balances(Vec<SocketAddr>),
}

impl Manner {
    /// The page of some web server, where a read expects rows.
    pub fn page() -> Self {
        let page = "<html><body>It works!</body></html>\n";
        Self::Says(
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                page.len()
            )
            .into_bytes(),
        )
    }

    /// No HTTP at all.
    pub fn noise() -> Self {
        Self::Says(b"\x00\xff\x16SSH-2.0-nothing\r\n\r\n".to_vec())
    }

    /// A head that promises more than comes.
    pub fn closes_in_the_body() -> Self {
        Self::Says(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n\x02\x06server".to_vec())
    }

    /// Sends the client to another place.
    pub fn redirects(to: &str) -> Self {
        let head = "HTTP/1.1 308 Permanent Redirect\r\nContent-Length: 0\r\n";
        Self::Says(format!("{head}Location: {to}/\r\n\r\n").into_bytes())
    }
}

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Misbehaving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Misbehaving {
    pub async fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("misbehaving server")?;
        let address = listener.local_addr().context("misbehaving server")?;
        let task = tokio::spawn(async move {
            let (manner, turn) = (Arc::new(manner), Arc::new(AtomicUsize::new(0)));
            // Dropped with the task: no connection outlives the server.
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                serving.spawn(serve(stream, Arc::clone(&manner), Arc::clone(&turn)));
            }
        });
        Ok(Self { address, task })
    }

    /// Host and port, as the operator names it.
    pub fn label(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What goes wrong here is what the client is to see.
async fn serve(mut stream: TcpStream, manner: Arc<Manner>, turn: Arc<AtomicUsize>) -> Option<()> {
    match manner.as_ref() {
        Manner::Balances(servers) => {
            let next = servers.get(turn.fetch_add(1, Ordering::SeqCst) % servers.len().max(1))?;
            let mut upstream = TcpStream::connect(next).await.ok()?;
            copy_bidirectional(&mut stream, &mut upstream).await.ok().map(|_| ())
        }
        Manner::Hangs => {
            stream.read_to_end(&mut Vec::new()).await.ok()?;
            None
        }
        Manner::Says(bytes) => {
            request(&mut stream).await?;
            stream.write_all(bytes).await.ok()?;
            stream.shutdown().await.ok()
        }
    }
}

/// One request, head and body: an answer before its end would reset the connection.
async fn request(stream: &mut TcpStream) -> Option<()> {
    const LENGTH: &str = "content-length: ";
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix(LENGTH)?.trim().parse().ok());
    stream.read_exact(&mut vec![0; length.unwrap_or(0)]).await.ok().map(|_| ())
}
