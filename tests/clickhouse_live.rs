//! The adapters against the embedded engines: every statement that they send, on both supported server lines.
//! Needs `tools/setup`; what is missing fails with its remedy.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests as well

use publication_e2e::cluster::{CLUSTER, ClickHouseCluster, Lane, PUBLISHER};
use publication_e2e::workdir::WorkDir;
use publication_e2e::zookeeper::ZooKeeper;
use publication_operator::clickhouse::probe::{Facade, ServerProbe, probe};
use publication_operator::clickhouse::{
    Authority, BootstrapOutcome, Clock, Connection, ConnectionSpec, DistributedDdl, Endpoint, MemberCatalog,
    MemberProcesses, Timeouts, TlsMaterial,
};
use publication_protocol::authority::{Mutation, MutationAnswer, MutationOutcome, Now, Predicate};
use publication_protocol::canonical::Digest;
use publication_protocol::driver::{End, Memory};
use publication_protocol::generation::{NotAGeneration, TableFact};
use publication_protocol::identity::{
    Action, CorrelationToken, Names, Random, RootId, RowExpectation, ServerUuid, plan_digest,
};
use publication_protocol::intent::Intent;
use publication_protocol::inventory::{Inventory, MemberView};
use publication_protocol::limits::Deadlines;
use publication_protocol::ports::{
    Catalog, ControlTable, Ddl, Environment, MembersAnswer, MembersAsk, Owners, Processes, ReadFailure, Scope,
};
use publication_protocol::publisher::{Ports, pass};
use publication_protocol::queue::{HostResult, QueueView, Sought, host_result, view};
use publication_protocol::record::{Owner, RawRow};
use publication_protocol::sqltext::{Ddl as Kind, Statement, TableName};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
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
        let url = |member: &publication_e2e::cluster::Member| format!("http://{}", member.spec.http());
        let mut timeouts = Timeouts::with_send_deadline(Duration::from_secs(60));
        timeouts.ddl_wait = Duration::from_secs(20);
        ConnectionSpec {
            endpoints: self.cluster.members.iter().map(|m| Endpoint::parse(&url(m)).unwrap()).collect(),
            user: PUBLISHER.to_owned(),
            password: self.cluster.publisher_password().to_owned(),
            tls: TlsMaterial::default(),
            timeouts,
            cluster: CLUSTER.to_owned(),
            control_database: CONTROL.to_owned(),
            known_servers: BTreeMap::new(),
        }
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
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
        payload: payload.to_owned(),
    }
}

fn update(row: &RawRow, version: u64, from: &RawRow) -> Mutation {
    let expected = Predicate {
        version,
        operation_id: from.operation_id.clone(),
        fence_token: from.fence_token.clone(),
        phase: from.phase.clone(),
    };
    Mutation::Update { row: row.clone(), expected }
}

fn one(outcome: MutationOutcome) -> MutationAnswer {
    MutationAnswer { outcome, transport_calls: 1 }
}

