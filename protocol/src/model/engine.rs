//! The real driver behind numbers. A step of it is computed once, and looked up when it comes up again in another
//! state: `Driver::next` is a function of driver, input and tick (it has no other way to know anything).

use super::input::{InputKey, Sent, Tick};
use super::intern::Interner;
use super::real;
use crate::authority::{DispatchPermit, Mutation};
use crate::classify::Classification;
use crate::code::ErrorCode;
use crate::driver::{Call, Driver, End, Memory};
use crate::identity::{Action, CorrelationToken, ServerUuid};
use crate::intent::Intent;
use crate::ports::{MembersAsk, SendOutcome};
use crate::preflight::PreflightAsk;
use crate::record::{Record, VersionedRow};
use crate::sqltext::Statement;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// A pending call as data. The permit of a `Send` is not part of it: it is issued anew, by the real code, from where
/// the call came from, when it is needed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum CallData {
    ReadSlot,
    Members(MembersAsk),
    Preflight(PreflightAsk),
    Scan(Vec<CorrelationToken>),
    Backlog,
    Mutate(ServerUuid, Mutation),
    ReadExact(ServerUuid),
    Witness(u64),
    OwnerGone(String),
    Send(Origin, u32),
    Finish(Ended),
}

/// The step that issued a permit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) driver: u32,
    pub(crate) input: Box<InputKey>,
    pub(crate) tick: Tick,
}

/// What a model keeps of a report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) class: Option<Classification>,
    pub(crate) codes: Vec<ErrorCode>,
    pub(crate) seen: Option<u64>,
    pub(crate) stale: bool,
}

/// A statement that was ordered with a permit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Stmt {
    pub(crate) op: u8,
    pub(crate) action: Action,
    pub(crate) epoch: u64,
    pub(crate) token: String,
    pub(crate) statement: Statement,
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) intents: Vec<Intent>,
    pub(crate) drivers: Interner<Driver>,
    pub(crate) calls: Interner<CallData>,
    pub(crate) rows: Interner<VersionedRow>,
    pub(crate) stmts: Interner<Stmt>,
    /// Tables of a member: name to generation.
    pub(crate) tables: Interner<Vec<(String, u8)>>,
    records: HashMap<u32, Rc<Record>>,
    steps: HashMap<(u32, InputKey, Tick), (u32, u32)>,
    /// What was reached, for the tests' table of what must be.
    pub(crate) reached: BTreeSet<String>,
}

impl Engine {
    pub(crate) fn new(operations: u8) -> Self {
        Self {
            intents: (0..operations).filter_map(real::intent).collect(),
            drivers: Interner::new(),
            calls: Interner::new(),
            rows: Interner::new(),
            stmts: Interner::new(),
            tables: Interner::new(),
            records: HashMap::new(),
            steps: HashMap::new(),
            reached: BTreeSet::new(),
        }
    }

    /// A new pass and its first call.
    pub(crate) fn begin(&mut self, intent: Intent, memory: Memory, tick: Tick) -> Result<(u32, u32), String> {
        let driver = self.drivers.id(Driver::new(intent, memory));
        self.step(driver, InputKey::Begin, tick)
    }

    /// One step of the real driver.
    pub(crate) fn step(&mut self, driver: u32, input: InputKey, tick: Tick) -> Result<(u32, u32), String> {
        let key = (driver, input, tick);
        if let Some(known) = self.steps.get(&key) {
            return Ok(*known);
        }
        let (next, call) = self.run(driver, &key.1, tick)?;
        let origin = Origin { driver, input: Box::new(key.1.clone()), tick };
        let call = self.data(call, origin)?;
        let result = (self.drivers.id(next), self.calls.id(call));
        self.steps.insert(key, result);
        Ok(result)
    }

    fn run(&mut self, driver: u32, input: &InputKey, tick: Tick) -> Result<(Driver, Call), String> {
        let input = super::input::real(self, input)?;
        let mut next = (*self.drivers.get(driver)).clone();
        let call = next.next(input, &tick.real());
        if let Some(class) = next.forget_what_only_reports_show() {
            self.note_class(class);
        }
        Ok((next, call))
    }

