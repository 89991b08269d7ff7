//! The publication protocol.