// proves: B-4, B-5, B-6
async fn bootstrap_and_probe(live: &Live) {
    let connection = live.connection();
    let root = RootId::draw(&random(7));
    let servers = live.servers();
    let before = probes(&connection).await;
    assert_eq!(before.iter().map(|p| p.server_uuid.clone()).collect::<Vec<_>>(), servers);
    for (member, probe) in live.cluster.members.iter().zip(&before) {
        assert_eq!(probe.tcp_port, member.spec.tcp_port);
        assert_eq!(probe.control_database_engine.as_deref(), Some("Atomic"));
        assert!(probe.ddl_entry_format_version.unwrap() >= 2);
        assert!(probe.facades.is_empty());
        assert_eq!(probe.view.len(), 2);
    }
    // The slot cannot be read before the facade is there, and that is said as such.
    let authority = Authority::new(Arc::clone(&connection));
    let read = authority.read_all("facade").await;
    assert!(read.failures.iter().all(|(_, failure)| *failure == ReadFailure::NoTable), "{read:?}");
    assert_eq!(read.failures.len(), 2);

    let ddl = DistributedDdl::new(Arc::clone(&connection), clock());
    let token = token(1, Action::Bootstrap);
    assert_eq!(ddl.bootstrap(&servers[0], root, &token).await, BootstrapOutcome::Answered(None));
    let rows = ddl.scan(CLUSTER, std::slice::from_ref(&token)).await.unwrap();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for found in &rows {
        let result = host_result(found.status.as_deref(), found.exception_code, found.exception_text);
        assert_eq!(result, HostResult::TerminalSuccess, "{found:?}");
        assert!(!found.query.contains("--") && !found.query.contains("/*"));
    }
    let table = TableName { database: CONTROL.into(), table: "publication_authority".into() };
    let statement = Statement { ddl: Kind::CreateIfNotExists { table }, cluster: CLUSTER.into() };
    let inventory = inventory(&before);
    let sought = Sought { token: &token, statement: &statement, bound: None, inventory: &inventory };
    assert!(matches!(view(&rows, sought), QueueView::Terminal { receipt, .. } if receipt.is_success()));
    // A harmless repetition with the same root.
    let again = self::token(2, Action::Bootstrap);
    assert_eq!(ddl.bootstrap(&servers[1], root, &again).await, BootstrapOutcome::Answered(None));
    assert_eq!(ddl.scans(), 1);
    for probe in probes(&connection).await {
        assert_eq!(probe.facades, [Facade::expected(CONTROL, root)]);
        assert_eq!(probe.facades[0].keeper_root, Some(format!("/publication/{root}")));
    }
}

async fn probes(connection: &Connection) -> Vec<ServerProbe> {
    probe(connection).await.into_iter().map(|p| p.answer.unwrap()).collect()
}

fn inventory(probes: &[ServerProbe]) -> Inventory {
    let views: Vec<_> = probes
        .iter()
        .map(|p| MemberView { server_uuid: p.server_uuid.clone(), rows: p.view.clone() })
        .collect();
    Inventory::agree(CLUSTER, &views, false).unwrap()
}

// proves: C-1, C-2, C-3, C-5
async fn compare_and_swap(live: &Live) {
    let authority = Authority::new(live.connection());
    let servers = live.servers();
    let payload = "{\"a\":\"it's \\\\ `q` ? {x:y} \\u0000 таблица\"}";
    let first = row("key", "PREPARED", 0, payload);
    let absent = authority.read_all("key").await;
    assert_eq!(absent.rows, servers.iter().map(|s| (s.clone(), None)).collect::<Vec<_>>());
    let insert = Mutation::Insert(first.clone());
    assert_eq!(authority.mutate(&servers[0], &insert).await, one(MutationOutcome::Acknowledged));
    // C-2: an existing key is a conflict, on whichever member.
    assert_eq!(authority.mutate(&servers[0], &insert).await, one(MutationOutcome::Conflict));
    assert_eq!(authority.mutate(&servers[1], &insert).await, one(MutationOutcome::Conflict));
    let read = authority.read_all("key").await;
    assert!(read.failures.is_empty());
    for (_, found) in &read.rows {
        let found = found.as_ref().unwrap();
        assert_eq!((found.version, &found.row), (0, &first));
    }
    let second = row("key", "DISPATCHING", 1, &format!("{payload}{}", "x".repeat(65_000)));
    let swap = update(&second, 0, &first);
    assert_eq!(authority.mutate(&servers[1], &swap).await, one(MutationOutcome::Acknowledged));
    let (server, found) = authority.read_exact(&servers[1], "key").await.unwrap();
    let found = found.unwrap();
    assert_eq!((server, found.version, found.row), (servers[1].clone(), 1, second.clone()));
    // C-3: a stale predicate is acknowledged and does nothing.
    assert_eq!(authority.mutate(&servers[1], &swap).await, one(MutationOutcome::Acknowledged));
    let (_, found) = authority.read_exact(&servers[1], "key").await.unwrap();
    assert_eq!(found.unwrap().version, 1);
    race(&authority, &servers, &second).await;
}

