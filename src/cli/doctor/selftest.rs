//! `--self-test`: compare-and-swap in KeeperMap and one EXCHANGE, on scratch tables that are removed afterwards.
//!
//! Every statement is sent once. A lost answer is never followed by a second attempt: the queue and the tables tell.

use super::judge::plain;
use super::report::{Check, Step};
use crate::cli::plan::report::Level;
use crate::clickhouse::scratch::{Each, ScratchTables};
use crate::clickhouse::sql::{Scratch, ScratchStep};
use crate::clickhouse::{BootstrapOutcome, Connection, DistributedDdl};
use crate::controller::environment::{System, now};
use publication_protocol::authority::{Mutation, MutationOutcome, Predicate};
use publication_protocol::canonical::{Canonical, Digest};
use publication_protocol::identity::{Action, CorrelationToken};
use publication_protocol::inventory::{Inventory, Member};
use publication_protocol::ports::{Ddl, Environment};
use publication_protocol::queue::{QueueDoubt, QueueView, Sought, view};
use publication_protocol::record::RawRow;
use std::sync::Arc;
use std::time::Duration;

/// How often a statement's entry, or a row, is looked for, and how far apart.
const LOOKS_MAX: u32 = 40;
/// A statement that was refused leaves no entry, as a rule.
const LOOKS_REFUSED_MAX: u32 = 4;
const LOOK_EVERY: Duration = Duration::from_millis(250);

const MAP: &str = "self-test: KeeperMap";
const EXCHANGE: &str = "self-test: EXCHANGE";
const CLEAN_UP: &str = "self-test: clean-up";
const KEY: &str = "selftest";

/// What it ran, and what came of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Done {
    /// In order.
    pub steps: Vec<Step>,
    /// One for each part.
    pub checks: Vec<Check>,
}

/// Why a part did not come to its end.
type Problem = (Level, String);

struct Run<'a> {
    tables: ScratchTables,
    ddl: DistributedDdl,
    inventory: &'a Inventory,
    first: &'a Member,
    operation: Digest,
    /// Drops of what may be there.
    owed: Vec<ScratchStep>,
    steps: Vec<Step>,
    checks: Vec<Check>,
}

/// Runs both parts, whatever the first gives, and removes the tables, also when it is interrupted.
pub(super) async fn run(connection: &Arc<Connection>, inventory: &Inventory) -> Done {
    let Some(first) = inventory.members.first() else { return Done::default() };
    let scratch = Scratch::draw(connection.control_database(), connection.cluster(), &System.random());
    let ddl = DistributedDdl::new(Arc::clone(connection), Arc::new(now));
    let operation =
        scratch.names().iter().fold(Canonical::new("selftest/v1"), |d, name| d.text(name)).digest();
    let tables = ScratchTables::new(Arc::clone(connection), ddl.clone(), scratch);
    let (owed, steps, checks) = (Vec::new(), Vec::new(), Vec::new());
    let mut run = Run { tables, ddl, inventory, first, operation, owed, steps, checks };
    let interrupted = tokio::select! {
        () = run.parts() => false,
        _ = tokio::signal::ctrl_c() => true,
    };
    if interrupted {
        let evidence = "interrupted; the tables are removed".to_owned();
        run.checks.push(plain(Level::Unknown, EXCHANGE, "D-3", evidence, None));
    }
    run.clean_up().await;
    Done { steps: run.steps, checks: run.checks }
}

