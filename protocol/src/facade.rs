//! B-5, B-6: the KeeperMap facade: where it is, whether it is one, and when it may be created.

use crate::admission::Finding;
use crate::canonical::Digest;
use crate::code::ErrorCode;
use crate::identity::{RootId, ServerUuid};
use crate::inventory::Inventory;
use crate::limits::RECORD_BYTES_MAX;
use crate::record::{RawRow, RecordError, VersionedRow};
use serde::{Deserialize, Serialize};

/// Fixed name of the facade in the platform's control database.
pub const FACADE_TABLE: &str = "publication_authority";
/// Key of the reserved row that binds a facade to one cluster (B-5).
pub const BINDING_KEY: &str = "facade";

/// One facade table found on a member, over all its databases.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FacadeTable {
    /// Its database.
    pub database: String,
    /// The id that its Keeper root ends in; none = another kind of root.
    pub root: Option<RootId>,
    /// Columns and primary key are those of section C.
    pub schema_matches: bool,
}

/// What one member has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FacadeFact {
    /// How the member is named to people.
    pub member: String,
    /// Facades, over all databases.
    pub tables: Vec<FacadeTable>,
}

/// The facade as a member shows it together with a slot: a pass uses none whose identity it did not see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FacadeSeen {
    /// None = the catalog does not show it.
    pub table: Option<FacadeTable>,
    /// The reserved row; none = there is none.
    pub binding: Option<VersionedRow>,
}

impl FacadeSeen {
    /// As it is where nothing is wrong.
    pub fn of(database: &str, root: RootId, inventory: &Inventory) -> Self {
        let table = FacadeTable { database: database.to_owned(), root: Some(root), schema_matches: true };
        let binding = VersionedRow { row: FacadeBinding::of(inventory).encode(), version: 0 };
        Self { table: Some(table), binding: Some(binding) }
    }
}

/// F-2: whether every member that answered has the facade of this root. One that was made anew elsewhere shows an
/// empty slot, and would let a second authority over the same tables begin.
pub(crate) fn under_root(root: RootId, facades: &[(ServerUuid, FacadeSeen)]) -> Result<(), Finding> {
    for (server, seen) in facades {
        let Some(table) = &seen.table else {
            let message = format!("server {server} does not show the facade's definition; looking again");
            return Err(Finding::wait(ErrorCode::AuthorityUnavailable, "B-5", message));
        };
        if table.root != Some(root) {
            let message = format!(
                "the facade on server {server} is not the one of root {root} any more; nothing is done, see docs/recovery.md"
            );
            return Err(Finding::block(ErrorCode::AuthorityLost, "F-2", message));
        }
    }
    Ok(())
}

/// B-5 (m): whether the facade, as every member shows it, is one and bound to exactly these members.
pub(crate) fn bound_to(inventory: &Inventory, facades: &[(ServerUuid, FacadeSeen)]) -> Result<(), Finding> {
    let differs =
        |(_, seen): &&(ServerUuid, FacadeSeen)| seen.table.as_ref().is_none_or(|table| !table.schema_matches);
    if let Some((server, _)) = facades.iter().find(differs) {
        let message = format!("server {server}: {FACADE_TABLE} has another schema than this operator's");
        return Err(Finding::block(ErrorCode::CapabilityMissing, "B-5", message));
    }
    let first = facades.first().and_then(|(_, seen)| seen.binding.as_ref());
    if facades.iter().any(|(_, seen)| seen.binding.as_ref() != first) {
        let message = "members read different versions of the facade's binding row; reading again";
        return Err(Finding::wait(ErrorCode::AuthorityUnavailable, "C-13", message));
    }
    match first {
        Some(binding) => FacadeBinding::of(inventory).matches(&binding.row),
        None => Err(unbound()),
    }
}

/// B-6: the row is written before the facade is used, and never deleted.
pub fn unbound() -> Finding {
    let message = "the facade's binding row is gone; nothing is done, see docs/recovery.md";
    Finding::block(ErrorCode::AuthorityLost, "B-6", message)
}

/// What was known before looking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FacadeMemory {
    /// Root in the PublicationCluster's status.
    pub root: Option<RootId>,
    /// The facade was seen complete under that root, or a publication has shown a root.
    pub was_ready: bool,
}

/// What to do about the facade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FacadeDecision {
    /// Complete and one.
    Ready(RootId),
    /// Absent everywhere and never known: draw a root and write it to the status first (B-6).
    Draw,
    /// Create where absent; harmless to repeat with the same root.
    Create(RootId),
    /// Absent everywhere although it was in use: no new root without the platform's word (B-6).
    Lost,
    /// Somebody must look.
    Blocked(Finding),
}