/// Many writers, one version: at most one conflict-free winner, and never an unknown outcome.
async fn race(authority: &Authority, servers: &[ServerUuid], from: &RawRow) {
    let rows: Vec<_> = (0..8).map(|n| row("key", "IN_PROGRESS", 1, &format!("{{\"n\":{n}}}"))).collect();
    let swaps: Vec<_> = rows.iter().map(|row| update(row, 1, from)).collect();
    let servers = servers.iter().cycle();
    let sent = swaps.iter().zip(servers).map(|(swap, server)| authority.mutate(server, swap));
    let answers = futures::future::join_all(sent).await;
    for answer in &answers {
        assert_eq!(answer.transport_calls, 1);
        assert!(matches!(answer.outcome, MutationOutcome::Acknowledged | MutationOutcome::Conflict));
    }
    let conflicts = answers.iter().filter(|a| a.outcome == MutationOutcome::Conflict).count();
    eprintln!("race: {conflicts} conflicts of {}", answers.len());
    let read = authority.read_all("key").await;
    assert!(read.rows.iter().any(|(_, found)| found.as_ref().unwrap().version == 2), "{read:?}");
}

// proves: B-2, B-3, B-8, A-4
async fn catalog(live: &Live) {
    let cluster = &live.cluster;
    let database = "my-db";
    cluster.create_database("`my-db`").await.unwrap();
    let hostile = ["qry_1.cus", "order", "a`b", "a\\b", "таблица"];
    for name in hostile {
        let quoted = format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
        cluster.create_replicated("`my-db`", &quoted, "id UInt64, value String", "id").await.unwrap();
    }
    cluster.load_rows(database, "order", 10, 0).await.unwrap();
    for member in &cluster.members {
        member.sql("CREATE TABLE `my-db`.plain (id UInt64) ENGINE = MergeTree ORDER BY id").await.unwrap();
    }
    let connection = live.connection();
    let catalog = MemberCatalog::new(Arc::clone(&connection));
    let mut names: Vec<String> = hostile.iter().map(|n| (*n).to_owned()).collect();
    names.extend(["plain".to_owned(), "absent".to_owned()]);
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: database.into(),
        names: names.clone(),
        health_of: Some("order".into()),
        count_of: Some("order".into()),
    };
    let each = catalog.members(&ask(Scope::Each)).await;
    let all = catalog.members(&ask(Scope::Cluster)).await;
    for answer in [&each, &all] {
        check_members(live, answer, &hostile);
    }
    let sorted = |answer: MembersAnswer| {
        let mut members = answer.members;
        members.sort();
        members
    };
    // Both scopes say the same, field by field.
    assert_eq!(sorted(each), sorted(all));
    // A table that is nowhere has no count and no health, which is not a failure.
    let ask =
        MembersAsk { count_of: Some("nope".into()), health_of: Some("nope".into()), ..ask(Scope::Cluster) };
    let answer = catalog.members(&ask).await;
    assert_eq!(answer.members.len(), 2, "{answer:?}");
    assert!(answer.members.iter().all(|m| m.count.is_none() && m.health.is_none()));
    let ask = MembersAsk { scope: Scope::Each, ..ask };
    assert_eq!(catalog.members(&ask).await.members.len(), 2);
}

fn check_members(live: &Live, answer: &MembersAnswer, hostile: &[&str]) {
    assert!(answer.failures.is_empty(), "{answer:?}");
    let mut found: Vec<_> = answer.members.iter().map(|m| m.server_uuid.clone()).collect();
    let mut servers = live.servers();
    found.sort();
    servers.sort();
    assert_eq!(found, servers);
    for member in &answer.members {
        assert_eq!(member.database_engine.as_deref(), Some("Atomic"));
        assert_eq!((member.view.len(), member.count), (2, Some(10)));
        let health = member.health.as_ref().unwrap();
        assert_eq!((health.total_replicas, health.active_replicas, health.readonly), (2, 2, false));
        for name in hostile {
            let fact = &member.tables[*name];
            assert!(
                matches!(fact, TableFact::Generation { path_macros, .. } if *path_macros == ["{shard}"]),
                "{name}: {fact:?}"
            );
            assert_eq!(fact.identity(), answer.members[0].tables[*name].identity());
        }
        assert_eq!(member.tables["absent"], TableFact::Absent);
        let plain = TableFact::Other(NotAGeneration::Engine("MergeTree".into()));
        assert_eq!(member.tables["plain"], plain);
    }
}

