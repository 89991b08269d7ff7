//! Every SQL text that the operator sends, rendered in one place.
//!
//! Names are identifiers in backticks or string literals, never spliced bare and never split on dots (K01). Inner
//! SELECTs are plain: whatever is compared, counted or grouped happens in Rust, on rows that carry the identity of
//! the server that gave them.

use publication_protocol::authority::Mutation;
use publication_protocol::facade::BINDING_KEY;
use publication_protocol::identity::{CorrelationToken, RETIRED_INFIX, RootId, TOKEN_PREFIX};
use publication_protocol::sqltext::{Ddl, Statement, TableName};
use std::collections::BTreeSet;
use std::fmt;

/// The facade's table, in the platform's control database (B-5).
pub const FACADE_TABLE: &str = "publication_authority";

mod preflight;
mod scratch;

pub use scratch::{Scratch, ScratchStep};

pub use preflight::{
    backlog, configured_dictionaries, definitions, grants, limits, own_grants, replica_sets, row_policies,
    same_path, system_column, table_uses,
};

/// A rendered statement. Its text goes to the transport and nowhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct Sql(String);

impl Sql {
    /// For the transport and for snapshots.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sql({} bytes)", self.0.len())
    }
}

/// An identifier in backticks.
pub fn identifier(name: &str) -> String {
    quoted(name, '`')
}

/// A string literal.
pub fn literal(text: &str) -> String {
    quoted(text, '\'')
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

fn table(name: &TableName) -> String {
    format!("{}.{}", identifier(&name.database), identifier(&name.table))
}

fn facade(control_database: &str) -> String {
    format!("{}.{FACADE_TABLE}", identifier(control_database))
}

fn literals<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(literal).collect::<Vec<_>>().join(", ")
}

/// `serverUUID()` as text: no byte order to get wrong, and every row says who gave it.
const SERVER: &str = "toString(serverUUID()) AS server";

// ---------------------------------------------------------------------------------------------------- statements

/// A distributed statement (D-2). None for the facade's CREATE, which needs its root: [`create_facade`].
pub fn statement(statement: &Statement) -> Option<Sql> {
    let on = format!("ON CLUSTER {}", identifier(&statement.cluster));
    let text = match &statement.ddl {
        Ddl::Exchange { target, candidate } => {
            format!("EXCHANGE TABLES {} AND {} {on}", table(target), table(candidate))
        }
        Ddl::Rename { from, to } => format!("RENAME TABLE {} TO {} {on}", table(from), table(to)),
        Ddl::DropIfExists { table: dropped } => format!("DROP TABLE IF EXISTS {} {on}", table(dropped)),
        Ddl::CreateIfNotExists { .. } => return None,
    };
    Some(Sql(text))
}

/// Keeper root of a facade (B-5), below the servers' `keeper_map_path_prefix`.
pub fn facade_root(root: RootId) -> String {
    format!("/publication/{root}")
}

const FACADE_DEFINITION: &str = "(target_key String, operation_id String, fence_token String, phase String, \
     dispatch_epoch UInt64, payload String, payload_sha256 FixedString(64))";

/// B-6.
pub fn create_facade(control_database: &str, cluster: &str, root: RootId) -> Sql {
    Sql(format!(
        "CREATE TABLE IF NOT EXISTS {} ON CLUSTER {} {FACADE_DEFINITION} ENGINE = KeeperMap({}) PRIMARY KEY target_key",
        facade(control_database),
        identifier(cluster),
        literal(&facade_root(root)),
    ))
}

/// What [`create_facade`] describes, without cluster, as a server would be asked to create it by itself: the text
/// that a found facade is compared with.
pub fn facade_text(control_database: &str, root: RootId) -> Sql {
    Sql(format!(
        "CREATE TABLE {} {FACADE_DEFINITION} ENGINE = KeeperMap({}) PRIMARY KEY target_key",
        facade(control_database),
        literal(&facade_root(root)),
    ))
}

/// C-2, C-3.
pub fn mutation(control_database: &str, mutation: &Mutation) -> Sql {
    mutation_of(&facade(control_database), mutation)
}

