//! Statements of a self-test. They can be rendered for tables of its own and for nothing else: a distributed statement
//! that moves anybody's table takes a permit.

use super::{FACADE_DEFINITION, SERVER, Sql, identifier, literal, mutation_of, statement, table};
use publication_protocol::authority::Mutation;
use publication_protocol::identity::Random;
use publication_protocol::sqltext::{Ddl, Statement, TableName};

/// The tables of one self-test, under names that were never used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scratch {
    database: String,
    cluster: String,
    id: String,
}

/// A distributed statement of a self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScratchStep {
    /// A KeeperMap table of the facade's form.
    CreateMap,
    /// The first of the pair.
    CreateFirst,
    /// The second of the pair.
    CreateSecond,
    /// Once.
    Exchange,
    /// Harmless to repeat, as the other two.
    DropMap,
    /// The name of the first.
    DropFirst,
    /// The name of the second.
    DropSecond,
}

impl Scratch {
    /// Names in the control database that nothing else bears.
    pub fn draw(control_database: &str, cluster: &str, random: &Random) -> Self {
        let id: String = random.0.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { database: control_database.to_owned(), cluster: cluster.to_owned(), id }
    }

    fn named(&self, what: &str) -> TableName {
        TableName {
            database: self.database.clone(),
            table: format!("publication_selftest_{}_{what}", self.id),
        }
    }

    /// All three names.
    pub fn names(&self) -> [String; 3] {
        ["map", "a", "b"].map(|what| self.named(what).table)
    }

    /// What the queue must show of a step.
    pub fn statement(&self, step: ScratchStep) -> Statement {
        let [map, first, second] = ["map", "a", "b"].map(|what| self.named(what));
        let ddl = match step {
            ScratchStep::CreateMap => Ddl::CreateIfNotExists { table: map },
            ScratchStep::CreateFirst => Ddl::CreateIfNotExists { table: first },
            ScratchStep::CreateSecond => Ddl::CreateIfNotExists { table: second },
            ScratchStep::Exchange => Ddl::Exchange { target: first, candidate: second },
            ScratchStep::DropMap => Ddl::DropIfExists { table: map },
            ScratchStep::DropFirst => Ddl::DropIfExists { table: first },
            ScratchStep::DropSecond => Ddl::DropIfExists { table: second },
        };
        Statement { ddl, cluster: self.cluster.clone() }
    }

    /// Its text.
    pub fn sql(&self, step: ScratchStep) -> Sql {
        let wanted = self.statement(step);
        match &wanted.ddl {
            Ddl::CreateIfNotExists { table: created } => {
                let form = if step == ScratchStep::CreateMap {
                    let root = literal(&format!("/publication_selftest/{}", self.id));
                    format!("{FACADE_DEFINITION} ENGINE = KeeperMap({root}) PRIMARY KEY target_key")
                } else {
                    "(id UInt64) ENGINE = MergeTree ORDER BY id".to_owned()
                };
                let (created, cluster) = (table(created), identifier(&self.cluster));
                Sql(format!("CREATE TABLE IF NOT EXISTS {created} ON CLUSTER {cluster} {form}"))
            }
            // The others need nothing but their names.
            _ => statement(&wanted).unwrap_or_else(|| Sql(String::new())),
        }
    }

    /// C-2, C-3, on the map.
    pub fn mutation(&self, mutation: &Mutation) -> Sql {
        mutation_of(&table(&self.named("map")), mutation)
    }

    /// The map's row of this key, behind a row that says who answers.
    pub fn row(&self, key: &str) -> Sql {
        Sql(format!(
            "SELECT {SERVER}, toUInt8(0) AS found, '' AS phase, toInt64(0) AS version UNION ALL \
             SELECT {SERVER}, toUInt8(1) AS found, phase, toInt64(_version) AS version FROM {} WHERE target_key = {}",
            table(&self.named("map")),
            literal(key)
        ))
    }
}
