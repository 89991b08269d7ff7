//! The simulation: many workers, targets and operations over one in-memory world, scheduled by a seed.

pub mod chaos;
pub mod hands;
pub mod judge;
pub mod mix;
pub mod people;
pub mod run;
pub mod settle;