    /// The permit of a pending `Send`, issued by the real code again.
    fn permit(&mut self, origin: &Origin) -> Result<DispatchPermit, String> {
        match self.run(origin.driver, &origin.input, origin.tick)? {
            (_, Call::Send(permit, _)) => Ok(permit),
            (_, other) => Err(format!("no permit where one was issued before: {other:?}")),
        }
    }

    /// C-12 by the real code: in time it is accepted, late it comes back.
    pub(crate) fn sent(&mut self, call: u32, sent: Sent) -> Result<SendOutcome, String> {
        let CallData::Send(origin, stmt) = (*self.calls.get(call)).clone() else {
            return Err("an answer to a statement that was not sent".into());
        };
        let permit = self.permit(&origin)?;
        let stmt = self.stmts.get(stmt);
        if permit.token().as_str() != stmt.token || permit.action() != stmt.action {
            return Err("a permit for another statement than the one ordered".into());
        }
        let begun = origin.tick.real().now;
        match sent {
            Sent::NotWritten => Ok(SendOutcome::NotSent(permit)),
            Sent::TooLate => match permit.redeem(real::later(begun)) {
                Err(permit) => Ok(SendOutcome::NotSent(permit)),
                Ok(_) => Err("C-12: a permit was accepted long after its time".into()),
            },
            Sent::Answered | Sent::Unknown => match permit.redeem(begun) {
                Ok(_) if sent == Sent::Answered => Ok(SendOutcome::Answered),
                Ok(_) => Ok(SendOutcome::Unknown),
                Err(_) => Err("C-12: a fresh permit was refused".into()),
            },
        }
    }

    fn data(&mut self, call: Call, origin: Origin) -> Result<CallData, String> {
        Ok(match call {
            Call::ReadSlot(_) => CallData::ReadSlot,
            Call::Members(ask) => CallData::Members(ask),
            Call::Preflight(ask) => CallData::Preflight(ask),
            Call::Scan(_, tokens) => CallData::Scan(tokens),
            Call::Backlog(_) => CallData::Backlog,
            Call::Mutate(server, mutation) => CallData::Mutate(server, mutation),
            Call::ReadExact(server, _) => CallData::ReadExact(server),
            Call::Witness(_, version) => CallData::Witness(version),
            Call::OwnerGone(owner) => CallData::OwnerGone(owner.uid),
            Call::Send(permit, order) => {
                let op = self.intents.iter().position(|i| i.operation == permit.operation());
                let stmt = Stmt {
                    op: op.ok_or("a permit of nobody")? as u8,
                    action: permit.action(),
                    epoch: permit.epoch(),
                    token: permit.token().as_str().to_owned(),
                    statement: order.statement,
                };
                CallData::Send(origin, self.stmts.id(stmt))
            }
            Call::Finish(report) => {
                let ended = Ended {
                    end: report.end,
                    class: report.class,
                    codes: report.findings.iter().map(|f| f.code).collect(),
                    seen: report.memory.seen.map(|(version, _)| version),
                    stale: report.memory.stale_since.is_some(),
                };
                self.reached.insert(format!("end {:?}", ended.end));
                if let Some(class) = ended.class {
                    self.note_class(class);
                }
                CallData::Finish(ended)
            }
        })
    }

    fn note_class(&mut self, class: Classification) {
        self.reached.insert(format!("class {}", class.as_str()));
        if let Some(cause) = class.cause() {
            self.reached.insert(format!("cause {}/{cause}", class.as_str()));
        }
    }

    /// The record of a row, by the real codec.
    pub(crate) fn record(&mut self, row: u32) -> Result<Rc<Record>, String> {
        if let Some(known) = self.records.get(&row) {
            return Ok(known.clone());
        }
        let record = Record::decode(&self.rows.get(row).row).map_err(|e| format!("C-9: {e}"))?;
        self.reached.insert(format!("phase {}", record.phase));
        let record = Rc::new(record);
        self.records.insert(row, record.clone());
        Ok(record)
    }
}