// proves: B-2, D-3, K14
async fn a_member_is_gone(live: &mut Live) {
    let connection = live.connection();
    let catalog = MemberCatalog::new(Arc::clone(&connection));
    let servers = live.servers();
    let authority = Authority::new(Arc::clone(&connection));
    assert!(authority.read_exact(&servers[1], "key").await.is_some());
    live.cluster.kill9(0).await.unwrap();
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: "my-db".into(),
        names: vec!["order".into()],
        health_of: None,
        count_of: None,
    };
    let label = connection.endpoints()[0].label().to_owned();
    let each = catalog.members(&ask(Scope::Each)).await;
    assert_eq!(each.failures, [(label.clone(), ReadFailure::Unavailable)]);
    assert_eq!(each.members.len(), 1);
    let all = catalog.members(&ask(Scope::Cluster)).await;
    assert!(all.members.is_empty(), "{all:?}");
    assert_eq!(all.failures.len(), 2, "{all:?}");
    let read = authority.read_all("key").await;
    assert_eq!((read.rows.len(), read.failures), (1, vec![(label, ReadFailure::Unavailable)]));
    let insert = Mutation::Insert(row("other", "PREPARED", 0, "{}"));
    // Not a byte was written; "unknown" is the safe word for it.
    assert_eq!(authority.mutate(&servers[0], &insert).await, one(MutationOutcome::Unknown));
    // The scan passes over the dead endpoint.
    let ddl = DistributedDdl::new(connection, clock());
    assert_eq!(ddl.scan(CLUSTER, &[token(1, Action::Bootstrap)]).await.unwrap().len(), 2);
    assert_eq!(ddl.scans(), 2);
    let unknown = ServerUuid::parse("00000000-0000-0000-0000-00000000000a").unwrap();
    assert_eq!(
        ddl.bootstrap(&unknown, RootId::draw(&random(7)), &token(9, Action::Bootstrap)).await,
        BootstrapOutcome::NotSent
    );
    live.cluster.restart(0).await.unwrap();
}

// proves: K30
async fn wrong_password(live: &Live) {
    for password in ["wrong", "a@^b/", "naïve: пароль\n"] {
        let connection =
            Connection::new(ConnectionSpec { password: password.into(), ..live.spec() }).unwrap();
        let authority = Authority::new(Arc::new(connection));
        let read = authority.read_all("key").await;
        assert!(read.rows.is_empty());
        assert!(read.failures.iter().all(|(_, failure)| *failure == ReadFailure::Credentials), "{read:?}");
    }
    for password in ["a@^b/", "naïve: пароль\n", " space "] {
        for member in &live.cluster.members {
            member.set_password("rotated", password).await.unwrap();
        }
        let spec = ConnectionSpec { user: "rotated".into(), password: password.into(), ..live.spec() };
        let authority = Authority::new(Arc::new(Connection::new(spec).unwrap()));
        assert_eq!(authority.read_all("key").await.rows.len(), 2);
    }
}

/// An object whose writes always succeed, and a clock that is only as real as it must be.
struct World {
    clock: Clock,
    seed: AtomicU8,
}

impl Owners for World {
    async fn witness(&self, _root: RootId, _version: u64) -> bool {
        true
    }

    async fn owner_gone(&self, _owner: &Owner) -> Option<bool> {
        Some(false)
    }
}

impl Environment for World {
    fn now(&self) -> Now {
        (self.clock)()
    }

    fn random(&self) -> Random {
        random(self.seed.fetch_add(1, Ordering::SeqCst))
    }
}

fn intent(database: &str, target: &str) -> Intent {
    let candidate = format!("{target}__pub_1");
    let rows = RowExpectation::Exact(10);
    Intent {
        operation: Digest::of_bytes(target.as_bytes()),
        root: RootId::draw(&random(7)),
        names: Names::new(CLUSTER, database, target, &candidate).unwrap(),
        rows,
        plan: plan_digest(&candidate, rows),
        owner: Owner {
            kube_uid: "k".into(),
            namespace: "n".into(),
            name: "o".into(),
            uid: "u".into(),
            created_ms: 1,
        },
        declared_internal_replication: false,
        accepted_dependents: BTreeSet::new(),
        deadlines: Deadlines { statement_timeout_ms: 30_000 },
        deleted: false,
        deadline_passed: false,
        suspended: false,
        behind: None,
        witnessed: None,
        changed: false,
    }
}