impl Run<'_> {
    async fn parts(&mut self) {
        let well = "a strict INSERT is refused a second time, an UPDATE moves the row under its version only, all read alike";
        let map = self.map().await.map(|()| well.to_owned());
        self.told(MAP, "C-3", map);
        let exchanged = self.exchange().await;
        self.told(EXCHANGE, "D-3", exchanged);
    }

    fn told(&mut self, check: &'static str, rule: &'static str, result: Result<String, Problem>) {
        let (level, evidence) = result.map_or_else(|problem| problem, |well| (Level::Ok, well));
        let remedy = match level {
            Level::Ok => None,
            Level::Block => Some(
                "See what the self-test ran below; the user needs CREATE TABLE, DROP TABLE, SELECT, INSERT and \
                 ALTER UPDATE in the control database, the servers keeper_map_path_prefix.",
            ),
            _ => Some(
                "It was not sent again. Look at the queue (system.distributed_ddl_queue), then run it anew.",
            ),
        };
        self.checks.push(plain(level, check, rule, evidence, remedy));
    }

    /// C-2, C-3, as the operator's own statements do it.
    async fn map(&mut self) -> Result<(), Problem> {
        use MutationOutcome::{Acknowledged, Conflict};
        self.owed.push(ScratchStep::DropMap);
        self.distributed(ScratchStep::CreateMap).await?;
        self.mutate(&Mutation::Insert(row("FIRST")), &[Acknowledged]).await?;
        self.mutate(&Mutation::Insert(row("SECOND")), &[Conflict]).await?;
        self.all_read("FIRST", 0).await?;
        let under = |version, phase: &str| Predicate {
            version,
            operation_id: KEY.to_owned(),
            fence_token: KEY.to_owned(),
            phase: phase.to_owned(),
        };
        let moved = Mutation::Update { row: row("SECOND"), expected: under(0, "FIRST") };
        self.mutate(&moved, &[Acknowledged]).await?;
        self.all_read("SECOND", 1).await?;
        // A stale predicate is acknowledged and moves nothing: only the read tells.
        let stale = Mutation::Update { row: row("THIRD"), expected: under(0, "FIRST") };
        self.mutate(&stale, &[Acknowledged, Conflict]).await?;
        self.all_read("SECOND", 1).await
    }

    async fn mutate(&mut self, mutation: &Mutation, wanted: &[MutationOutcome]) -> Result<(), Problem> {
        let answer = self.tables.mutate(&self.first.server_uuid, mutation).await;
        let result = match answer.outcome {
            _ if answer.transport_calls != 1 => Err((Level::Block, "the transport did not call once")),
            found if wanted.contains(&found) => Ok(()),
            MutationOutcome::Unknown => Err((Level::Unknown, "the answer was lost, or proves nothing")),
            MutationOutcome::Refused => Err((Level::Block, "refused by the server")),
            MutationOutcome::Conflict => Err((Level::Block, "refused as a conflict, which it is not")),
            MutationOutcome::Acknowledged => Err((
                Level::Block,
                "acknowledged, although the row exists: keeper_map_strict_mode has no effect",
            )),
        };
        let outcome = match (&result, wanted) {
            (Err((_, why)), _) => (*why).to_owned(),
            (Ok(()), [MutationOutcome::Conflict]) => "refused as a conflict, as it must be".to_owned(),
            (Ok(()), _) => "acknowledged".to_owned(),
        };
        let sql = self.tables.scratch().mutation(mutation).text().to_owned();
        self.steps.push(Step { sql, sent_to: self.first.name(), outcome });
        result.map_err(|(level, why)| (level, format!("a statement on the scratch table was {why}")))
    }

    /// C-13: reads may lag, so they are repeated within bounds.
    async fn all_read(&self, phase: &str, version: i64) -> Result<(), Problem> {
        let mut rows = Vec::new();
        for _ in 0..LOOKS_MAX {
            rows = self.tables.rows(KEY).await;
            if rows.iter().all(|(_, row)| *row == Ok(Some((phase.to_owned(), version)))) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let each = rows.iter().map(|(endpoint, row)| match row {
            Ok(Some((phase, version))) => format!("{endpoint}: {phase} at version {version}"),
            Ok(None) => format!("{endpoint}: no row"),
            Err(failure) => format!("{endpoint}: {failure:?}"),
        });
        let each = each.collect::<Vec<_>>().join(", ");
        Err((Level::Block, format!("members do not read {phase} at version {version}: {each}")))
    }

    async fn exchange(&mut self) -> Result<String, Problem> {
        self.owed.extend([ScratchStep::DropFirst, ScratchStep::DropSecond]);
        self.distributed(ScratchStep::CreateFirst).await?;
        self.distributed(ScratchStep::CreateSecond).await?;
        let before = self.pairs().await?;
        self.distributed(ScratchStep::Exchange).await?;
        let after = self.pairs().await?;
        let swapped = |(was, is): (&Pair, &Pair)| was.0 == is.0 && (&was.1, &was.2) == (&is.2, &is.1);
        if before.len() == after.len() && before.iter().zip(&after).all(swapped) {
            return Ok(
                "one entry with its token, finished on every member, which all have the tables swapped"
                    .to_owned(),
            );
        }
        let not = before.iter().zip(&after).filter(|pair| !swapped(*pair)).map(|(was, _)| was.0.clone());
        let not = not.collect::<Vec<_>>().join(", ");
        Err((
            Level::Block,
            format!("the queue says that it finished, and the tables are not swapped once at {not}"),
        ))
    }

    async fn pairs(&self) -> Result<Vec<Pair>, Problem> {
        let [_, first, second] = self.tables.scratch().names();
        let found: Each<_> = self.tables.uuids().await;
        let pair = |(endpoint, tables): (String, Result<std::collections::BTreeMap<String, String>, _>)| {
            let tables = tables.map_err(|failure| (Level::Unknown, format!("{endpoint}: {failure:?}")))?;
            match (tables.get(&first), tables.get(&second)) {
                (Some(a), Some(b)) if a != b => Ok((endpoint, a.clone(), b.clone())),
                _ => Err((
                    Level::Block,
                    format!("{endpoint} does not have both scratch tables with UUIDs of their own"),
                )),
            }
        };
        found.into_iter().map(pair).collect()
    }

    /// Sends a distributed statement once, and follows its entry.
    async fn distributed(&mut self, step: ScratchStep) -> Result<(), Problem> {
        let epoch = self.steps.len() as u64;
        let token = CorrelationToken::draw(self.operation, Action::Bootstrap, epoch, &System.random());
        let sent = self.tables.send(&self.first.server_uuid, step, &token).await;
        let result = self.settled(step, &token, sent).await;
        let lost = if sent == BootstrapOutcome::Unknown { "the answer was lost; " } else { "" };
        let said = match &result {
            Ok(entry) => format!("{lost}done on every member ({entry})"),
            Err((_, why)) => format!("{lost}{why}"),
        };
        let sql = self.tables.scratch().sql(step).text().to_owned();
        let kind = sql.split(' ').next().unwrap_or_default().to_owned();
        self.steps.push(Step { sql, sent_to: self.first.name(), outcome: said.clone() });
        result.map(|_| ()).map_err(|(level, _)| (level, format!("{kind}: {said}")))
    }

    /// The entry's name, once it has ended well everywhere.
    async fn settled(
        &self,
        step: ScratchStep,
        token: &CorrelationToken,
        sent: BootstrapOutcome,
    ) -> Result<String, Problem> {
        let refused = match sent {
            BootstrapOutcome::NotSent => return Err((Level::Unknown, "not sent: no connection".to_owned())),
            BootstrapOutcome::OneShotViolation => {
                return Err((Level::Block, "the transport did not call once".to_owned()));
            }
            BootstrapOutcome::Answered(code) => code,
            BootstrapOutcome::Unknown => None,
        };
        let statement = self.tables.scratch().statement(step);
        let sought = Sought { token, statement: &statement, bound: None, inventory: self.inventory };
        let mut last = String::new();
        for _ in 0..if refused.is_some() { LOOKS_REFUSED_MAX } else { LOOKS_MAX } {
            let rows = self.ddl.scan(&statement.cluster, std::slice::from_ref(token)).await;
            last = match rows.map(|rows| view(&rows, sought)) {
                Ok(QueueView::Terminal { binding, receipt }) if receipt.is_success() => {
                    return Ok(binding.entry);
                }
                Ok(QueueView::Terminal { receipt, .. }) => {
                    let codes = self.inventory.members.iter().map(|member| {
                        format!(
                            "{} code {}",
                            member.name(),
                            receipt.codes.get(&member.server_uuid).unwrap_or(&0)
                        )
                    });
                    let codes = codes.collect::<Vec<_>>().join(", ");
                    return Err((Level::Block, format!("ended with {codes}")));
                }
                Ok(QueueView::InProgress { .. }) => "not finished on every member".to_owned(),
                Ok(QueueView::Unknown(QueueDoubt::NotFound)) => "no entry in the queue".to_owned(),
                Ok(QueueView::Unknown(doubt)) => {
                    format!("the queue does not show it as it was sent ({doubt:?})")
                }
                Err(failure) => format!("the queue cannot be read ({failure:?})"),
            };
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(match refused {
            Some(code) => (Level::Block, format!("refused with code {code}; {last}")),
            None => (Level::Unknown, last),
        })
    }

    /// DROP IF EXISTS of names that nothing else bears, behind whatever of ours is in the queue.
    async fn clean_up(&mut self) {
        for step in std::mem::take(&mut self.owed) {
            // What came of it is seen on the tables.
            let _ = self.distributed(step).await;
        }
        let found = self.tables.uuids().await;
        let left = found.iter().flat_map(|(endpoint, tables)| match tables {
            Ok(tables) => tables.keys().map(|name| format!("{name} at {endpoint}")).collect::<Vec<_>>(),
            Err(failure) => vec![format!("unknown at {endpoint} ({failure:?})")],
        });
        let left: Vec<String> = left.collect();
        self.checks.push(if left.is_empty() {
            plain(
                Level::Ok,
                CLEAN_UP,
                "G-3",
                "the scratch tables are gone from every member".to_owned(),
                None,
            )
        } else {
            let remedy = "Drop what is left on those members by hand; the names are this self-test's own.";
            let evidence = format!("scratch tables that may be left: {}", left.join(", "));
            plain(Level::Warn, CLEAN_UP, "G-3", evidence, Some(remedy))
        });
    }
}

/// Endpoint, UUID of the first, UUID of the second.
type Pair = (String, String, String);

fn row(phase: &str) -> RawRow {
    let payload = "{}".to_owned();
    RawRow {
        target_key: KEY.to_owned(),
        operation_id: KEY.to_owned(),
        fence_token: KEY.to_owned(),
        phase: phase.to_owned(),
        dispatch_epoch: 0,
        payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
        payload,
    }
}
