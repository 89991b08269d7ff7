//! The operator as a library: the binary, the tests and the demo share it.

pub mod api;
pub mod cli;
pub mod clickhouse;
mod cluster_access;
pub mod controller;
pub mod receipts;
