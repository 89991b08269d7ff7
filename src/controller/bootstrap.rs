//! B-5, B-6: the facade is created once, and bound to one cluster.

use super::cluster::{Examined, project};
use super::context::Context;
use super::environment::{System, now};
use super::kube_writes::{Version, apply_status_over};
use super::loss::Loss;
use crate::api::PublicationCluster;
use crate::clickhouse::probe::{ServerProbe, probe};
use crate::clickhouse::{Authority, BootstrapOutcome, Connection, DistributedDdl};
use publication_protocol::admission::{Finding, label, read_failure};
use publication_protocol::authority::{Mutation, MutationOutcome};
use publication_protocol::canonical::Canonical;
use publication_protocol::code::ErrorCode;
use publication_protocol::facade::{
    BINDING_KEY, FACADE_TABLE, FacadeBinding, FacadeDecision, FacadeFact, FacadeMemory, decide, unbound,
};
use publication_protocol::identity::{Action, CorrelationToken, RootId};
use publication_protocol::inventory::Inventory;
use publication_protocol::ports::{AuthorityRead, ControlTable, Ddl, Environment, ReadFailure};
use publication_protocol::queue::{QueueDoubt, QueueView, Sought, view};
use publication_protocol::record::VersionedRow;
use publication_protocol::sqltext::{Ddl as Statement, Statement as Full, TableName};
use std::sync::Arc;
use std::time::Duration;

pub(super) use crate::cluster_access::examination::BOOTSTRAPPING;

/// How often the bootstrap's entry is looked for in one pass, and how far apart.
const LOOKS_MAX: u32 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Makes sure that the facade exists, the same on every member; gives its root.
pub(super) async fn facade(
    ctx: &Context,
    cluster: (&PublicationCluster, &Version),
    connection: &Arc<Connection>,
    inventory: &Inventory,
    servers: &[ServerProbe],
    memory: FacadeMemory,
    examined: &mut Examined,
) -> Result<RootId, Finding> {
    let database = connection.control_database();
    match decide(database, &facts(database, inventory, servers), memory) {
        FacadeDecision::Ready(root) => Ok(root),
        FacadeDecision::Blocked(finding) => Err(finding),
        FacadeDecision::Create(root) => {
            if servers.iter().any(|server| !server.facades.is_empty()) {
                may_fill(connection, inventory).await?;
            }
            create(ctx, connection, inventory, root).await
        }
        FacadeDecision::Lost => {
            let loss = Loss { ctx, cluster: cluster.0, connection, inventory };
            // Whatever stands against it, the facade is not ready.
            loss.accept_gone(memory.root).await.map_err(|finding| Finding { rule: "B-6", ..finding })?;
            draw(ctx, cluster, connection, inventory, examined).await
        }
        FacadeDecision::Draw => draw(ctx, cluster, connection, inventory, examined).await,
    }
}

async fn draw(
    ctx: &Context,
    cluster: (&PublicationCluster, &Version),
    connection: &Arc<Connection>,
    inventory: &Inventory,
    examined: &mut Examined,
) -> Result<RootId, Finding> {
    let root = RootId::draw(&System.random());
    examined.root = Some(root);
    examined.drawn = true;
    record_root(ctx, cluster, examined).await?;
    create(ctx, connection, inventory, root).await
}

fn facts(database: &str, inventory: &Inventory, servers: &[ServerProbe]) -> Vec<FacadeFact> {
    let fact = |server: &ServerProbe| FacadeFact {
        member: inventory.by_uuid(&server.server_uuid).map(label).unwrap_or_default(),
        tables: server.facades.iter().map(|facade| facade.as_fact(database)).collect(),
    };
    servers.iter().map(fact).collect()
}

/// B-6: the root is in the status before the first CREATE, so that a repetition uses the same one.
async fn record_root(
    ctx: &Context,
    (cluster, version): (&PublicationCluster, &Version),
    examined: &Examined,
) -> Result<(), Finding> {
    let finding = Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", "the facade is being created");
    let status = project(cluster, examined, Some(&finding));
    apply_status_over(&ctx.client, cluster, &status, version).await.map_err(|_| {
        Finding::wait(
            ErrorCode::AuthorityUnavailable,
            "B-6",
            "the new root could not be written to the status",
        )
    })
}

/// B-5, B-6: whose a facade is that only some members have is asked before anything is created over it.
async fn may_fill(connection: &Arc<Connection>, inventory: &Inventory) -> Result<(), Finding> {
    let read = Authority::new(Arc::clone(connection)).read_all(BINDING_KEY).await;
    if let Some((endpoint, failure)) = read.failures.iter().find(|(_, f)| *f != ReadFailure::NoTable) {
        return Err(read_failure(endpoint, *failure));
    }
    FacadeBinding::of(inventory).admits_filling(newest(&read).map(|found| &found.row))
}

fn newest(read: &AuthorityRead) -> Option<&VersionedRow> {
    read.rows.iter().filter_map(|(_, row)| row.as_ref()).max_by_key(|row| row.version)
}

