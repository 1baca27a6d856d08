//! `kstore-check`: makes traffic against an etcd-compatible endpoint, records it, and judges the recording; or judges
//! an earlier recording. The library does the work.

use clap::{Parser, Subcommand, ValueEnum};
use kstore_checker::grpc::{Mix, Plan, Workload};
use kstore_checker::{History, Verdict, judge};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
The endpoint must be empty or nearly so, and no other client may write to it: its keys are changed, and it is compacted.

Examples:
  kstore-check --endpoint http://127.0.0.1:2379
  kstore-check --endpoint http://127.0.0.1:2379 --clients 32 --rate 0 --seconds 60 --history run.jsonl
  kstore-check judge run.jsonl

Exit code: 0 if every guarantee holds, 1 if one does not or nothing could be judged.";

#[derive(Parser)]
#[command(name = "kstore-check", version, about = "Judges an etcd by what its clients see", after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    /// Judge a recorded history
    Judge {
        /// History file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// Endpoint URL, http://HOST:PORT; repeat it for the members of a cluster
    #[arg(long, value_name = "URL")]
    endpoint: Vec<String>,
    /// Number of clients, each with one call in progress at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u32,
    /// Duration of the traffic
    #[arg(long, value_name = "N", default_value_t = 15)]
    seconds: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Most calls per second of all clients together; 0 is unlimited
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    rate: u32,
    /// Mix of operations
    #[arg(long, value_enum, default_value_t = MixArg::Etcd)]
    mix: MixArg,
    /// File to store the recorded history in
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// The mix of operations.
#[derive(Clone, Copy, ValueEnum)]
enum MixArg {
    /// All operations of etcd's clients
    Etcd,
    /// The operations of a Kubernetes apiserver
    Kubernetes,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let good = match cli.command {
        Some(Command::Judge { file }) => read(&file).map(|history| report(&judge(&history))),
        None => run(cli.run).await,
    };
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(detail) => {
            say(&mut io::stderr(), &format!("kstore-check: {detail}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(run: Run) -> Result<bool, String> {
    let mix = match run.mix {
        MixArg::Etcd => Mix::Etcd,
        MixArg::Kubernetes => Mix::Kubernetes,
    };
    let plan = Plan {
        endpoints: run.endpoint,
        clients: run.clients,
        rate: run.rate,
        mix,
        ..Plan::new("", run.seed)
    };
    let workload = Workload::start(plan).await.map_err(|error| error.to_string())?;
    tokio::time::sleep(Duration::from_secs(run.seconds)).await;
    let recording = workload.finish().await.map_err(|error| error.to_string())?;
    if let Some(file) = &run.history {
        write(&recording.history, file)?;
    }
    let good = report(&judge(&recording.history));
    if !recording.complete {
        say(
            &mut io::stdout(),
            "the watch on everything did not say everything: it stalls, or lost its last events",
        );
    }
    Ok(good && recording.complete)
}

fn report(verdict: &Verdict) -> bool {
    say(&mut io::stdout(), &verdict.to_string());
    verdict.is_good()
}

/// Writes a line; ignores a closed pipe, which does not change the verdict.
fn say(to: &mut impl io::Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

fn read(file: &Path) -> Result<History, String> {
    let name = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let opened = File::open(file).map_err(|error| name(&error))?;
    History::read(BufReader::new(opened)).map_err(|error| name(&error))
}

fn write(history: &History, file: &Path) -> Result<(), String> {
    let name = |error: &io::Error| format!("{}: {error}", file.display());
    let mut to = BufWriter::new(File::create(file).map_err(|error| name(&error))?);
    history.write(&mut to).and_then(|()| to.flush()).map_err(|error| name(&error))
}
