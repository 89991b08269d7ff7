//! One inner SELECT, asked of members in either scope.

use super::connection::Connection;
use super::rows::Attributed;
use super::sql::{Inner, Sql};
use super::transport::Endpoint;
use clickhouse::{RowOwned, RowRead};
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::ReadFailure;

/// Where to ask.
#[derive(Clone, Copy)]
pub(super) enum From<'a> {
    /// One server, about itself.
    Server(&'a Endpoint, &'a ServerUuid),
    /// One server, about every member of this cluster.
    Cluster(&'a Endpoint, &'a str),
}

impl From<'_> {
    fn sql(&self, inner: &Inner) -> Sql {
        match self {
            Self::Server(..) => inner.here(),
            Self::Cluster(_, cluster) => inner.everywhere(cluster),
        }
    }

    /// The rows; in [`From::Server`] all of them must be that server's.
    pub(super) async fn rows<T>(self, connection: &Connection, inner: &Inner) -> Result<Vec<T>, ReadFailure>
    where
        T: RowOwned + RowRead + Attributed,
    {
        let (Self::Server(endpoint, _) | Self::Cluster(endpoint, _)) = self;
        let rows: Vec<T> = connection.read_any(endpoint, &self.sql(inner)).await?;
        if let Self::Server(_, server) = self {
            let foreign = |row: &T| ServerUuid::parse(row.server()).as_ref() != Some(server);
            if rows.iter().any(foreign) {
                return Err(ReadFailure::WrongServer);
            }
        }
        Ok(rows)
    }
}
