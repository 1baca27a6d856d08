//! `kstore-check`: makes traffic against an etcd-compatible endpoint, records it, and judges the recording; or judges
//! an earlier recording. The library does the work.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
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

/// The command line.
fn command_line() -> Command {
    let number =
        |name, text, default| Arg::new(name).long(name).value_name("N").help(text).default_value(default);
    let traffic = [
        Arg::new("endpoint")
            .long("endpoint")
            .value_name("URL")
            .action(ArgAction::Append)
            .help("Endpoint URL, http://HOST:PORT; repeat it for the members of a cluster"),
        number("clients", "Number of clients, each with one call in progress at a time", "8")
            .value_parser(value_parser!(u32)),
        number("seconds", "Duration of the traffic", "15").value_parser(value_parser!(u64)),
        number("seed", "Seed of all random choices", "1").value_parser(value_parser!(u64)),
        number("rate", "Most calls per second of all clients together; 0 is unlimited", "1000")
            .value_parser(value_parser!(u32)),
        Arg::new("mix")
            .long("mix")
            .value_name("MIX")
            .help("Mix of operations")
            .default_value("etcd")
            .value_parser(PossibleValuesParser::new([
                PossibleValue::new("etcd").help("All operations of etcd's clients"),
                PossibleValue::new(KUBERNETES).help("The operations of a Kubernetes apiserver"),
            ])),
        Arg::new("history")
            .long("history")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("File to store the recorded history in"),
    ];
    let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).required(true);
    let judge = Command::new("judge").about("Judge a recorded history").arg(file.help("History file"));
    Command::new("kstore-check")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Judges an etcd by what its clients see")
        .after_help(EXAMPLES)
        .args_conflicts_with_subcommands(true)
        .max_term_width(120)
        .args(traffic)
        .subcommand(judge)
}

/// The word of `--mix` for the operations of a Kubernetes apiserver.
const KUBERNETES: &str = "kubernetes";

/// Traffic against an endpoint.
struct Run {
    plan: Plan,
    seconds: u64,
    /// File to store the recorded history in.
    history: Option<PathBuf>,
}

impl Run {
    fn read(matches: &mut ArgMatches) -> Self {
        // Each has a default.
        let mut number = |name| matches.remove_one::<u64>(name).unwrap_or_default();
        let (seconds, seed) = (number("seconds"), number("seed"));
        let mut number = |name| matches.remove_one::<u32>(name).unwrap_or_default();
        let (clients, rate) = (number("clients"), number("rate"));
        let is_kubernetes = matches.get_one::<String>("mix").is_some_and(|mix| mix == KUBERNETES);
        let mix = if is_kubernetes { Mix::Kubernetes } else { Mix::Etcd };
        let endpoints = matches.remove_many("endpoint").map(Iterator::collect).unwrap_or_default();
        let plan = Plan { endpoints, clients, rate, mix, ..Plan::new("", seed) };
        Self { plan, seconds, history: matches.remove_one("history") }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut matches = command_line().get_matches();
    let recorded = matches.subcommand_matches("judge").and_then(|judge| judge.get_one::<PathBuf>("file"));
    let good = match recorded {
        Some(file) => read(file).map(|history| report(&judge(&history))),
        None => run(Run::read(&mut matches)).await,
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
    let workload = Workload::start(run.plan).await.map_err(|error| error.to_string())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_has_defaults_and_a_recording_is_judged_alone() {
        command_line().debug_assert();
        let parse = |words: &str| command_line().try_get_matches_from(words.split(' '));
        let run = Run::read(&mut parse("kstore-check --endpoint http://a:1 --endpoint http://b:2").unwrap());
        assert_eq!(
            (run.plan.endpoints, run.plan.clients, run.plan.rate),
            (vec!["http://a:1".to_owned(), "http://b:2".to_owned()], 8, 1000)
        );
        assert_eq!((run.seconds, run.history), (15, None));
        let judge = parse("kstore-check judge f").unwrap();
        assert_eq!(judge.subcommand_matches("judge").unwrap().get_one::<PathBuf>("file"), Some(&"f".into()));
        assert!(parse("kstore-check --seed 1 judge f").is_err() && parse("kstore-check --mix all").is_err());
    }
}
