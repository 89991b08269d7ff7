//! Wrong credentials, wrong servers, members and a Keeper that are gone.

use super::authority::update;
use super::{Live, clock, one, random, row, token};
use publication_e2e::cluster::CLUSTER;
use publication_operator::clickhouse::{
    Authority, BootstrapOutcome, Connection, ConnectionSpec, DistributedDdl, Endpoint, MemberCatalog,
};
use publication_protocol::authority::{Mutation, MutationOutcome};
use publication_protocol::identity::{Action, RootId, ServerUuid};
use publication_protocol::ports::{Catalog, ControlTable, Ddl, MembersAsk, ReadFailure, Scope};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

// proves: K30
pub async fn wrong_password(live: &Live) {
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

// proves: B-2, K09
pub async fn wrong_servers(live: &Live) {
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

// proves: B-2, D-3, K14
pub async fn a_member_is_gone(live: &mut Live) {
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

// proves: B-2
pub async fn a_member_stands_still(live: &mut Live) {
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
pub async fn keeper_is_gone(live: &mut Live) {
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