// proves: K19, B-2
async fn hidden_is_not_absent(live: &Live) {
    let catalog = MemberCatalog::new(live.connection());
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: "my-db".into(),
        names: vec!["order".into(), "absent".into()],
        health_of: None,
        count_of: None,
    };
    let member = &live.cluster.members[1];
    let denied =
        serde_json::json!({"match": "EXISTS TABLE", "code": 497, "message": "u: Not enough privileges"});
    member.admin("POST", "/statements/fail", denied).await.unwrap();
    let label = format!("127.0.0.1:{}", member.spec.http_port);
    for (scope, answered) in [(Scope::Each, 1), (Scope::Cluster, 0)] {
        let answer = catalog.members(&ask(scope)).await;
        assert_eq!(answer.failures, [(label.clone(), ReadFailure::AccessDenied)], "{scope:?}");
        assert_eq!(answer.members.len(), answered);
    }
    member.admin("POST", "/statements/clear", serde_json::Value::Null).await.unwrap();
    assert_eq!(catalog.members(&ask(Scope::Each)).await.members.len(), 2);
}

// proves: D-2, D-3, G-3, K01
async fn publish(live: &Live, target: &str, with_predecessor: bool) {
    let cluster = &live.cluster;
    let quoted = |name: &str| format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
    let candidate = format!("{target}__pub_1");
    cluster.create_database("`pub-db`").await.unwrap();
    if with_predecessor {
        cluster
            .create_replicated("`pub-db`", &quoted(target), "id UInt64, value String", "id")
            .await
            .unwrap();
    }
    cluster
        .create_replicated("`pub-db`", &quoted(&candidate), "id UInt64, value String", "id")
        .await
        .unwrap();
    cluster.load_rows("pub-db", &candidate, 10, 0).await.unwrap();
    let desired = cluster.generation(0, "pub-db", &candidate).await.unwrap().unwrap();

    let world = World { clock: clock(), seed: AtomicU8::new(20) };
    let connection = live.connection();
    let ddl = DistributedDdl::new(Arc::clone(&connection), Arc::clone(&world.clock));
    let control = Authority::new(Arc::clone(&connection));
    let catalog = MemberCatalog::new(connection);
    let ports =
        Ports { control: &control, catalog: &catalog, ddl: &ddl, owners: &world, environment: &world };
    let mut memory = Memory::default();
    let mut passes = 0;
    loop {
        let report = pass(intent("pub-db", target), memory, &ports, || false).await;
        if report.end == End::Succeeded {
            break;
        }
        assert_eq!(report.end, End::Waiting, "{report:?}");
        memory = report.memory;
        passes += 1;
        assert!(passes < 50, "{:?}", report.findings);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for member in 0..cluster.members.len() {
        assert_eq!(cluster.generation(member, "pub-db", target).await.unwrap(), Some(desired));
        let left =
            cluster.rows(member, "SELECT name FROM system.tables WHERE database = 'pub-db'").await.unwrap();
        assert!(!left.iter().any(|row| row[0].starts_with(&format!("{target}__"))), "{left:?}");
    }
    eprintln!("published {target:?} in {} more passes, {} scans", passes, ddl.scans());
}

// proves: B-2, K09
async fn wrong_servers(live: &Live) {
    let servers = live.servers();
    let spec = live.spec();
    let labels: Vec<_> = spec.endpoints.iter().map(|e| e.label().to_owned()).collect();
    // Another server than the one that was known there.
    let swapped =
        BTreeMap::from([(labels[0].clone(), servers[1].clone()), (labels[1].clone(), servers[0].clone())]);
    let spec = ConnectionSpec { known_servers: swapped, ..spec };
    let read = Authority::new(Arc::new(Connection::new(spec.clone()).unwrap())).read_all("key").await;
    assert!(read.rows.is_empty());
    assert!(read.failures.iter().all(|(_, failure)| *failure == ReadFailure::WrongServer), "{read:?}");
    // One server behind two endpoints.
    let port = live.cluster.members[0].spec.http_port;
    let endpoints =
        ["127.0.0.1", "localhost"].map(|h| Endpoint::parse(&format!("http://{h}:{port}")).unwrap());
    let spec = ConnectionSpec { endpoints: endpoints.to_vec(), known_servers: BTreeMap::new(), ..spec };
    let read = Authority::new(Arc::new(Connection::new(spec).unwrap())).read_all("key").await;
    assert_eq!((read.rows.len(), read.failures.len()), (1, 1), "{read:?}");
    assert_eq!(read.failures[0].1, ReadFailure::WrongServer);
}

// proves: B-2
async fn a_member_stands_still(live: &mut Live) {
    let catalog = MemberCatalog::new(live.connection());
    live.cluster.sigstop(1).unwrap();
    let ask = |scope| MembersAsk {
        scope,
        cluster: CLUSTER.into(),
        database: "my-db".into(),
        names: vec!["order".into()],
        health_of: None,
        count_of: None,
    };
    let started = Instant::now();
    let all = catalog.members(&ask(Scope::Cluster)).await;
    eprintln!("a stopped member: {:?} through one endpoint", started.elapsed());
    assert!(all.members.is_empty() && !all.failures.is_empty(), "{all:?}");
    let each = catalog.members(&ask(Scope::Each)).await;
    assert_eq!((each.members.len(), each.failures.len()), (1, 1), "{each:?}");
    assert!(started.elapsed() < Duration::from_secs(40));
    live.cluster.sigcont(1).unwrap();
}

// proves: C-5, B-5
async fn keeper_is_gone(live: &mut Live) {
    let authority = Authority::new(live.connection());
    let servers = live.servers();
    assert!(authority.read_exact(&servers[0], "key").await.is_some());
    live.zookeeper.kill9().await.unwrap();
    let other = row("other", "PREPARED", 0, "{}");
    let answer = authority.mutate(&servers[0], &update(&other, 0, &other)).await;
    assert_eq!(answer, one(MutationOutcome::Unknown));
    let answer = authority.mutate(&servers[0], &Mutation::Insert(other)).await;
    assert_eq!(answer, one(MutationOutcome::Unknown));
    let read = authority.read_all("key").await;
    assert_eq!(read.failures.len(), 2, "{read:?}");
    assert!(read.failures.iter().all(|(_, failure)| *failure == ReadFailure::KeeperUnavailable), "{read:?}");
    let ddl = DistributedDdl::new(live.connection(), clock());
    let scan = ddl.scan(CLUSTER, &[token(1, Action::Bootstrap)]).await;
    assert_eq!(scan, Err(ReadFailure::KeeperUnavailable));
}

// proves: J-3
async fn running_statements(live: &Live) {
    let processes = MemberProcesses::new(live.connection());
    let ids = ["chpub1-late".to_owned()];
    assert_eq!(processes.running(&ids).await, Some(false));
    let late = json!({"table": "processes", "rows": [{"query_id": "x", "initial_query_id": "chpub1-late"}]});
    live.cluster.members[1].admin("POST", "/system/overlay", late).await.unwrap();
    assert_eq!(processes.running(&ids).await, Some(true));
    assert_eq!(processes.running(&["chpub1-other".to_owned()]).await, Some(false));
    let clear = json!({"table": "processes"});
    live.cluster.members[1].admin("POST", "/system/clear", clear).await.unwrap();
}

async fn contract(name: &str, lane: Lane) {
    let run = async {
        let mut live = Live::start(name, lane).await;
        bootstrap_and_probe(&live).await;
        compare_and_swap(&live).await;
        catalog(&live).await;
        wrong_password(&live).await;
        wrong_servers(&live).await;
        hidden_is_not_absent(&live).await;
        running_statements(&live).await;
        for target in ["orders", "a`b", "a\\b", "qry_1.cus", "таблица"] {
            publish(&live, target, true).await;
        }
        publish(&live, "first", false).await;
        a_member_is_gone(&mut live).await;
        a_member_stands_still(&mut live).await;
        keeper_is_gone(&mut live).await;
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
