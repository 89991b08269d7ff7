//! B-4, B-7, B-9: what every member is asked before a slot is taken, each at its own endpoint, because rights and
//! settings are those of the user there. Rows only: the protocol judges.

use super::ask::From;
use super::backlog;
use super::catalog::MemberCatalog;
use super::rows::{
    ColumnRow, ConfiguredRow, DefinitionRow, GrantRow, LimitRow, PathRow, PolicyRow, ReplicaSetRow, UseRow,
};
use super::sql::{self, FACADE_TABLE, Inner};
use super::transport::Endpoint;
use super::{Connection, rows::Attributed};
use clickhouse::{RowOwned, RowRead};
use futures::future::join_all;
use futures::join;
use publication_protocol::identity::ServerUuid;
use publication_protocol::ports::ReadFailure;
use publication_protocol::preflight::{
    ConfiguredDictionary, Definition, FailedRead, Grant, Limits, MemberFacts, Policy, PreflightAnswer,
    PreflightAsk, ReplicaSet, TableUse,
};
use publication_protocol::sqltext::TableName;

const SELECT_SYSTEM: &str = "SELECT on system.*";
const SHOW_POLICIES: &str = "SHOW ROW POLICIES ON *.*";
const SHOW_GRANTS: &str = "SHOW USERS, SHOW ROLES ON *.*";
const SHOW_DICTIONARIES: &str = "SHOW DICTIONARIES ON *.*";

/// ClickHouse's own default, for a server that does not show the setting.
const DROP_BYTES_MAX_DEFAULT: u64 = 50_000_000_000;

impl MemberCatalog {
    /// [`publication_protocol::ports::Catalog::preflight`].
    pub(super) async fn read_preflight(&self, ask: &PreflightAsk) -> PreflightAnswer {
        let connection = self.connection();
        let looks = join_all(connection.endpoints().iter().map(|endpoint| one(connection, endpoint, ask)));
        let backlog = async {
            if ask.backlog { backlog::read(connection, &ask.cluster).await } else { Ok(Vec::new()) }
        };
        let (looks, backlog) = join!(looks, backlog);
        let facade =
            TableName { database: connection.control_database().to_owned(), table: FACADE_TABLE.to_owned() };
        let mut answer =
            PreflightAnswer { members: Vec::new(), failures: Vec::new(), facade, backlog: Vec::new() };
        for look in looks {
            match look {
                Ok(facts) => answer.members.push(facts),
                Err(failures) => answer.failures.extend(failures),
            }
        }
        match backlog {
            Ok(entries) => answer.backlog = entries,
            Err((endpoint, failure)) => {
                answer.failures.push(FailedRead { endpoint, failure, needs: SELECT_SYSTEM });
            }
        }
        answer
    }
}

/// One server's reads. All are made even if one is refused: every missing right is named at once (K19).
struct Look<'a> {
    connection: &'a Connection,
    endpoint: &'a Endpoint,
    server: ServerUuid,
}

impl Look<'_> {
    async fn rows<T>(&self, needs: &'static str, inner: Inner) -> Result<Vec<T>, FailedRead>
    where
        T: RowOwned + RowRead + Attributed,
    {
        let rows = From::Server(self.endpoint, &self.server).rows(self.connection, &inner).await;
        rows.map_err(|failure| failed(self.endpoint, failure, needs))
    }

    /// Newer servers know grants on prefixes; the column that tells is not there on older ones.
    async fn grants(&self, ask: &PreflightAsk) -> Result<Vec<GrantRow>, FailedRead> {
        let column = sql::system_column("grants", "is_wildcard");
        let wildcards = !self.rows::<ColumnRow>(SELECT_SYSTEM, column).await?.is_empty();
        let names = [ask.target.as_str(), ask.candidate.as_str()];
        self.rows(SHOW_GRANTS, sql::grants(&ask.database, &names, wildcards)).await
    }
}

pub(super) fn failed(endpoint: &Endpoint, failure: ReadFailure, needs: &'static str) -> FailedRead {
    FailedRead { endpoint: endpoint.label().to_owned(), failure, needs }
}

