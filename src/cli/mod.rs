//! The command line.

pub mod adjudicate;
pub mod crds;
pub mod doctor;
pub mod explain;
pub mod inspect;
pub mod output;
pub mod pages;
pub mod plan;
pub mod receipt;
pub mod rules;
pub mod status;

use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of a wrong command line; not clap's own 2, which is an answer of `plan`.
pub const USAGE: u8 = 64;

/// Makes replacing a replicated ClickHouse table safe.
#[derive(Debug, Parser)]
#[command(name = "publication-operator", version, about)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator until SIGTERM.
    Run {
        /// Address of /livez, /readyz and /metrics.
        #[arg(long, default_value = "0.0.0.0:8080")]
        listen: SocketAddr,
        /// Format of the log on standard error.
        #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
        log_format: LogFormat,
    },
    /// Print the CRDs, or write one file for each into a directory.
    Crds {
        /// Directory to write to.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Say whether a publication would be admitted, and which statements would run. Writes nothing.
    #[command(after_help = "Exit code: 0 admissible, 1 blocked, 2 waiting, 3 could not tell.")]
    Plan(plan::Args),
    /// Show what a publication's status says of each replica; ClickHouse is not asked.
    Status(status::Args),
    /// Print the page of an error code, or the line of a rule, offline; all codes without one.
    #[command(after_help = "Exit code: 0 printed, 64 there is no such code or rule.")]
    Explain(explain::Args),
    /// Show the slot of a target: record, fences, members, queue, and the evidence digest. Reads only.
    #[command(after_help = "Exit code: 0 shown, 3 could not tell.")]
    Inspect(inspect::Args),
    /// Examine a PublicationCluster rule by rule, as the operator would. Reads only, unless a self-test is asked for.
    #[command(after_help = "Exit code: 0 healthy, 1 blocked, 2 waiting, 3 could not tell.")]
    Doctor(doctor::Args),
    /// Decide on a slot that cannot go on by itself: shows the evidence, asks, and creates a PublicationVerdict.
    #[command(after_help = "Exit code: 0 created, 1 not confirmed, 3 could not tell. See docs/recovery.md.")]
    Adjudicate(adjudicate::Args),
    /// Print the receipt of a publication that has ended or is blocked, also when its object is gone.
    #[command(after_help = "Exit code: 0 printed, 3 could not tell. See docs/receipts.md.")]
    Receipt(receipt::Args),
    /// Say whether a receipt holds: offline, from itself alone; with --live also against Keeper and every member.
    #[command(
        after_help = "Exit code: 0 holds, 1 refused, 2 holds but the cluster has gone on (--live), 3 could not tell. See docs/receipts.md."
    )]
    VerifyReceipt(receipt::VerifyArgs),
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Runs a command; the exit code says how it went.
pub fn main(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Run { listen, log_format } => run(listen, log_format),
        Command::Crds { out } => print_crds(out),
        Command::Plan(args) => return plan::main(&args),
        Command::Status(args) => return status::main(&args),
        Command::Explain(args) => return explain::main(&args),
        Command::Inspect(args) => return inspect::main(&args),
        Command::Doctor(args) => return doctor::main(&args),
        Command::Adjudicate(args) => return adjudicate::main(&args),
        Command::Receipt(args) => return receipt::main(&args),
        Command::VerifyReceipt(args) => return receipt::verify_main(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn run(listen: SocketAddr, format: LogFormat) -> Result<(), Failure> {
    logging(format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(crate::controller::run(listen))?;
    Ok(())
}

fn logging(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

fn print_crds(out: Option<PathBuf>) -> Result<(), Failure> {
    match out {
        Some(directory) => {
            for path in crds::write_to(&directory)? {
                println!("{}", path.display());
            }
        }
        None => print!("{}", crds::render()?),
    }
    Ok(())
}
