//! The test bed: real ZooKeeper, the embedded ClickHouse members, a fault proxy in front of each, a real API server,
//! and the operator as a process of its own. See `environment::Environment` for all of it together.

pub mod ddl;
pub mod error;
pub mod http;
pub mod keeper;
pub mod leash;
pub mod paths;
pub mod poll;
pub mod ports;
pub mod workdir;
pub mod zookeeper;