async fn one(
    connection: &Connection,
    endpoint: &Endpoint,
    ask: &PreflightAsk,
) -> Result<MemberFacts, Vec<FailedRead>> {
    let (server, server_version) =
        connection.identify(endpoint).await.map_err(|f| vec![failed(endpoint, f, SELECT_SYSTEM)])?;
    let look = Look { connection, endpoint, server };
    let (database, names) = (ask.database.as_str(), [ask.target.as_str(), ask.candidate.as_str()]);
    let (definitions, configured, uses, policies, grants, paths, sets, limits) = join!(
        look.rows::<DefinitionRow>(SELECT_SYSTEM, sql::definitions(&ask.target)),
        look.rows::<ConfiguredRow>(SHOW_DICTIONARIES, sql::configured_dictionaries()),
        look.rows::<UseRow>(SELECT_SYSTEM, sql::table_uses(database, &names)),
        look.rows::<PolicyRow>(SHOW_POLICIES, sql::row_policies(database, &names)),
        look.grants(ask),
        look.rows::<PathRow>(SELECT_SYSTEM, sql::same_path(&ask.zookeeper_path)),
        look.rows::<ReplicaSetRow>(SELECT_SYSTEM, sql::replica_sets(database, &names)),
        look.rows::<LimitRow>(SELECT_SYSTEM, sql::limits()),
    );
    let mut failures = Vec::new();
    let (definitions, configured, uses, policies) = (
        kept(definitions, &mut failures),
        kept(configured, &mut failures),
        kept(uses, &mut failures),
        kept(policies, &mut failures),
    );
    let (grants, paths, sets, limits) = (
        kept(grants, &mut failures),
        kept(paths, &mut failures),
        kept(sets, &mut failures),
        kept(limits, &mut failures),
    );
    if !failures.is_empty() {
        return Err(failures);
    }
    Ok(MemberFacts {
        server_uuid: look.server,
        server_version,
        definitions: definitions.into_iter().map(definition).collect(),
        configured: configured
            .into_iter()
            .map(|row| ConfiguredDictionary { name: row.name, source: row.source })
            .collect(),
        tables: uses.into_iter().map(table_use).collect(),
        policies: policies.into_iter().map(|row| Policy { name: row.short_name, table: row.table }).collect(),
        grants: grants.into_iter().map(grant).collect(),
        same_path: paths
            .into_iter()
            .map(|row| TableName { database: row.database, table: row.table })
            .collect(),
        replicas: sets
            .into_iter()
            .map(|row| ReplicaSet {
                table: row.table,
                own: row.replica_name,
                total: row.total_replicas,
                names: row.replicas,
            })
            .collect(),
        limits: judged_limits(&limits),
    })
}

fn kept<T>(rows: Result<Vec<T>, FailedRead>, failures: &mut Vec<FailedRead>) -> Vec<T> {
    rows.unwrap_or_else(|failure| {
        failures.push(failure);
        Vec::new()
    })
}

fn definition(row: DefinitionRow) -> Definition {
    let name = TableName { database: row.database, table: row.name };
    Definition { name, engine: row.engine, create_query: row.create_table_query }
}

fn table_use(row: UseRow) -> TableUse {
    let dependents = row.dependent_databases.into_iter().zip(row.dependent_tables);
    TableUse {
        name: row.name,
        bytes: row.bytes,
        loading_dependents: dependents.map(|(database, table)| TableName { database, table }).collect(),
    }
}

pub(super) fn grant(row: GrantRow) -> Grant {
    Grant {
        grantee: row.grantee,
        own: row.own != 0,
        access: row.access,
        database: row.on_database,
        table: row.on_table,
        column: row.on_column,
        revoked: row.is_partial_revoke != 0,
        wildcard: row.wildcard != 0,
    }
}

/// The user's own value of the drop limit goes with a statement to every host, and there it counts before the host's.
fn judged_limits(rows: &[LimitRow]) -> Limits {
    let of = |of_server: bool, name: &str, changed_only: bool| {
        let row = rows
            .iter()
            .find(|r| (r.of_server != 0) == of_server && r.name == name && (!changed_only || r.changed != 0));
        row.and_then(|row| row.value.parse::<u64>().ok())
    };
    let drop_limit = "max_table_size_to_drop";
    Limits {
        drop_bytes_max: of(false, drop_limit, true)
            .or_else(|| of(true, drop_limit, false))
            .unwrap_or(DROP_BYTES_MAX_DEFAULT),
        // What is not shown is taken to be on.
        checks_loading: of(false, "check_table_dependencies", false) != Some(0),
        checks_references: of(false, "check_referential_table_dependencies", false) != Some(0),
    }
}