/// B-5, B-6. `facts` has one entry for every member.
pub fn decide(control_database: &str, facts: &[FacadeFact], memory: FacadeMemory) -> FacadeDecision {
    let mut roots: Vec<(&str, RootId)> = Vec::new();
    let mut absent = 0;
    for fact in facts {
        match fact.tables.as_slice() {
            [] => absent += 1,
            [table] => match check(control_database, &fact.member, table) {
                Ok(root) => roots.push((&fact.member, root)),
                Err(finding) => return FacadeDecision::Blocked(finding),
            },
            several => {
                let message = format!(
                    "{} has {} tables {FACADE_TABLE}; drop all but the one in controlDatabase",
                    fact.member,
                    several.len()
                );
                return FacadeDecision::Blocked(Finding::block(ErrorCode::CapabilityMissing, "B-5", message));
            }
        }
    }
    let Some((_, first)) = roots.first().copied() else {
        return match memory.root {
            #[cfg(planted)]
            _ if planted!(BootstrapOverLostAuthority) => FacadeDecision::Draw,
            None if !memory.was_ready => FacadeDecision::Draw,
            Some(root) if !memory.was_ready => FacadeDecision::Create(root),
            _ => FacadeDecision::Lost,
        };
    };
    let (root, known) = match memory.root.filter(|_| !planted!(OtherRoot)) {
        Some(root) => (root, "the status shows"),
        None => (first, "another member has"),
    };
    if let Some((member, other)) = roots.iter().find(|(_, other)| *other != root) {
        let message = format!(
            "{member}: {FACADE_TABLE} has the Keeper root {other}, {known} {root}; drop the one that is not this cluster's"
        );
        return FacadeDecision::Blocked(Finding::block(ErrorCode::CapabilityMissing, "B-5", message));
    }
    if absent == 0 { FacadeDecision::Ready(root) } else { FacadeDecision::Create(root) }
}

fn check(control_database: &str, member: &str, table: &FacadeTable) -> Result<RootId, Finding> {
    let block = |what: &str| {
        let message = format!("{member}: {FACADE_TABLE} {what}");
        Finding::block(ErrorCode::CapabilityMissing, "B-5", message)
    };
    if table.database != control_database {
        return Err(block(&format!(
            "exists in database {}, not in controlDatabase {control_database}; a PublicationCluster with that controlDatabase owns it, drop it only where there is none",
            table.database
        )));
    }
    // The root first: what a schema must be follows from it.
    let root =
        table.root.ok_or_else(|| block("has a Keeper root that no operator drew; rename or drop it"))?;
    if !table.schema_matches {
        return Err(block("has another schema than this operator's; run the operator version that made it"));
    }
    Ok(root)
}

/// Version of the reserved row's payload.
const BINDING_SCHEMA: u64 = 1;

/// Payload of the reserved row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FacadeBinding {
    /// Version of this payload.
    pub schema: u32,
    /// The one cluster name that this facade serves.
    pub cluster: String,
    /// The servers that have it, sorted.
    pub servers: Vec<ServerUuid>,
}

impl FacadeBinding {
    /// The binding of an inventory.
    pub fn of(inventory: &Inventory) -> Self {
        let mut servers: Vec<ServerUuid> = inventory.members.iter().map(|m| m.server_uuid.clone()).collect();
        servers.sort();
        Self { schema: 1, cluster: inventory.cluster.clone(), servers }
    }

    /// The reserved row (C-2 creates it; J-4 changes it).
    pub fn encode(&self) -> RawRow {
        let payload = serde_json::to_string(self).unwrap_or_default();
        RawRow {
            target_key: BINDING_KEY.to_owned(),
            operation_id: String::new(),
            fence_token: String::new(),
            phase: "FACADE".to_owned(),
            dispatch_epoch: 0,
            payload_sha256: Digest::of_bytes(payload.as_bytes()).to_string(),
            payload,
        }
    }

    /// Whether a facade that some members have may be filled on the others (B-6). Not where it serves these servers
    /// under another name: a facade is never left behind on servers of somebody else's cluster. Other servers under the
    /// same name are a member that came (J-4): it needs the facade before a Rebound can speak of it.
    ///
    /// # Errors
    /// The finding that stands against it.
    pub fn admits_filling(&self, row: Option<&RawRow>) -> Result<(), Finding> {
        match row.map(|row| self.matches(row)) {
            Some(Err(finding)) if finding.code != ErrorCode::IncompleteInventory => Err(finding),
            _ => Ok(()),
        }
    }

    /// Reads a row as strictly as a record (C-9).
    fn decode(row: &RawRow) -> Result<Self, RecordError> {
        if row.payload.len() > RECORD_BYTES_MAX {
            return Err(RecordError::Oversized(row.payload.len()));
        }
        if Digest::of_bytes(row.payload.as_bytes()).to_string() != row.payload_sha256 {
            return Err(RecordError::DigestMismatch);
        }
        let json: serde_json::Value =
            serde_json::from_str(&row.payload).map_err(|_| RecordError::Malformed("payload"))?;
        match json.get("schema").and_then(serde_json::Value::as_u64) {
            None => return Err(RecordError::Malformed("schema")),
            Some(BINDING_SCHEMA) => {}
            Some(other) => return Err(RecordError::UnknownVersion(other)),
        }
        serde_json::from_value(json).map_err(|_| RecordError::Malformed("payload"))
    }

