//! The rows of each read, decoded strictly: names and types must be those that the SQL promises.

use clickhouse::Row;
use serde::Deserialize;

/// A row that says which server gave it.
pub trait Attributed {
    /// `serverUUID()`, as text.
    fn server(&self) -> &str;
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
            pub struct $name {
                /// Who gave it.
                pub server: String,
                $(
                    #[allow(missing_docs)]
                    pub $field: $kind,
                )*
            }

            impl Attributed for $name {
                fn server(&self) -> &str {
                    &self.server
                }
            }
        )*
    };
}

rows! {
    /// [`super::sql::identity`]
    IdentityRow { version: String }
    /// [`super::sql::cluster_rows`]
    ClusterViewRow {
        shard_num: u32,
        replica_num: u32,
        host_name: String,
        port: u16,
        is_local: u8,
        internal_replication: u8,
    }
    /// [`super::sql::running`]
    RunningRow { running: u64 }
    /// [`super::sql::database_engine`]
    DatabaseRow { engine: String }
    /// [`super::sql::tables`]
    CatalogRow {
        name: String,
        uuid: String,
        engine: String,
        engine_full: String,
        create_table_query: String,
        sorting_key: String,
        primary_key: String,
        partition_key: String,
        sampling_key: String,
    }
    /// [`super::sql::borne`]
    NameRow { name: String }
    /// [`super::sql::replication`]
    ReplicationRow { table: String, zookeeper_name: String, zookeeper_path: String, replica_name: String }
    /// [`super::sql::health`]
    HealthRow {
        is_readonly: u8,
        is_session_expired: u8,
        queue_size: u64,
        lost_part_count: u64,
        parts_to_check: u64,
        active_replicas: u64,
        total_replicas: u64,
        log_max_index: u64,
        log_pointer: u64,
        keeper_exception: u8,
        queue_exception: u8,
    }
    /// [`super::sql::unfinished_mutations`]
    MutationRow { mutation_id: String }
    /// [`super::sql::count`]
    CountRow { rows: u64 }
    /// [`super::sql::slot`]; `found` tells who answers (0), a row of the facade (1), and its definition, as `payload` (2).
    SlotRow {
        found: u8,
        target_key: String,
        operation_id: String,
        fence_token: String,
        phase: String,
        dispatch_epoch: u64,
        payload: String,
        payload_sha256: String,
        version: i64,
    }
    /// [`super::sql::Scratch::row`]
    ScratchRow { found: u8, phase: String, version: i64 }
    /// [`super::sql::queue`]
    DdlQueueRow {
        entry: String,
        token: String,
        cluster: String,
        query: String,
        host: Option<String>,
        port: Option<u16>,
        status: Option<String>,
        exception_code: Option<i64>,
        exception_text: u8,
    }
    /// [`super::sql::server`]
    ServerRow { host_name: String, tcp_port: u16, version: String }
    /// [`super::sql::facades`]
    FacadeRow { database: String, create_table_query: String }
    /// [`super::sql::definitions`]
    DefinitionRow { database: String, name: String, engine: String, create_table_query: String }
    /// [`super::sql::configured_dictionaries`]
    ConfiguredRow { name: String, source: String }
    /// [`super::sql::table_uses`]
    UseRow { name: String, bytes: u64, dependent_databases: Vec<String>, dependent_tables: Vec<String> }
    /// [`super::sql::row_policies`]
    PolicyRow { short_name: String, table: String }
    /// [`super::sql::system_column`]
    ColumnRow { name: String }
    /// [`super::sql::grants`]
    GrantRow {
        grantee: String,
        own: u8,
        access: String,
        on_database: Option<String>,
        on_table: Option<String>,
        on_column: Option<String>,
        is_partial_revoke: u8,
        wildcard: u8,
    }
    /// [`super::sql::same_path`]
    PathRow { database: String, table: String }
    /// [`super::sql::replica_sets`]
    ReplicaSetRow { table: String, replica_name: String, total_replicas: u64, replicas: Vec<String> }
    /// [`super::sql::limits`]
    LimitRow { of_server: u8, name: String, value: String, changed: u8 }
    /// [`super::sql::backlog`]
    BacklogRow { entry: String, host: String, port: u16, status: String, age_s: u64 }
    /// [`super::sql::settings`]
    SettingRow { name: String, value: String }
}

/// [`super::sql::exists`]
#[derive(Debug, Clone, PartialEq, Eq, Row, Deserialize)]
pub struct ExistsRow {
    /// 0 or 1.
    pub result: u8,
}
