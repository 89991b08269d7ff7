//! Explicit-state model checking of the real protocol: every reachable state of small worlds, with the real driver,
//! step, authority, queue and record code in each worker. See `docs/proof.md`.

#[cfg(test)]
mod configs;
mod effects;
mod engine;
mod explore;
mod input;
mod intern;
mod judge;
mod next;
mod person;
mod real;
mod state;
mod worker;

#[cfg(test)]
mod tests;
