//! Free loopback ports below the kernel's ephemeral range, so that no outgoing connection takes one
//! between the choice and the bind.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::error::{Error, Result};

const RANGE: std::ops::Range<u16> = 12_000..32_000;
const TRIES: usize = 500;

static GIVEN: LazyLock<Mutex<BTreeSet<u16>>> = LazyLock::new(Mutex::default);

/// A port that nobody listens on and that this process has not given out before.
pub fn free() -> Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let port = rand::random_range(RANGE);
        if !given.contains(&port) && TcpListener::bind(loopback(port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    Err(Error::other("free port", format!("none found in {RANGE:?}")))
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