/// The same of another table of that form, already quoted.
fn mutation_of(facade: &str, mutation: &Mutation) -> Sql {
    Sql(match mutation {
        Mutation::Insert(row) => {
            let texts = [&row.target_key, &row.operation_id, &row.fence_token, &row.phase];
            format!(
                "INSERT INTO {facade} (target_key, operation_id, fence_token, phase, dispatch_epoch, payload, \
                 payload_sha256) VALUES ({}, {}, {}, {})",
                literals(texts.map(String::as_str)),
                row.dispatch_epoch,
                literal(&row.payload),
                literal(&row.payload_sha256),
            )
        }
        Mutation::Update { row, expected } => format!(
            "ALTER TABLE {facade} UPDATE operation_id = {}, fence_token = {}, phase = {}, dispatch_epoch = {}, \
             payload = {}, payload_sha256 = {} WHERE target_key = {} AND _version = {} AND operation_id = {} \
             AND fence_token = {} AND phase = {}",
            literal(&row.operation_id),
            literal(&row.fence_token),
            literal(&row.phase),
            row.dispatch_epoch,
            literal(&row.payload),
            literal(&row.payload_sha256),
            literal(&row.target_key),
            expected.version,
            literal(&expected.operation_id),
            literal(&expected.fence_token),
            literal(&expected.phase),
        ),
    })
}

// --------------------------------------------------------------------------------------------------------- reads

/// A read that can be asked of one server or, as it is, of every member.
#[derive(Clone, PartialEq, Eq)]
pub struct Inner(String);

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inner({} bytes)", self.0.len())
    }
}

impl Inner {
    /// Of the server that is asked.
    pub fn here(&self) -> Sql {
        Sql(self.0.clone())
    }

    /// Of every member of the cluster, evaluated there. No aggregation, order or limit above it.
    pub fn everywhere(&self, cluster: &str) -> Sql {
        Sql(format!("SELECT * FROM clusterAllReplicas({}, view({}))", literal(cluster), self.0))
    }
}

/// Who answers.
pub fn identity() -> Inner {
    Inner(format!("SELECT {SERVER}, version() AS version"))
}

/// The server's own view of the cluster (B-1).
pub fn cluster_rows(cluster: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, shard_num, replica_num, host_name, port, is_local, internal_replication \
         FROM system.clusters WHERE cluster = {}",
        literal(cluster)
    ))
}

/// J-3: how many queries with one of these ids run on the server, as asked or on behalf of one.
pub fn running(query_ids: &[String]) -> Inner {
    let ids = literals(query_ids.iter().map(String::as_str));
    // A scalar subquery is Nullable, whatever it counts.
    Inner(format!(
        "SELECT {SERVER}, assumeNotNull(toUInt64((SELECT count() FROM system.processes \
         WHERE query_id IN ({ids}) OR initial_query_id IN ({ids})))) AS running"
    ))
}

/// B-3.
pub fn database_engine(database: &str) -> Inner {
    Inner(format!("SELECT {SERVER}, engine FROM system.databases WHERE name = {}", literal(database)))
}

/// What the names are (A-4).
pub fn tables(database: &str, names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, name, toString(uuid) AS uuid, engine, engine_full, create_table_query, sorting_key, \
         primary_key, partition_key, sampling_key FROM system.tables WHERE database = {} AND name IN ({})",
        literal(database),
        literals(names.iter().copied())
    ))
}

/// B-6: which of these names are borne, and which retired names of these targets.
pub fn borne(database: &str, names: &[&str], targets: &[&str]) -> Inner {
    let retired: Vec<String> = targets
        .iter()
        .map(|target| format!(" OR startsWith(name, {})", literal(&format!("{target}{RETIRED_INFIX}"))))
        .collect();
    Inner(format!(
        "SELECT {SERVER}, name FROM system.tables WHERE database = {} AND (name IN ({}){})",
        literal(database),
        literals(names.iter().copied()),
        retired.concat()
    ))
}

/// Where the names replicate. Only columns that cost no Keeper request.
pub fn replication(database: &str, names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, table, zookeeper_name, zookeeper_path, replica_name FROM system.replicas \
         WHERE database = {} AND table IN ({})",
        literal(database),
        literals(names.iter().copied())
    ))
}

/// Whether a name is there, with an access check: `system.tables` merely hides what the user may not see, and a hidden
/// table must not pass for an absent one.
pub fn exists(database: &str, name: &str) -> Sql {
    Sql(format!("EXISTS TABLE {}.{}", identifier(database), identifier(name)))
}

/// B-8. Exception texts are reduced on the server to whether there is one.
pub fn health(database: &str, name: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, is_readonly, is_session_expired, toUInt64(queue_size) AS queue_size, \
         toUInt64(lost_part_count) AS lost_part_count, toUInt64(parts_to_check) AS parts_to_check, \
         toUInt64(active_replicas) AS active_replicas, toUInt64(total_replicas) AS total_replicas, \
         toUInt64(log_max_index) AS log_max_index, toUInt64(log_pointer) AS log_pointer, \
         toUInt8(zookeeper_exception != '') AS keeper_exception, \
         toUInt8(last_queue_update_exception != '') AS queue_exception \
         FROM system.replicas WHERE database = {} AND table = {}",
        literal(database),
        literal(name)
    ))
}

