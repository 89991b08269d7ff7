//! What `doctor` asks beyond a probe: the user's rights on each member, and what is unfinished in the DDL queue.

use super::Connection;
use super::ask::From;
use super::preflight::{failed, grant};
use super::rows::{ColumnRow, GrantRow};
use super::transport::Endpoint;
use super::{backlog, sql};
use futures::future::join_all;
use futures::join;
use publication_protocol::identity::ServerUuid;
use publication_protocol::preflight::{Backlog, FailedRead, Grant};

const SELECT_SYSTEM: &str = "SELECT on system.*";
const SHOW_GRANTS: &str = "SHOW USERS, SHOW ROLES ON *.*";

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// The user's own rights, by the server that told them.
    pub grants: Vec<Result<(ServerUuid, Vec<Grant>), FailedRead>>,
    /// One scan of the queue.
    pub backlog: Result<Vec<Backlog>, FailedRead>,
}

/// Reads only.
pub async fn checkup(connection: &Connection) -> Checkup {
    let grants = join_all(connection.endpoints().iter().map(|endpoint| own_grants(connection, endpoint)));
    let (grants, backlog) = join!(grants, backlog::read(connection, connection.cluster()));
    let needs = SELECT_SYSTEM;
    let backlog = backlog.map_err(|(endpoint, failure)| FailedRead { endpoint, failure, needs });
    Checkup { grants, backlog }
}

async fn own_grants(
    connection: &Connection,
    endpoint: &Endpoint,
) -> Result<(ServerUuid, Vec<Grant>), FailedRead> {
    let identified = connection.identify(endpoint).await;
    let (server, _) = identified.map_err(|failure| failed(endpoint, failure, SELECT_SYSTEM))?;
    let from = From::Server(endpoint, &server);
    let column = sql::system_column("grants", "is_wildcard");
    let known = from.rows::<ColumnRow>(connection, &column).await;
    let wildcards = !known.map_err(|failure| failed(endpoint, failure, SELECT_SYSTEM))?.is_empty();
    let rows = from.rows::<GrantRow>(connection, &sql::own_grants(wildcards)).await;
    let rows = rows.map_err(|failure| failed(endpoint, failure, SHOW_GRANTS))?;
    Ok((server, rows.into_iter().map(grant).collect()))
}
