//! Puts rows together by the server that gave them (B-2): by identity, never by order.

use super::rows::{
    Attributed, CatalogRow, ClusterViewRow, CountRow, DatabaseRow, HealthRow, IdentityRow, MutationRow,
    ReplicationRow,
};
use publication_protocol::generation::{Replication, TableFact, TableRow, table_fact};
use publication_protocol::identity::ServerUuid;
use publication_protocol::inventory::ClusterRow;
use publication_protocol::ports::{Health, MemberAnswer, MembersAsk, ReadFailure};
use std::collections::{BTreeMap, BTreeSet};

/// The rows of all queries of one look.
pub(super) struct Facts {
    pub(super) views: Vec<ClusterViewRow>,
    pub(super) databases: Vec<DatabaseRow>,
    pub(super) tables: Vec<CatalogRow>,
    pub(super) replication: Vec<ReplicationRow>,
    pub(super) health: Vec<HealthRow>,
    pub(super) mutations: Vec<MutationRow>,
    pub(super) counts: Vec<CountRow>,
}

/// One answer for each identity row, duplicates kept.
pub(super) fn answers(
    ask: &MembersAsk,
    identities: &[IdentityRow],
    facts: &Facts,
) -> Result<Vec<MemberAnswer>, ReadFailure> {
    let known: BTreeSet<&str> = identities.iter().map(Attributed::server).collect();
    // A server that gave facts but no identity came or went between two queries: no evidence.
    let strangers = [
        stranger(&known, &facts.views),
        stranger(&known, &facts.databases),
        stranger(&known, &facts.tables),
        stranger(&known, &facts.replication),
        stranger(&known, &facts.health),
        stranger(&known, &facts.mutations),
        stranger(&known, &facts.counts),
    ];
    if strangers.contains(&true) {
        return Err(ReadFailure::WrongServer);
    }
    identities.iter().map(|identity| answer(ask, identity, facts)).collect()
}

fn stranger<T: Attributed>(known: &BTreeSet<&str>, rows: &[T]) -> bool {
    rows.iter().any(|row| !known.contains(row.server()))
}

fn of<'a, T: Attributed>(rows: &'a [T], server: &'a str) -> impl Iterator<Item = &'a T> {
    rows.iter().filter(move |row| row.server() == server)
}

fn answer(ask: &MembersAsk, identity: &IdentityRow, facts: &Facts) -> Result<MemberAnswer, ReadFailure> {
    let server = identity.server.as_str();
    let unfinished = of(&facts.mutations, server).count() as u64;
    Ok(MemberAnswer {
        server_uuid: ServerUuid::parse(server).ok_or(ReadFailure::Malformed)?,
        server_version: identity.version.clone(),
        view: of(&facts.views, server).map(cluster_row).collect(),
        database_engine: of(&facts.databases, server).next().map(|row| row.engine.clone()),
        tables: tables(ask, server, facts),
        health: of(&facts.health, server).next().map(|row| health(row, unfinished)),
        count: of(&facts.counts, server).next().map(|row| row.rows),
    })
}

pub(super) fn cluster_row(row: &ClusterViewRow) -> ClusterRow {
    ClusterRow {
        shard: row.shard_num,
        replica: row.replica_num,
        host: row.host_name.clone(),
        port: row.port,
        is_local: row.is_local != 0,
        internal_replication: Some(row.internal_replication != 0),
    }
}

fn tables(ask: &MembersAsk, server: &str, facts: &Facts) -> BTreeMap<String, TableFact> {
    let fact = |name: &String| {
        let row = of(&facts.tables, server).find(|row| row.name == *name);
        row.map_or(TableFact::Absent, |row| {
            let replication = of(&facts.replication, server).find(|row| row.table == *name);
            table_fact(&table_row(row, replication))
        })
    };
    ask.names.iter().map(|name| (name.clone(), fact(name))).collect()
}

fn table_row(row: &CatalogRow, replication: Option<&ReplicationRow>) -> TableRow {
    let keys = [&row.sorting_key, &row.primary_key, &row.partition_key, &row.sampling_key];
    TableRow {
        uuid: row.uuid.clone(),
        engine: row.engine.clone(),
        engine_full: row.engine_full.clone(),
        create_query: row.create_table_query.clone(),
        keys: keys.map(Clone::clone),
        replication: replication.map(|found| Replication {
            zookeeper_name: found.zookeeper_name.clone(),
            zookeeper_path: found.zookeeper_path.clone(),
            replica_name: found.replica_name.clone(),
        }),
    }
}

fn health(row: &HealthRow, unfinished_mutations: u64) -> Health {
    Health {
        readonly: row.is_readonly != 0,
        session_expired: row.is_session_expired != 0,
        queue_size: row.queue_size,
        lost_parts: row.lost_part_count,
        parts_to_check: row.parts_to_check,
        active_replicas: row.active_replicas,
        total_replicas: row.total_replicas,
        log_max_index: row.log_max_index,
        log_pointer: row.log_pointer,
        keeper_exception: row.keeper_exception != 0,
        queue_exception: row.queue_exception != 0,
        unfinished_mutations,
    }
}
