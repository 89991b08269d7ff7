//! K01: whatever a name is made of, it is published, and nothing of another name is touched.

use crate::Case;
use crate::stage::{SOON, SPACE, Stage, expect};
use publication_e2e::Result;
use publication_e2e::ddl::count_kind;
use publication_e2e::evidence::check_one_shot;
use publication_e2e::manifests::Publication;
use std::collections::BTreeSet;

pub const CASES: &[(&str, usize, Case)] = &[("hostile_names", 2, |s| Box::pin(hostile_names(s)))];

const ROWS: u64 = 5;
/// The longest that leaves room for `__retired_` and its 16 digits: K02's limit is on escaped bytes of both names.
const ESCAPED_BYTES_MAX: usize = 213 - 26;

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

fn escaped_bytes(name: &str) -> usize {
    name.bytes().map(|b| if b.is_ascii_alphanumeric() || b == b'_' { 1 } else { 3 }).sum()
}

// proves: K01, K02, A-8
async fn hostile_names(s: &mut Stage) -> Result<()> {
    let database = format!("{}-my.db", s.database);
    let longest = "x".repeat(ESCAPED_BYTES_MAX - escaped_bytes(&database));
    let mut targets = vec!["qry_1.cus", "order", "a`b", "a\\b", "таблица", "it's a \"b\"", "my-table"];
    targets.push(&longest);
    s.env.cluster.create_database(&quoted(&database)).await?;
    let mut publications = Vec::new();
    for (at, target) in targets.iter().enumerate() {
        let candidate = format!("{target}__pub_1");
        for (name, rows) in [(*target, 3), (candidate.as_str(), ROWS)] {
            s.env
                .cluster
                .create_replicated(&quoted(&database), &quoted(name), "id UInt64, value String", "id")
                .await?;
            s.env.cluster.load_rows(&database, name, rows, 0).await?;
        }
        let name = format!("{}-{at}", s.database);
        publications.push(Publication::new(SPACE, &name, &database, target, ROWS));
    }
    for publication in &publications {
        s.env.publish(publication).await?;
    }
    for publication in &publications {
        s.env.wait_outcome(SPACE, &publication.name, "Succeeded", SOON).await?;
    }
    let listed = format!("SELECT hex(name) FROM system.tables WHERE database = '{database}'");
    let wanted: BTreeSet<String> =
        targets.iter().map(|t| t.bytes().map(|b| format!("{b:02X}")).collect()).collect();
    for member in 0..s.env.cluster.members.len() {
        let left = s.env.cluster.rows(member, &listed).await?.into_iter().flatten().collect();
        expect("tables left", &wanted, &left)?;
    }
    for target in &targets {
        let counts = s.env.cluster.counts(&quoted(&database), &quoted(target)).await?;
        expect(target, &counts, &vec![ROWS; counts.len()])?;
    }
    let entries = s.own_entries().await?;
    for kind in ["EXCHANGE", "RENAME", "DROP"] {
        expect(kind, &count_kind(&entries, kind, None), &targets.len())?;
    }
    check_one_shot(&s.env.records())
}
