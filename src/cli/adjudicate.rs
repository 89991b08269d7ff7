//! `publication-operator adjudicate`: shows the evidence, asks, and creates the PublicationVerdict that names it. The
//! operator reads everything afresh before the verdict takes effect (J-1).

use super::inspect::{At, COULD_NOT_TELL, Cluster, Failure, report, runtime, screen, slot};
use crate::api::{Decision, LocalClusterRef, PublicationVerdict, PublicationVerdictSpec};
use clap::{Args as ClapArgs, ValueEnum};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use publication_protocol::admission::Finding;
use publication_protocol::inventory::Inventory;
use publication_protocol::record::VersionedRow;
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Arguments.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    at: At,
    /// Database of the target; only Rebound goes without.
    #[arg(long, requires = "target")]
    database: Option<String>,
    /// The target's name.
    #[arg(long, requires = "database")]
    target: Option<String>,
    /// The decision; docs/recovery.md says what each needs.
    #[arg(long, value_enum)]
    decision: Word,
    /// The fenced name (NameCleared).
    #[arg(long, required_if_eq("decision", "NameCleared"))]
    name: Option<String>,
    /// Why, for those who read it later.
    #[arg(long)]
    reason: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// As in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Word {
    /// Every target is the desired generation.
    Committed,
    /// No target is; on PREPARED: release the slot.
    NotApplied,
    /// No late statement can move the fenced name any more.
    NameCleared,
    /// Members were replaced, added or removed for good.
    Rebound,
    /// The same tables, printed differently.
    Rebaselined,
}

impl Word {
    fn decision(self) -> Decision {
        match self {
            Self::Committed => Decision::Committed,
            Self::NotApplied => Decision::NotApplied,
            Self::NameCleared => Decision::NameCleared,
            Self::Rebound => Decision::Rebound,
            Self::Rebaselined => Decision::Rebaselined,
        }
    }
}

/// What is decided on, as it was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Basis {
    /// Database, target and operation; none = the cluster alone.
    pub slot: Option<(String, String, String)>,
    /// J-1.
    pub evidence: String,
    /// J-4.
    pub inventory: Option<String>,
}

/// Runs the command.
pub(super) fn main(args: &Args) -> ExitCode {
    match runtime().and_then(|runtime| runtime.block_on(adjudicate(args))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("not confirmed: no verdict was created");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(COULD_NOT_TELL)
        }
    }
}

async fn adjudicate(args: &Args) -> Result<bool, Failure> {
    let cluster = Cluster::open(&args.at).await?;
    let (basis, shown) = look(args, &cluster).await?;
    print!("{shown}");
    let spec = spec(args, &basis)?;
    if !args.yes && !confirmed(&question(&spec))? {
        return Ok(false);
    }
    let namespace = cluster.namespace();
    let made = create(&cluster.client, &namespace, spec).await?;
    println!(
        "\npublicationverdict/{made} created. The operator reads the evidence again before it takes effect:"
    );
    println!("  kubectl -n {namespace} get publicationverdict {made}");
    Ok(true)
}

async fn look(args: &Args, cluster: &Cluster) -> Result<(Basis, String), Failure> {
    let (Some(database), Some(target)) = (&args.database, &args.target) else {
        if args.decision != Word::Rebound {
            return Err("--database and --target name the slot; only Rebound goes without".into());
        }
        let seen = cluster.binding().await?;
        let inventory = agreed(&seen.inventory)?;
        let shown = binding_shown(&cluster.name(), &seen.binding, inventory);
        let inventory = Some(inventory.digest().to_string());
        return Ok((Basis { slot: None, evidence: seen.digest().to_string(), inventory }, shown));
    };
    let seen = slot(cluster, database, target).await?;
    let shown = screen::table(&report::of(cluster.name(), database, target, seen.as_ref()));
    let Some(seen) = seen else {
        return Err(
            format!("nothing was ever published to {database}.{target}: there is nothing to decide").into()
        );
    };
    let inventory = match args.decision {
        Word::Rebound => Some(agreed(&seen.inventory)?.digest().to_string()),
        _ => None,
    };
    let operation = seen.slot.record.operation.to_string();
    let slot = Some((database.clone(), target.clone(), operation));
    Ok((Basis { slot, evidence: seen.digest().to_string(), inventory }, shown))
}

fn agreed(inventory: &Result<Inventory, Finding>) -> Result<&Inventory, Failure> {
    inventory.as_ref().map_err(|finding| format!("{}: {}", finding.code.as_str(), finding.message).into())
}

fn spec(args: &Args, basis: &Basis) -> Result<PublicationVerdictSpec, Failure> {
    if args.decision != Word::NameCleared && args.name.is_some() {
        return Err("--name goes with NameCleared and with nothing else".into());
    }
    let part = |at: fn(&(String, String, String)) -> &String| basis.slot.as_ref().map(|s| at(s).clone());
    Ok(PublicationVerdictSpec {
        cluster_ref: LocalClusterRef { name: args.at.cluster.clone() },
        database: part(|s| &s.0),
        target: part(|s| &s.1),
        operation_id: part(|s| &s.2),
        decision: args.decision.decision(),
        name: args.name.clone(),
        inventory_digest: basis.inventory.clone(),
        evidence_digest: basis.evidence.clone(),
        reason: args.reason.clone(),
    })
}

/// The facade's binding row, beside the members of now (Rebound without a slot).
pub fn binding_shown(cluster: &str, binding: &VersionedRow, inventory: &Inventory) -> String {
    let mut shown = format!("{cluster}: the facade's binding row at version {}\n", binding.version);
    shown.push_str(&format!("  bound   {}\n", binding.row.payload));
    for member in &inventory.members {
        shown.push_str(&format!("  member  {} {}\n", member.name(), member.server_uuid));
    }
    shown
}

/// What is asked before anything is written.
pub fn question(spec: &PublicationVerdictSpec) -> String {
    let consequence = match spec.decision {
        Decision::Committed => {
            "ends the operation as published (COMPLETED); the renamed predecessor stays yours"
        }
        Decision::NotApplied => "ends the operation as not applied (ABANDONED); it is never tried again",
        Decision::NameCleared => "lets the fenced name go; nothing watches it any more",
        Decision::Rebound => "makes the members of now the ones that count",
        Decision::Rebaselined => "takes the definitions as they are printed now for the recorded ones",
    };
    let name = spec.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    format!("\n{:?}{name} {consequence}.\nType the decision to go on: ", spec.decision)
}

/// Only the decision's own word, typed at a terminal, is a yes.
fn confirmed(question: &str) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err("nobody can be asked here; use --yes".into());
    }
    print!("{question}");
    std::io::stdout().flush()?;
    let mut typed = String::new();
    input.lock().read_line(&mut typed)?;
    let word = question.split_whitespace().next().unwrap_or_default();
    Ok(typed.trim() == word)
}

async fn create(client: &Client, namespace: &str, spec: PublicationVerdictSpec) -> Result<String, Failure> {
    let mut verdict = PublicationVerdict::new("", spec);
    verdict.metadata.name = None;
    verdict.metadata.generate_name = Some("verdict-".to_owned());
    let api: Api<PublicationVerdict> = Api::namespaced(client.clone(), namespace);
    Ok(api.create(&PostParams::default(), &verdict).await?.name_any())
}