/// B-8: one row for each mutation that is not done.
pub fn unfinished_mutations(database: &str, name: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, mutation_id FROM system.mutations WHERE database = {} AND table = {} AND is_done = 0",
        literal(database),
        literal(name)
    ))
}

/// B-8. The only aggregate: it runs on the member, inside the view.
pub fn count(database: &str, name: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, toUInt64(count()) AS rows FROM {}.{}",
        identifier(database),
        identifier(name)
    ))
}

/// The slot, behind a row that is always there and says who answers: an absent key must be told from no answer. Beside
/// it, in the same answer, what shows whose facade it is: its binding row and its definition (B-5).
pub fn slot(control_database: &str, key: &str) -> Sql {
    let keys: BTreeSet<&str> = BTreeSet::from([key, BINDING_KEY]);
    Sql(format!(
        "SELECT {SERVER}, toUInt8(0) AS found, '' AS target_key, '' AS operation_id, '' AS fence_token, '' AS phase, \
         toUInt64(0) AS dispatch_epoch, '' AS payload, '' AS payload_sha256, toInt64(0) AS version \
         UNION ALL SELECT {SERVER}, toUInt8(1) AS found, target_key, operation_id, fence_token, phase, \
         dispatch_epoch, payload, toString(payload_sha256) AS payload_sha256, toInt64(_version) AS version \
         FROM {} WHERE target_key IN ({}) \
         UNION ALL SELECT {SERVER}, toUInt8(2) AS found, '' AS target_key, '' AS operation_id, '' AS fence_token, \
         '' AS phase, toUInt64(0) AS dispatch_epoch, create_table_query AS payload, '' AS payload_sha256, \
         toInt64(0) AS version FROM system.tables WHERE database = {} AND name = {}",
        facade(control_database),
        literals(keys),
        literal(control_database),
        literal(FACADE_TABLE),
    ))
}

/// D-3, from one scan, behind a row that says who answers.
pub fn queue(cluster: &str, tokens: &[CorrelationToken]) -> Sql {
    entries(&format!(
        "cluster = {} AND settings['log_comment'] IN ({})",
        literal(cluster),
        literals(tokens.iter().map(CorrelationToken::as_str))
    ))
}

/// B-6: every entry of ours, whatever became of it. A text that the server cannot parse has no cluster.
pub fn all_ours(cluster: &str) -> Sql {
    entries(&format!(
        "cluster IN ({}) AND startsWith(settings['log_comment'], {})",
        literals([cluster, ""]),
        literal(&format!("{TOKEN_PREFIX}:"))
    ))
}

/// The exception's text never leaves the server.
fn entries(which: &str) -> Sql {
    Sql(format!(
        "SELECT {SERVER}, '' AS entry, '' AS token, '' AS cluster, '' AS query, CAST(NULL AS Nullable(String)) AS host, \
         CAST(NULL AS Nullable(UInt16)) AS port, CAST(NULL AS Nullable(String)) AS status, \
         CAST(NULL AS Nullable(Int64)) AS exception_code, toUInt8(0) AS exception_text \
         UNION ALL SELECT {SERVER}, entry, settings['log_comment'] AS token, cluster, query, host, port, \
         CAST(status AS Nullable(String)) AS status, CAST(exception_code AS Nullable(Int64)) AS exception_code, \
         toUInt8(multiIf(isNull(exception_text), 0, assumeNotNull(exception_text) = '', 1, 2)) AS exception_text \
         FROM system.distributed_ddl_queue WHERE {which}"
    ))
}

// --------------------------------------------------------------------------------------------------------- probe

/// B-4: what one server is.
pub fn server() -> Inner {
    Inner(format!(
        "SELECT {SERVER}, hostName() AS host_name, toUInt16(tcpPort()) AS tcp_port, version() AS version"
    ))
}

/// B-5: every facade, over all databases.
pub fn facades() -> Inner {
    Inner(format!(
        "SELECT {SERVER}, database, create_table_query FROM system.tables WHERE engine = 'KeeperMap' AND name = {}",
        literal(FACADE_TABLE)
    ))
}

/// B-4: settings of this session, by name.
pub fn settings(names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, name, value FROM system.settings WHERE name IN ({})",
        literals(names.iter().copied())
    ))
}

#[cfg(test)]
#[path = "sql_tests.rs"]
mod tests;
