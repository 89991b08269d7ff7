//! The test bed: real ZooKeeper, the embedded ClickHouse members, a fault proxy in front of each, a real API server,
//! and the operator as a process of its own. See [`environment::Environment`] for all of it together.

pub mod cluster;
pub mod ddl;
pub mod demo;
pub mod environment;
pub mod error;
pub mod evidence;
pub mod http;
pub mod keeper;
pub mod kubernetes;
pub mod leash;
pub mod manifests;
pub mod misbehaving;
pub mod operator;
pub mod paths;
pub mod poll;
pub mod ports;
pub mod proxy;
pub mod workdir;
pub mod zookeeper;

pub use environment::{Environment, Options};
pub use error::{Error, Result};
