//! The publication protocol: what may be done, when, and what proves it. Pure and total: no I/O, no clock, no
//! randomness, no SQL client; effects are asked for as values and performed by a thin shell over small ports.
//!
//! Rule ids (`A-1` … `M`) are those of the protocol's contract; a test names the rule it proves.
#![warn(missing_docs)]

/// `planted!(Bug)` marks where a wrong protocol departs from this one. It is the literal `false`, except in the build
/// of `tools/planted` (`--cfg planted`), which shows that each departure is caught.
#[cfg(not(planted))]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}
#[cfg(planted)]
macro_rules! planted {
    ($bug:ident) => {
        crate::planted::is(crate::planted::Bug::$bug)
    };
}

pub mod adjudicate;
pub mod admission;
pub mod authority;
pub mod canonical;
pub mod classify;
pub mod code;
pub mod diagnose;
pub mod driver;
pub mod evidence;
pub mod facade;
pub mod generation;
pub mod identity;
pub mod intent;
pub mod inventory;
pub mod limits;
pub mod loss;
#[cfg(any(test, publication_model))]
mod model;
pub mod phase;
#[cfg(planted)]
pub mod planted;
pub mod ports;
pub mod preflight;
pub mod publisher;
pub mod queue;
pub mod receipt;
pub mod record;
mod record_codec;
pub mod replica;
pub mod sqltext;
pub mod step;
pub mod verdict;
