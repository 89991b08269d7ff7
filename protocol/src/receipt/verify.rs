//! Whether a receipt holds, from itself alone. It shows that a document was changed, or tells of something that the
//! protocol cannot do; that Keeper says the same is another question.

mod members;
mod order;
mod steps;

use super::Document;
use crate::identity::Names;
use crate::inventory::Inventory;
use std::fmt;

/// What is wrong with a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// Stable name.
    pub name: &'static str,
    /// For people.
    pub message: String,
}

impl Flaw {
    pub(super) fn new(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, message: message.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

/// Flaws, collected.
#[derive(Debug, Default)]
struct Flaws(Vec<Flaw>);

impl Flaws {
    fn unless(&mut self, holds: bool, name: &'static str, message: impl FnOnce() -> String) {
        if !holds {
            self.0.push(Flaw::new(name, message()));
        }
    }
}

/// Everything that is wrong; empty = the receipt holds.
pub fn verify(document: &Document) -> Vec<Flaw> {
    let mut flaws = Flaws::default();
    seals(document, &mut flaws);
    bound(document, &mut flaws);
    steps::check(&document.account, &mut flaws);
    order::check(document, &mut flaws);
    members::check(document, &mut flaws);
    flaws.0
}

fn seals(document: &Document, flaws: &mut Flaws) {
    flaws.unless(document.digest == document.seal(), "DigestMismatch", || {
        "the document is not what its digest was made of".into()
    });
    flaws.unless(document.account_digest == document.account.digest(), "AccountDigestMismatch", || {
        "the account is not what the authority record's digest was made of".into()
    });
}

/// B, A-8: what admission would not have bound.
fn bound(document: &Document, flaws: &mut Flaws) {
    let account = &document.account;
    let names = &account.names;
    let valid = Names::new(&names.cluster, &names.database, &names.target, &names.candidate);
    flaws.unless(valid.is_ok(), "NamesInvalid", || valid.err().map(|e| e.to_string()).unwrap_or_default());
    let inventory = Inventory { cluster: names.cluster.clone(), members: account.members.clone() };
    let numbers: std::collections::BTreeSet<_> = account.members.iter().map(|m| m.replica).collect();
    let servers: std::collections::BTreeSet<_> = account.members.iter().map(|m| &m.server_uuid).collect();
    let count = account.members.len();
    let whole = count >= 2 && numbers.len() == count && servers.len() == count;
    flaws.unless(whole && inventory.digest() == account.inventory_digest, "InventoryMismatch", || {
        "the members are not those of the inventory digest (A-5, B-1)".into()
    });
    flaws.unless(account.rows.admits(account.row_count), "RowCountOutside", || {
        format!("{} rows do not meet the expectation (B-8)", account.row_count)
    });
    let distinct = account.predecessor.as_ref().is_none_or(|old| {
        let new = &account.desired;
        old.uuid != new.uuid
            && (&old.zookeeper_name, &old.zookeeper_path) != (&new.zookeeper_name, &new.zookeeper_path)
    });
    flaws.unless(distinct, "SameGeneration", || {
        "predecessor and desired generation share UUID or replication path (B-7)".into()
    });
}
