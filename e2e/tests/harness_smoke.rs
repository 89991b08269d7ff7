//! The test bed itself, with its real services. A missing one fails these tests.

#![allow(clippy::unwrap_used)] // helpers of tests are tests as well

use std::path::PathBuf;
use std::time::Duration;

use publication_e2e::cluster::{ClickHouseCluster, Lane, MemberSpec, PUBLISHER, query};
use publication_e2e::ddl::count_kind;
use publication_e2e::evidence::Slot;
use publication_e2e::kubernetes::{ControlPlane, Kind};
use publication_e2e::leash::Launch;
use publication_e2e::manifests::Publication;
use publication_e2e::operator::OperatorLaunch;
use publication_e2e::poll::{Seen, eventually};
use publication_e2e::workdir::WorkDir;
use publication_e2e::zookeeper::ZooKeeper;
use publication_e2e::{Environment, Options};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_leashed_process_is_stopped_continued_and_killed() {
    let work = WorkDir::new("leash").unwrap();
    let sleep = || Launch::new("sleep", "sleep", work.join("sleep.log")).arg("600");
    let mut process = sleep().start().await.unwrap();
    assert!(process.is_running());
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    process.stop().unwrap();
    eventually(SOON, "stopped", || async { Ok(Seen::when(state(process.pid()) == 'T', "running")) })
        .await
        .unwrap();
    process.cont().unwrap();
    process.kill9().await.unwrap();
    assert_eq!(process.exit_code().unwrap(), Some(128 + 9));
    assert!(process.term().is_err());

    let process = sleep().start().await.unwrap();
    let stat = PathBuf::from(format!("/proc/{}", process.pid()));
    assert!(stat.exists());
    drop(process);
    assert!(!stat.exists());
    assert!(Launch::new("nothing", "/nonexistent", work.join("nothing.log")).start().await.is_err());
}

/// What `Operator` expects of a program, in a few lines.
const STUB: &str = r#"#!/usr/bin/env python3
import os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()
        self.wfile.write(os.environ["KUBECONFIG"].encode())
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
assert sys.argv[1:3] == ["run", "--listen"] and sys.argv[4:] == ["--more"], sys.argv
host, port = sys.argv[3].split(":")
HTTPServer((host, int(port)), Ready).serve_forever()
"#;

#[tokio::test]
async fn an_operator_is_started_ended_and_restarted() {
    use std::os::unix::fs::PermissionsExt;

    let work = WorkDir::new("operator").unwrap();
    let program = work.write("stub", STUB).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut launch = OperatorLaunch::new("operator-0", work.join("kubeconfig")).arg("--more");
    launch.program = Some(program);
    let mut operator = launch.clone().start(work.path()).await.unwrap();
    let port = operator.address();
    assert_eq!(operator.terminate(SOON).await.unwrap(), 7);
    operator.restart().await.unwrap();
    assert_eq!(operator.address(), port);
    operator.kill9().await.unwrap();
    assert!(!operator.process().is_running());
    operator.restart().await.unwrap();

    launch.args.clear();
    launch.name = "operator-1".to_owned();
    let refused = launch.start(work.path()).await.unwrap_err();
    assert!(refused.to_string().contains("AssertionError"), "{refused}");
}

