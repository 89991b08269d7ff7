//! which generation of a table a name points to.

use crate::canonical::{Canonical, Digest};
use crate::identity::TableUuid;
use crate::sqltext::{Token, fingerprint, parenthesised, table_elements, tokenize};
use serde::{Deserialize, Serialize};

/// What identifies one generation. Texts are kept as digests: the record must stay small, and a
/// changed text is judged, never shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerationIdentity {
    /// UUID of the table.
    pub uuid: TableUuid,
    /// Digest of the normalised `engine_full`.
    pub engine_digest: Digest,
    /// Digest of columns, keys, indices, projections and constraints.
    pub schema_digest: Digest,
    /// Keeper ensemble, from `system.replicas`.
    pub zookeeper_name: String,
    /// Replication path, from `system.replicas`.
    pub zookeeper_path: String,
}

impl GenerationIdentity {
    /// One digest over all five parts, for status and receipts.
    pub fn digest(&self) -> Digest {
        Canonical::new("generation/v1")
            .text(self.uuid.as_str())
            .bytes(self.engine_digest.bytes())
            .bytes(self.schema_digest.bytes())
            .text(&self.zookeeper_name)
            .text(&self.zookeeper_path)
            .digest()
    }

    /// J-5: the same table, whatever a server prints for it now.
    pub fn same_table(&self, other: &Self) -> bool {
        self.uuid == other.uuid
            && (planted!(RebaselineAnything)
                || (self.zookeeper_name == other.zookeeper_name
                    && self.zookeeper_path == other.zookeeper_path))
    }
}

/// What the catalog says of one existing table, as read from one member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableRow {
    /// `system.tables.uuid`.
    pub uuid: String,
    /// `system.tables.engine`.
    pub engine: String,
    /// `system.tables.engine_full`.
    pub engine_full: String,
    /// `system.tables.create_table_query`.
    pub create_query: String,
    /// Sorting, primary, partition, sampling key.
    pub keys: [String; 4],
    /// `zookeeper_name`, `zookeeper_path`, `replica_name` of `system.replicas`; none = not there.
    pub replication: Option<Replication>,
}

/// Replication facts of one table on one member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replication {
    /// Keeper ensemble.
    pub zookeeper_name: String,
    /// Path of the table.
    pub zookeeper_path: String,
    /// Name of this replica.
    pub replica_name: String,
}

/// What a name points to on one member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableFact {
    /// Nothing has the name.
    Absent,
    /// A replicated table, identified.
    Generation {
        /// Its identity.
        identity: GenerationIdentity,
        /// Its replica's name here.
        replica_name: String,
        /// Macros left in the path argument (`{table}` cannot be renamed, K04).
        path_macros: Vec<String>,
    },
    /// Something that has no generation identity; says why.
    Other(NotAGeneration),
}

impl TableFact {
    /// The identity, if this is a generation.
    pub fn identity(&self) -> Option<&GenerationIdentity> {
        match self {
            Self::Generation { identity, .. } => Some(identity),
            Self::Absent | Self::Other(_) => None,
        }
    }
}

/// Why something with the name is not a generation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotAGeneration {
    /// Not of the `Replicated*MergeTree` family.
    Engine(String),
    /// The catalog's text cannot be parsed.
    Unparseable,
    /// Nil or malformed UUID.
    NoUuid,
    /// No row in `system.replicas`.
    NotInReplicas,
}

/// Reads one catalog row; total: whatever does not parse is said to be no generation.
pub fn table_fact(row: &TableRow) -> TableFact {
    if !(row.engine.starts_with("Replicated") && row.engine.ends_with("MergeTree")) {
        return TableFact::Other(NotAGeneration::Engine(row.engine.clone()));
    }
    let Some(uuid) = TableUuid::parse(&row.uuid) else {
        return TableFact::Other(NotAGeneration::NoUuid);
    };
    let (Some(engine), Some(elements)) =
        (EngineFull::parse(&row.engine_full, &uuid), table_elements(&row.create_query))
    else {
        return TableFact::Other(NotAGeneration::Unparseable);
    };
    let Some(replication) = &row.replication else {
        return TableFact::Other(NotAGeneration::NotInReplicas);
    };
    let mut schema = Canonical::new("schema/v1").text(&fingerprint(&elements));
    for key in &row.keys {
        let Some(tokens) = tokenize(key) else { return TableFact::Other(NotAGeneration::Unparseable) };
        schema = schema.text(&fingerprint(&tokens));
    }
    TableFact::Generation {
        identity: GenerationIdentity {
            uuid,
            engine_digest: engine.digest(),
            schema_digest: schema.digest(),
            zookeeper_name: replication.zookeeper_name.clone(),
            zookeeper_path: replication.zookeeper_path.clone(),
        },
        replica_name: replication.replica_name.clone(),
        path_macros: engine.path_macros,
    }
}

/// A parsed and normalised `engine_full` of the replicated family (K03).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineFull {
    normalised: Vec<Token>,
    /// Macros in the path argument, as `{name}`; `{uuid}` excepted.
    pub path_macros: Vec<String>,
}

impl EngineFull {
    /// Parses; the replica-name argument becomes a placeholder, and the table's own UUID in the path becomes
    /// the macro it came from (two spellings of one path: which one is printed depends on how the table was made).
    pub fn parse(text: &str, uuid: &TableUuid) -> Option<Self> {
        let mut tokens = tokenize(text)?;
        if !matches!(tokens.first()?, Token::Word(engine) if engine.starts_with("Replicated") && engine.ends_with("MergeTree"))
        {
            return None;
        }
        let mut path_macros = Vec::new();
        if tokens.get(1) == Some(&Token::Symbol('(')) {
            let arguments = parenthesised(&tokens[1..])?.to_vec();
            if let [Token::Text(path), Token::Symbol(','), Token::Text(_), ..] = arguments.as_slice() {
                let path = path.replace(uuid.as_str(), "{uuid}");
                path_macros = macros(&path);
                tokens[2] = Token::Text(path);
                tokens[4] = Token::Text("{replica}".into());
            }
        }
        Some(Self { normalised: tokens, path_macros })
    }

    /// Digest of the normalised text.
    pub fn digest(&self) -> Digest {
        Canonical::new("engine/v1").text(&fingerprint(&self.normalised)).digest()
    }
}

fn macros(path: &str) -> Vec<String> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
        .filter(|name| *name != "uuid")
        .map(|name| format!("{{{name}}}"))
        .collect()
}
