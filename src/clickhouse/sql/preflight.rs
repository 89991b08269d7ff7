//! SQL of preflight (see [`crate::clickhouse::preflight`]): catalogs of one server, asked at its own endpoint.

use super::{Inner, SERVER, Sql, literal, literals};

/// Views and dictionaries, of any database, whose text may name the target or a name that begins like it. The
/// condition only spares the answer texts that cannot; whether a text refers to a name is told by its tokens.
pub fn definitions(target: &str) -> Inner {
    let kinds = "(engine LIKE '%View' OR engine = 'Dictionary')";
    let part = plain_part(target);
    let names = if part.is_empty() {
        String::new()
    } else {
        format!(" AND position(create_table_query, {}) > 0", literal(part))
    };
    Inner(format!(
        "SELECT {SERVER}, database, name, engine, create_table_query FROM system.tables WHERE {kinds}{names}"
    ))
}

/// The longest part of a name that every way of quoting leaves as it is.
fn plain_part(name: &str) -> &str {
    name.split(|c: char| !c.is_alphanumeric() && c != '_').max_by_key(|part| part.len()).unwrap_or_default()
}

/// Dictionaries that have no CREATE.
pub fn configured_dictionaries() -> Inner {
    Inner(format!("SELECT {SERVER}, name, source FROM system.dictionaries WHERE database = ''"))
}

/// Size, and what the server itself counts as dependent.
pub fn table_uses(database: &str, names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, name, toUInt64(ifNull(total_bytes, 0)) AS bytes, \
         loading_dependent_database AS dependent_databases, loading_dependent_table AS dependent_tables \
         FROM system.tables WHERE database = {} AND name IN ({})",
        literal(database),
        literals(names.iter().copied())
    ))
}

/// Policies on the names; those on the whole database hold before and after alike.
pub fn row_policies(database: &str, names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, short_name, table FROM system.row_policies WHERE database = {} AND table IN ({})",
        literal(database),
        literals(names.iter().copied())
    ))
}

/// Whether a system table has a column.
pub fn system_column(table: &str, column: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, name FROM system.columns WHERE database = 'system' AND table = {} AND name = {}",
        literal(table),
        literal(column)
    ))
}

/// The user's own grants and its roles', and everybody's on columns of the names.
pub fn grants(database: &str, names: &[&str], wildcards: bool) -> Inner {
    let others = format!(
        " OR (database = {} AND table IN ({}) AND column IS NOT NULL)",
        literal(database),
        literals(names.iter().copied())
    );
    grants_where(wildcards, &others)
}

/// The user's own grants and its roles'.
pub fn own_grants(wildcards: bool) -> Inner {
    grants_where(wildcards, "")
}

fn grants_where(wildcards: bool, others: &str) -> Inner {
    let wildcard = if wildcards { "toUInt8(is_wildcard)" } else { "toUInt8(0)" };
    let own = "toUInt8(ifNull(user_name = currentUser(), 0) \
               OR ifNull(role_name IN (SELECT role_name FROM system.enabled_roles), 0))";
    Inner(format!(
        "SELECT {SERVER}, ifNull(user_name, ifNull(role_name, '')) AS grantee, {own} AS own, \
         toString(access_type) AS access, database AS on_database, table AS on_table, column AS on_column, \
         is_partial_revoke, {wildcard} AS wildcard FROM system.grants WHERE own{others}"
    ))
}

/// K04: every table of the server under a replication path.
pub fn same_path(path: &str) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, database, table FROM system.replicas WHERE zookeeper_path = {}",
        literal(path)
    ))
}

/// K08: the replicas that Keeper knows.
pub fn replica_sets(database: &str, names: &[&str]) -> Inner {
    Inner(format!(
        "SELECT {SERVER}, table, replica_name, toUInt64(total_replicas) AS total_replicas, \
         mapKeys(replica_is_active) AS replicas FROM system.replicas WHERE database = {} AND table IN ({})",
        literal(database),
        literals(names.iter().copied())
    ))
}

/// K21, B-9: what makes a server refuse a RENAME or a DROP, of this session and of the server.
pub fn limits() -> Inner {
    Inner(format!(
        "SELECT {SERVER}, toUInt8(0) AS of_server, name, value, toUInt8(changed) AS changed FROM system.settings \
         WHERE name IN ('max_table_size_to_drop', 'check_table_dependencies', 'check_referential_table_dependencies') \
         UNION ALL SELECT {SERVER}, toUInt8(1) AS of_server, name, value, toUInt8(changed) AS changed \
         FROM system.server_settings WHERE name = 'max_table_size_to_drop'"
    ))
}

/// K13: what hosts have not finished, of any cluster, behind a row that says who answers. One scan of the queue.
pub fn backlog(cluster: &str) -> Sql {
    Sql(format!(
        "SELECT {SERVER}, '' AS entry, '' AS host, toUInt16(0) AS port, '' AS status, toUInt64(0) AS age_s \
         UNION ALL SELECT {SERVER}, entry, ifNull(host, '') AS host, ifNull(port, 0) AS port, \
         ifNull(toString(status), '') AS status, \
         toUInt64(greatest(0, dateDiff('second', query_create_time, now()))) AS age_s \
         FROM system.distributed_ddl_queue WHERE ifNull(toString(status), '') != 'Finished' \
         AND (host, port) IN (SELECT host_name, port FROM system.clusters WHERE cluster = {})",
        literal(cluster)
    ))
}
