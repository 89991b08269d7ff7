//! The adapters against the embedded engines: every statement that they send, on both supported server lines.
//! Needs `tools/setup`; what is missing fails with its remedy.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests as well

#[path = "../clickhouse_support/mod.rs"]
mod clickhouse_support;

mod authority;
mod catalog;
mod contract;
mod failures;
mod publish;

use clickhouse_support::live_spec;
use publication_e2e::cluster::{ClickHouseCluster, Lane};
use publication_e2e::workdir::WorkDir;
use publication_e2e::zookeeper::ZooKeeper;
use publication_operator::clickhouse::{Clock, Connection, ConnectionSpec};
use publication_protocol::authority::{MutationAnswer, MutationOutcome, Now};
use publication_protocol::canonical::Digest;
use publication_protocol::identity::{Action, CorrelationToken, Random, ServerUuid};
use publication_protocol::record::RawRow;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONTROL: &str = "control";
const WITHIN: Duration = Duration::from_secs(60);

struct Live {
    cluster: ClickHouseCluster,
    zookeeper: ZooKeeper,
    _work: WorkDir,
}

impl Live {
    async fn start(name: &str, lane: Lane) -> Self {
        let work = WorkDir::new(name).unwrap();
        let zookeeper = ZooKeeper::start(&work.subdir("zookeeper").unwrap()).await.unwrap();
        let cluster = ClickHouseCluster::start(2, lane, zookeeper.address(), work.path()).await.unwrap();
        cluster.create_database(CONTROL).await.unwrap();
        Self { cluster, zookeeper, _work: work }
    }

    fn spec(&self) -> ConnectionSpec {
        live_spec(&self.cluster, CONTROL)
    }

    fn connection(&self) -> Arc<Connection> {
        Arc::new(Connection::new(self.spec()).unwrap())
    }

    fn servers(&self) -> Vec<ServerUuid> {
        let members = self.cluster.members.iter();
        members.map(|m| ServerUuid::parse(&m.spec.server_uuid.to_string()).unwrap()).collect()
    }
}

fn clock() -> Clock {
    let started = Instant::now();
    Arc::new(move || {
        let ms = u64::try_from(started.elapsed().as_millis()).unwrap();
        Now { boot_ms: ms, wall_ms: ms }
    })
}

fn random(seed: u8) -> Random {
    Random([seed; 32])
}

fn token(seed: u8, action: Action) -> CorrelationToken {
    CorrelationToken::draw(Digest::of_bytes(b"operation"), action, 0, &random(seed))
}

fn row(key: &str, phase: &str, epoch: u64, payload: &str) -> RawRow {
    RawRow {
        target_key: key.to_owned(),
        operation_id: Digest::of_bytes(b"operation").to_string(),
        fence_token: "f".repeat(32),
        phase: phase.to_owned(),
        dispatch_epoch: epoch,
        ..clickhouse_support::raw_row(payload)
    }
}

fn one(outcome: MutationOutcome) -> MutationAnswer {
    MutationAnswer { outcome, transport_calls: 1 }
}

async fn contract(name: &str, lane: Lane) {
    let run = async {
        let mut live = Live::start(name, lane).await;
        authority::bootstrap_and_probe(&live).await;
        authority::compare_and_swap(&live).await;
        contract::catalog_schemas(&live).await;
        contract::query_texts(&live).await;
        contract::tokens(&live).await;
        contract::errors(&live).await;
        catalog::members(&live).await;
        failures::wrong_password(&live).await;
        failures::wrong_servers(&live).await;
        catalog::hidden_is_not_absent(&live).await;
        catalog::running_statements(&live).await;
        for target in ["orders", "a`b", "a\\b", "qry_1.cus", "таблица"] {
            publish::publish(&live, target, true).await;
        }
        publish::publish(&live, "first", false).await;
        failures::a_member_is_gone(&mut live).await;
        failures::a_member_stands_still(&mut live).await;
        failures::keeper_is_gone(&mut live).await;
    };
    tokio::time::timeout(WITHIN * 4, run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_on_26_9() {
    contract("ch-26-9", Lane::V26_9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn contract_on_24_8() {
    contract("ch-24-8", Lane::V24_8).await;
}
