//! Builders and an in-memory world for the protocol's tests.
#![allow(dead_code, missing_debug_implementations, clippy::panic)]

pub mod build;
pub mod facts;
pub mod ports;
pub mod proof;
pub mod run;
pub mod stepper;
pub mod verdicts;
pub mod world;
