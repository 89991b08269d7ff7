//! K13: what hosts have not finished of the DDL queue: for `plan`, and for the diagnosis of a statement of ours. No
//! text of a statement is read.

use super::connection::Connection;
use super::rows::BacklogRow;
use super::sql;
use publication_protocol::ports::ReadFailure;
use publication_protocol::preflight::{Backlog, EntryState};

/// One scan, through the first endpoint that answers; else the last one's label and failure.
pub(super) async fn read(
    connection: &Connection,
    cluster: &str,
) -> Result<Vec<Backlog>, (String, ReadFailure)> {
    let mut last = None;
    for endpoint in connection.endpoints() {
        match connection.read::<BacklogRow>(endpoint, &sql::backlog(cluster)).await {
            // The row without an entry is there to say who answers.
            Ok((_, rows)) => {
                return Ok(rows.into_iter().filter(|row| !row.entry.is_empty()).map(of).collect());
            }
            Err(failure) => last = Some((endpoint.label().to_owned(), failure)),
        }
    }
    last.map_or_else(|| Ok(Vec::new()), Err)
}

fn of(row: BacklogRow) -> Backlog {
    let state = EntryState::of(&row.status);
    Backlog { entry: row.entry, host: row.host, port: row.port, state, age_s: row.age_s }
}
