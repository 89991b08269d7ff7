//! ClickHouse over HTTP(S): the protocol's ports `ControlTable`, `Catalog` and `Ddl`.
//!
//! A [`Connection`] is built for each pass. Reads are bounded; mutations and distributed statements go over the
//! one-shot transport (C-4). Nothing here retries, decides, or keeps a server's text.

mod ask;
mod authority;
mod backlog;
mod catalog;
pub mod checkup;
mod connection;
mod ddl;
pub mod error;
#[cfg(test)]
mod error_fuzz;
mod members;
mod meter;
mod permit;
mod preflight;
pub mod probe;
mod processes;
pub mod rows;
pub mod scratch;
mod settings;
pub mod sql;
mod tls;
mod transport;
mod wire;

pub use authority::Authority;
pub use catalog::MemberCatalog;
pub use connection::{Connection, ConnectionError, ConnectionSpec};
pub use ddl::{BootstrapOutcome, Clock, DistributedDdl};
pub use processes::MemberProcesses;
pub use tls::{ClientCertificate, TlsError, TlsMaterial};
pub use transport::{Answer, Endpoint, OneShot, Timeouts};
