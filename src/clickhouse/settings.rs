//! The settings that bound and disarm each kind of call. All of them exist on every supported server line: an
//! unknown one would be refused (115).

use publication_protocol::identity::CorrelationToken;
use std::time::Duration;

type Settings = Vec<(&'static str, String)>;

fn seconds(duration: Duration) -> String {
    duration.as_secs().max(1).to_string()
}

/// B-2: all members or none, and none of them holds a read up.
pub(super) fn read(limit: Duration) -> Settings {
    vec![
        ("skip_unavailable_shards", "0".into()),
        ("use_hedged_requests", "0".into()),
        ("connections_with_failover_max_tries", "1".into()),
        ("connect_timeout_with_failover_ms", "500".into()),
        ("connect_timeout_with_failover_secure_ms", "1000".into()),
        ("handshake_timeout_ms", "1000".into()),
        ("receive_timeout", seconds(limit)),
        ("max_execution_time", seconds(limit)),
        // Else a server without Keeper would try on for longer than the read may take.
        ("keeper_max_retries", "0".into()),
        // Whatever the user's profile says: no part for the whole, nothing from a cache, no other replica's rows.
        ("timeout_overflow_mode", "throw".into()),
        ("read_overflow_mode", "throw".into()),
        ("read_overflow_mode_leaf", "throw".into()),
        ("result_overflow_mode", "throw".into()),
        ("use_query_cache", "0".into()),
        ("allow_experimental_parallel_reading_from_replicas", "0".into()),
        ("empty_result_for_aggregation_by_empty_set", "0".into()),
        // One printed form of a table.
        ("show_table_uuid_in_table_create_query_if_not_nil", "0".into()),
        ("format_display_secrets_in_show_and_select", "0".into()),
    ]
}

/// C-4: strict, and no retry on the server's side either (one's own committed write would come back as a conflict).
pub(super) fn mutation(query_id: String) -> Settings {
    vec![
        ("query_id", query_id),
        ("keeper_map_strict_mode", "1".into()),
        ("insert_keeper_max_retries", "0".into()),
        ("keeper_max_retries", "0".into()),
        ("insert_keeper_fault_injection_probability", "0".into()),
        // A batched INSERT would be acknowledged for what others wrote.
        ("async_insert", "0".into()),
    ]
}

/// D-2.
pub(super) fn distributed(token: &CorrelationToken, wait: Duration) -> Settings {
    vec![
        ("query_id", token.query_id()),
        ("log_comment", token.as_str().to_owned()),
        ("skip_unavailable_shards", "0".into()),
        ("distributed_ddl_output_mode", "throw".into()),
        ("distributed_ddl_task_timeout", seconds(wait)),
        // K22: no profile may turn a DROP into DROP … SYNC.
        ("database_atomic_wait_for_drop_and_detach_synchronously", "0".into()),
    ]
}