    /// Whether a row that was read binds exactly this.
    ///
    /// # Errors
    /// The finding that stands against it.
    pub fn matches(&self, row: &RawRow) -> Result<(), Finding> {
        let block = |code, message: String| Err(Finding::block(code, "B-5", message));
        match Self::decode(row) {
            Ok(found) if found == *self => Ok(()),
            Ok(found) if found.cluster != self.cluster => block(
                ErrorCode::AuthorityConflict,
                format!("the facade serves these servers under the cluster name {}; one name only", found.cluster),
            ),
            Ok(_) => block(
                ErrorCode::IncompleteInventory,
                "the facade is bound to other servers; a member was replaced or added: see docs/recovery.md (Rebound)".into(),
            ),
            Err(error) => block(
                ErrorCode::AuthorityMalformed,
                format!("the facade's binding row: {error}; it is never overwritten, see docs/recovery.md"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Random;

    fn root(byte: u8) -> RootId {
        RootId::draw(&Random([byte; 32]))
    }

    fn members(roots: &[Option<RootId>]) -> Vec<FacadeFact> {
        let tables = |root: &Option<RootId>| {
            let table =
                |root: &RootId| FacadeTable { database: "p".into(), root: Some(*root), schema_matches: true };
            root.iter().map(table).collect()
        };
        roots.iter().map(|root| FacadeFact { member: "m".into(), tables: tables(root) }).collect()
    }

    fn memory(root: Option<RootId>, was_ready: bool) -> FacadeMemory {
        FacadeMemory { root, was_ready }
    }

    fn code(decision: FacadeDecision) -> Option<ErrorCode> {
        if let FacadeDecision::Blocked(finding) = decision { Some(finding.code) } else { None }
    }

    // proves: B-6
    #[test]
    fn a_root_is_drawn_only_where_none_was_ever_shown() {
        let absent = members(&[None, None]);
        assert_eq!(decide("p", &absent, memory(None, false)), FacadeDecision::Draw);
        assert_eq!(decide("p", &absent, memory(Some(root(1)), false)), FacadeDecision::Create(root(1)));
        assert_eq!(decide("p", &absent, memory(Some(root(1)), true)), FacadeDecision::Lost);
        // The cluster's object was made anew, but a publication has shown a root.
        assert_eq!(decide("p", &absent, memory(None, true)), FacadeDecision::Lost);
    }

    // proves: B-5, B-6, J-4
    #[test]
    fn a_facade_is_not_filled_over_somebody_elses() {
        let binding = |cluster: &str, servers: &[&str]| FacadeBinding {
            schema: 1,
            cluster: cluster.into(),
            servers: servers.iter().filter_map(|s| ServerUuid::parse(s)).collect(),
        };
        const A: &str = "00000000-0000-0000-0000-000000000001";
        const B: &str = "00000000-0000-0000-0000-000000000002";
        let wanted = binding("main", &[A, B]);
        // No row yet: a bootstrap that did not come to its end. Fewer servers: a member was added.
        assert_eq!(wanted.admits_filling(None), Ok(()));
        for fine in [binding("main", &[A, B]), binding("main", &[A])] {
            assert_eq!(wanted.admits_filling(Some(&fine.encode())), Ok(()));
        }
        let refused = |row: RawRow| wanted.admits_filling(Some(&row)).err().map(|f| f.code);
        assert_eq!(refused(binding("other", &[A]).encode()), Some(ErrorCode::AuthorityConflict));
        let garbled = RawRow { payload: "?".into(), ..wanted.encode() };
        assert_eq!(refused(garbled), Some(ErrorCode::AuthorityMalformed));
    }

    // proves: B-5, B-6
    #[test]
    fn what_is_there_must_be_one_facade_under_the_known_root() {
        let partly = members(&[Some(root(1)), None]);
        assert_eq!(decide("p", &partly, memory(None, false)), FacadeDecision::Create(root(1)));
        let whole = members(&[Some(root(1)), Some(root(1))]);
        assert_eq!(decide("p", &whole, memory(Some(root(1)), true)), FacadeDecision::Ready(root(1)));
        let refused = [
            (members(&[Some(root(1)), Some(root(2))]), memory(None, false), "p"),
            (whole.clone(), memory(Some(root(2)), true), "p"),
            (whole, memory(None, false), "elsewhere"),
        ];
        for (facts, known, database) in refused {
            assert_eq!(code(decide(database, &facts, known)), Some(ErrorCode::CapabilityMissing));
        }
    }
}
