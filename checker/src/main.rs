//! `kstore-check`: makes traffic against an etcd-compatible endpoint, records it, and judges what was recorded; or judges what
//! was recorded earlier. The work is the library's.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use kstore_checker::grpc::{Mix, Plan, Workload};
use kstore_checker::{History, Verdict, judge};

const EXAMPLES: &str = "\
The endpoint must be empty or nearly so, and nobody else may write to it: its keys are changed, and it is compacted.

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
    /// Judge a history that was recorded earlier
    Judge {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

#[derive(clap::Args)]
struct Run {
    /// http://HOST:PORT; several times for the members of a cluster
    #[arg(long, value_name = "URL")]
    endpoint: Vec<String>,
    /// Clients, each with one call under way at a time
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u32,
    /// How long to make traffic
    #[arg(long, value_name = "N", default_value_t = 15)]
    seconds: u64,
    /// What all random choices follow from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Calls per second of all clients together, at most; 0 is as many as there can be
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    rate: u32,
    /// What the clients do
    #[arg(long, value_enum, default_value_t = MixArg::Etcd)]
    mix: MixArg,
    /// Store what was recorded here
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// What the clients do.
#[derive(Clone, Copy, ValueEnum)]
enum MixArg {
    /// Everything that etcd's clients do
    Etcd,
    /// What a Kubernetes apiserver does
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

/// A reader that has gone away does not change the verdict.
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