async fn cluster_works(lane: Lane) {
    let work = WorkDir::new("smoke").unwrap();
    let zookeeper = ZooKeeper::start(&work.subdir("zookeeper").unwrap()).await.unwrap();
    let mut cluster = ClickHouseCluster::start(2, lane, zookeeper.address(), work.path()).await.unwrap();
    cluster.table_with_rows("shop", "orders", 10, 0).await.unwrap();
    cluster.table_with_rows("shop", "orders__pub_1", 12, 100).await.unwrap();
    assert_eq!(cluster.counts("shop", "orders").await.unwrap(), [10, 10]);

    let names = ["orders", "orders__pub_1"];
    let before = cluster.uuid_map("shop", &names).await.unwrap();
    assert_eq!(before[0], before[1]);
    assert_eq!(before[0].len(), 2);
    cluster.sql(1, "EXCHANGE TABLES shop.orders AND shop.orders__pub_1 ON CLUSTER main").await.unwrap();
    assert_eq!(cluster.counts("shop", "orders").await.unwrap(), [12, 12]);
    let now = cluster.generation(0, "shop", "orders").await.unwrap();
    assert_eq!(now, before[0].get("orders__pub_1").copied());

    let entries = zookeeper.keeper().ddl_entries().await.unwrap();
    assert_eq!(count_kind(&entries, "EXCHANGE", Some("shop.orders")), 1);
    assert_eq!(count_kind(&entries, "CREATE", Some("shop.orders")), 1);
    let exchange = entries.iter().find(|e| e.kind() == "EXCHANGE").unwrap();
    assert!(exchange.is_terminal_everywhere(), "{exchange:?}");
    let mut hosts: Vec<String> = cluster.spec.members.iter().map(MemberSpec::ddl_host_id).collect();
    hosts.sort();
    assert_eq!(exchange.finished.keys().cloned().collect::<Vec<_>>(), hosts);

    cluster.sql(0, "CREATE DATABASE control ON CLUSTER main ENGINE = Atomic").await.unwrap();
    let map = "CREATE TABLE control.slots ON CLUSTER main (target_key String, operation_id String, \
               fence_token String, phase String, dispatch_epoch UInt64, payload String, \
               payload_sha256 FixedString(64)) ENGINE = KeeperMap('/publication/abc') PRIMARY KEY target_key";
    cluster.sql(0, map).await.unwrap();
    let insert = "INSERT INTO control.slots VALUES ('key-1', 'op', 'fence', 'PREPARED', 7, '{\"a\":1}', \
                  repeat('f', 64))";
    cluster.sql(1, insert).await.unwrap();
    let update = "ALTER TABLE control.slots UPDATE phase = 'DISPATCHING' WHERE target_key = 'key-1'";
    cluster.sql(1, update).await.unwrap();
    let keeper = zookeeper.keeper();
    assert_eq!(keeper.keeper_map_roots().await.unwrap(), ["/publication/abc"]);
    let rows = keeper.keeper_map_rows("/publication/abc").await.unwrap();
    assert_eq!(rows.len(), 1);
    let slot = Slot::decode(&rows[0]).unwrap();
    assert_eq!((slot.target_key.as_str(), slot.operation_id.as_str(), slot.version), ("key-1", "op", 1));
    assert_eq!((slot.phase.as_str(), slot.dispatch_epoch), ("DISPATCHING", 7));
    assert_eq!((&slot.payload["a"], slot.payload_sha256.len()), (&1.into(), 64));

    cluster.kill9(1).await.unwrap();
    assert!(cluster.sql(1, "SELECT 1").await.is_err());
    cluster.restart(1).await.unwrap();
    assert_eq!(cluster.counts("shop", "orders").await.unwrap(), [12, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_replicate_ddl_and_leave_evidence() {
    cluster_works(Lane::V26_9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_engine_does_the_same() {
    cluster_works(Lane::V24_8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_has_it_all_but_the_operator() {
    let options = Options { name: "environment".to_owned(), members: 3, ..Options::default() };
    let environment = Environment::start(options).await.unwrap();
    environment.apply_platform().await.unwrap();
    environment.namespace("shop").await.unwrap();
    environment.publish(&Publication::new("shop", "one", "shop", "orders", 1)).await.unwrap();
    let stored = environment.publication("shop", "one").await.unwrap();
    assert_eq!(stored["spec"]["candidate"], "orders__pub_1");

    // The operator's way to a member: through its proxy, with the Secret's credentials.
    let credentials = (PUBLISHER, environment.cluster.publisher_password());
    for proxy in &environment.proxies {
        let version = query(proxy.member(), proxy.address(), credentials, "SELECT version()", &[]).await;
        assert!(version.unwrap().starts_with("26.9"));
        let wrong = query(proxy.member(), proxy.address(), (PUBLISHER, "no"), "SELECT 1", &[]).await;
        assert!(matches!(wrong, Err(publication_e2e::Error::Sql { code: Some(516), .. })), "{wrong:?}");
    }
    assert_eq!(environment.records().len(), 6);
    environment.clear_faults().await.unwrap();
    assert!(environment.records().is_empty());

    // The operator's ServiceAccount sees publications, and no Secret lists.
    let kubeconfig = format!("--kubeconfig={}", environment.operator_kubeconfig.display());
    let may = |verb: &'static str, what: &'static str| {
        let args = [kubeconfig.clone(), "auth".into(), "can-i".into(), verb.into(), what.into(), "-A".into()];
        environment.control_plane.kubectl(args)
    };
    assert_eq!(may("list", "clusterpublications").await.unwrap().trim(), "yes");
    assert!(may("list", "secrets").await.is_err());
    let gone = environment.control_plane.object(Kind::Publication, "shop", "two").await.unwrap();
    assert_eq!(gone, None);
    environment.control_plane.delete(Kind::Publication, "shop", "one").await.unwrap();
    environment.control_plane.wait_gone(Kind::Publication, "shop", "one", SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keeper_survives_a_kill() {
    let work = WorkDir::new("keeper").unwrap();
    let mut zookeeper = ZooKeeper::start(work.path()).await.unwrap();
    assert_eq!(zookeeper.keeper().ddl_entries().await.unwrap(), []);
    zookeeper.kill9().await.unwrap();
    zookeeper.restart().await.unwrap();
    assert_eq!(zookeeper.keeper().ddl_entries().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_plane_serves_kubectl_and_tokens() {
    let work = WorkDir::new("kubernetes").unwrap();
    let control_plane = ControlPlane::start(work.path()).await.unwrap();
    assert!(control_plane.kubectl(["version"]).await.unwrap().contains("Server Version: v1."));
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: reader, namespace: default}\n";
    control_plane.apply_yaml(account).await.unwrap();
    let token = control_plane.service_account_token("default", "reader").await.unwrap();
    let kubeconfig = control_plane.kubeconfig_for_token("reader", &token).unwrap();
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let whoami = control_plane.kubectl([kubeconfig.as_str(), "auth", "whoami"]).await.unwrap();
    assert!(whoami.contains("system:serviceaccount:default:reader"), "{whoami}");
    let refused = control_plane.kubectl([kubeconfig.as_str(), "get", "secrets"]).await.unwrap_err();
    assert!(refused.to_string().contains("Forbidden"), "{refused}");
    let calls = control_plane.api_calls().unwrap();
    let mine = calls.iter().find(|c| c.user == "system:serviceaccount:default:reader").unwrap();
    assert_eq!((mine.verb.as_str(), mine.resource.as_str(), mine.code), ("list", "secrets", 403));

    // The namespace controller runs: a deleted namespace goes.
    control_plane.kubectl(["create", "namespace", "gone"]).await.unwrap();
    control_plane.kubectl(["delete", "namespace", "gone", "--timeout=30s"]).await.unwrap();
}
