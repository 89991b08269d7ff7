//! C-4: whatever a server or a network does, one mutation is one connection and one request, and its answer is
//! called what it is; a read is bounded; and nothing secret is shown.

#![allow(clippy::unwrap_used, clippy::panic)] // the whole target is tests

#[path = "../clickhouse_support/mod.rs"]
mod clickhouse_support;

mod answers;
mod reads;
mod secrets;

use clickhouse_support::{connection, raw_row, server_uuid};
use publication_operator::clickhouse::{BootstrapOutcome, Clock, DistributedDdl};
use publication_protocol::authority::{Mutation, Now};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, CorrelationToken, Random, RootId};
use std::sync::Arc;

const SECRET_VALUE: &str = "value-that-must-not-be-shown";
const LOST: &str = "Code: 999. DB::Exception: Coordination error: Connection loss. (KEEPER_EXCEPTION)\n";

fn insert() -> Mutation {
    Mutation::Insert(raw_row(&format!("{{\"a\":\"{SECRET_VALUE}\"}}")))
}

fn clock() -> Clock {
    Arc::new(|| Now { boot_ms: 0, wall_ms: 0 })
}

fn token() -> CorrelationToken {
    CorrelationToken::draw(Digest::of_bytes(b"o"), Action::Bootstrap, 0, &Random([3; 32]))
}

async fn bootstrap(port: u16) -> BootstrapOutcome {
    let ddl = DistributedDdl::new(connection(port), clock());
    ddl.bootstrap(&server_uuid(), RootId::draw(&Random([1; 32])), &token()).await
}
