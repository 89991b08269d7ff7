//! Whole operations over the real adapters.

use super::authority::{inventory, probes};
use super::clickhouse_support::intent;
use super::{Live, clock, random};
use publication_e2e::cluster::CLUSTER;
use publication_operator::clickhouse::{Authority, Clock, DistributedDdl, MemberCatalog};
use publication_protocol::authority::{Mutation, Now};
use publication_protocol::driver::{End, Memory};
use publication_protocol::facade::FacadeBinding;
use publication_protocol::identity::{Names, Random, RootId};
use publication_protocol::ports::{ControlTable, Environment, Owners};
use publication_protocol::publisher::{Ports, pass};
use publication_protocol::record::Owner;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

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

// proves: D-2, D-3, G-3, K01
pub async fn publish(live: &Live, target: &str, with_predecessor: bool) {
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
    let members = inventory(&probes(&connection).await);
    // B-5: bound once; later cases find it so.
    let binding = Mutation::Insert(FacadeBinding::of(&members).encode());
    control.mutate(&members.members[0].server_uuid, &binding).await;
    let catalog = MemberCatalog::new(connection);
    let ports =
        Ports { control: &control, catalog: &catalog, ddl: &ddl, owners: &world, environment: &world };
    let names = Names::new(CLUSTER, "pub-db", target, &candidate).unwrap();
    let wanted = intent(names, RootId::draw(&random(7)), 30_000);
    let mut memory = Memory::default();
    let mut passes = 0;
    loop {
        let report = pass(wanted.clone(), memory, &ports, || false).await;
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