async fn create(
    ctx: &Context,
    connection: &Arc<Connection>,
    inventory: &Inventory,
    root: RootId,
) -> Result<RootId, Finding> {
    if ctx.is_stopping() {
        return Err(Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", "the operator is stopping"));
    }
    let ddl = DistributedDdl::new(Arc::clone(connection), Arc::new(now));
    let operation = Canonical::new("bootstrap/v1").text(&root.to_string()).digest();
    let token = CorrelationToken::draw(operation, Action::Bootstrap, 0, &System.random());
    let Some(first) = inventory.members.first() else { return Err(unfinished("no member")) };
    match ddl.bootstrap(&first.server_uuid, root, &token).await {
        BootstrapOutcome::OneShotViolation => {
            ctx.halt();
            return Err(Finding::block(
                ErrorCode::InternalInvariant,
                "C-4",
                "the transport did not call once",
            ));
        }
        BootstrapOutcome::NotSent => return Err(unfinished("the statement could not be sent")),
        BootstrapOutcome::Answered(_) | BootstrapOutcome::Unknown => {}
    }
    settle(&ddl, connection, inventory, &token).await?;
    let servers: Vec<ServerProbe> =
        probe(connection).await.into_iter().filter_map(|p| p.answer.ok()).collect();
    let database = connection.control_database();
    let memory = FacadeMemory { root: Some(root), was_ready: true };
    match decide(database, &facts(database, inventory, &servers), memory) {
        FacadeDecision::Ready(root) if servers.len() == inventory.members.len() => Ok(root),
        FacadeDecision::Blocked(finding) => Err(finding),
        _ => Err(unfinished("the facade is not on every member yet")),
    }
}

/// B-4, B-6: the entry is found by its token, and finished on every member.
async fn settle(
    ddl: &DistributedDdl,
    connection: &Connection,
    inventory: &Inventory,
    token: &CorrelationToken,
) -> Result<(), Finding> {
    let table =
        TableName { database: connection.control_database().to_owned(), table: FACADE_TABLE.to_owned() };
    let statement =
        Full { ddl: Statement::CreateIfNotExists { table }, cluster: connection.cluster().to_owned() };
    let sought = Sought { token, statement: &statement, bound: None, inventory };
    for _ in 0..LOOKS_MAX {
        let rows = ddl.scan(connection.cluster(), std::slice::from_ref(token)).await;
        match rows.map(|rows| view(&rows, sought)) {
            Ok(QueueView::Terminal { receipt, .. }) if receipt.is_success() => return Ok(()),
            Ok(QueueView::Terminal { receipt, .. }) => {
                let codes: Vec<String> = inventory
                    .members
                    .iter()
                    .map(|m| format!("{} code {}", label(m), receipt.codes.get(&m.server_uuid).unwrap_or(&0)))
                    .collect();
                let message = format!(
                    "the facade could not be created: {}; is keeper_map_path_prefix set, and may the user create tables there?",
                    codes.join(", ")
                );
                return Err(Finding::block(ErrorCode::CapabilityMissing, "B-4", message));
            }
            Ok(QueueView::Unknown(
                doubt @ (QueueDoubt::SeveralEntries | QueueDoubt::ForeignStatement | QueueDoubt::Hosts),
            )) => {
                let message = format!("the queue does not show the bootstrap as it was sent ({doubt:?})");
                return Err(Finding::block(ErrorCode::CapabilityMissing, "B-4", message));
            }
            Ok(QueueView::InProgress { .. } | QueueView::Unknown(_)) | Err(_) => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
    Err(unfinished("its statement is not finished on every member"))
}

fn unfinished(what: &str) -> Finding {
    Finding::wait(ErrorCode::AuthorityUnavailable, "B-6", format!("the facade is not complete: {what}"))
}

/// B-5 (m): one reserved row binds the facade to one cluster name and its servers. `may_write`: a row that is missing
/// from a facade that was in use is a lost authority, not a new facade (B-6).
pub(super) async fn binding(
    connection: &Arc<Connection>,
    inventory: &Inventory,
    may_write: bool,
) -> Result<(), Finding> {
    let authority = Authority::new(Arc::clone(connection));
    let binding = FacadeBinding::of(inventory);
    let read = authority.read_all(BINDING_KEY).await;
    if let Some((endpoint, failure)) = read.failures.first() {
        return Err(read_failure(endpoint, *failure));
    }
    if let Some(found) = newest(&read) {
        return binding.matches(&found.row);
    }
    if !may_write {
        return Err(unbound());
    }
    let Some((server, _)) = read.rows.first() else { return Err(unfinished("no member answered")) };
    let wanted = binding.encode();
    let answer = authority.mutate(server, &Mutation::Insert(wanted.clone())).await;
    if answer.outcome != MutationOutcome::Acknowledged || answer.transport_calls != 1 {
        // A race or a lost answer: the row tells, at the next pass.
        return Err(unfinished("its binding row is not proved yet"));
    }
    match authority.read_exact(server, BINDING_KEY).await {
        Some((at, Some(found))) if at == *server => binding.matches(&found.row),
        _ => Err(unfinished("its binding row is not proved yet")),
    }
}
