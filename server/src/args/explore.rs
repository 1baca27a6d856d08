//! Flags of `kstore-server explore`, which the module `explore` carries out.

use super::flag::{Flag, add, list, parsed, put, repeated};
use super::{number, time};
use kstore_explore::pattern_id::PatternId;
use kstore_explore::report::ReportForm;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const HELP: &str = "\
Runs an operator again and again on forks of a cluster that SCENARIO prepares, each time with another perturbation that a real cluster \
could show: the operator dies at a write, its watch lags, an answer is lost, another writer is faster. It compares each run with runs \
without any. What fails is run again, made smaller, and written to a file with which it fails again.

CMD is the operator if the scenario names none. {port:NAME}, {kubeconfig} and {dir} in arguments and environment are filled in for each run.

Patterns: crash, down, stale: the operator dies and starts again; freeze, burst, skip, expire, cut: its watches lag, miss states or end; \
lost-answer, touch, errors: answers are lost, conflicts, or errors; leader, leap: another leader, a jump of the clock; recreate, flip: \
the user is quick; node, webhook: something is away; order: requests and events in another order.

Exit codes: 0 nothing found; 1 findings; 2 the command line, the scenario or a replay file is wrong; 3 the cluster or the operator is \
unusable; 4 the scenario is not stable without faults; 70 a defect of kstore; 128+n signal n, after the report.

Examples:
  kstore-server explore scenario.yaml -- ./backup --metrics-bind-address=127.0.0.1:{port:metrics}
  kstore-server explore --budget 2m --only crash,freeze scenario.yaml -- ./backup
  kstore-server explore --replay findings/s-1.yaml -- ./backup";

pub(super) const FLAGS: &[Flag<ExploreArgs>] = &[
    Flag::path(
        "scenario",
        "SCENARIO",
        |o: &mut ExploreArgs, path| o.scenario = Some(path),
        "Scenario file [default with --replay: the scenario that the replay file has]",
    )
    .positional()
    .shaped(|arg| arg.required_unless_present("replay")),
    Flag::value(
        "seeds",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.seeds, number::count(text)),
        "Random plans after the enumerated ones",
    )
    .default("200"),
    Flag::value(
        "seed",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.seed, parsed(text)),
        "First seed",
    )
    .default("1"),
    Flag::value(
        "budget",
        "TIME",
        |o: &mut ExploreArgs, text| put(&mut o.budget, time(text)),
        "End the search after this time; what is not confirmed by then is unsteady",
    )
    .default("10m"),
    Flag::value(
        "runs",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.runs, number::count(text).map(Some)),
        "End the search after this number of plans",
    ),
    Flag::value(
        "parallel",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.parallel, number::count(text).map(Some)),
        "Runs at a time [default: processors]",
    ),
    Flag::value(
        "only",
        "PATTERN",
        |o: &mut ExploreArgs, text| add(&mut o.only, pattern(text)),
        "Patterns to search with, see below [default: all]",
    )
    .shaped(list),
    Flag::value(
        "skip",
        "PATTERN",
        |o: &mut ExploreArgs, text| add(&mut o.skip, pattern(text)),
        "Patterns to leave out",
    )
    .shaped(list),
    Flag::value(
        "replay",
        "FILE",
        |o: &mut ExploreArgs, text| add(&mut o.replay, parsed(text)),
        "Run the plan of a finding instead of searching. May be given several times",
    )
    .shaped(repeated),
    Flag::value(
        "repeat",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.repeat, number::count(text)),
        "Runs of each replay file",
    )
    .default("1"),
    Flag::value(
        "max-findings",
        "N",
        |o: &mut ExploreArgs, text| put(&mut o.max_findings, number::count(text)),
        "End the search after this number of distinct findings",
    )
    .default("20"),
    Flag::path(
        "findings",
        "DIR",
        |o: &mut ExploreArgs, path| o.findings = Some(path),
        "Folder for replay files, snapshots and logs [default: ./findings]",
    ),
    Flag::value(
        "report",
        "FORM[=FILE]",
        |o: &mut ExploreArgs, text| match text.strip_prefix("html=").filter(|file| !file.is_empty()) {
            Some(file) => put(&mut o.report_file, Ok(Some(file.into()))),
            None => add(&mut o.reports, report(text)),
        },
        "Report as text, json, junit or sarif, on standard output or into a file; html=FILE is the page of a failing run's cluster. May be given several times [default: text]",
    )
    .shaped(repeated),
    Flag::switch("strict", |o: &mut ExploreArgs| o.is_strict = true, "Count suspicions as failures"),
    Flag::switch(
        "hold",
        |o: &mut ExploreArgs| o.is_held = true,
        "After a replay leave its cluster and operator as they are, print a kubeconfig, and wait for a signal",
    ),
    Flag::switch(
        "show-secrets",
        |o: &mut ExploreArgs| o.shows_secrets = true,
        "Show values of Secrets in reports and logs, and not their lengths and digests",
    ),
    Flag::word(
        "command",
        "CMD",
        |o: &mut ExploreArgs, word| o.command.push(word),
        "The operator and its arguments [default: the commands of the scenario]",
    )
    .shaped(|arg| arg.num_args(1..).last(true)),
];

/// Arguments of `explore`.
#[derive(Debug, Default)]
pub struct ExploreArgs {
    /// Scenario file; `None`: the scenario of the first replay file.
    pub scenario: Option<PathBuf>,
    /// Random plans after the enumerated ones.
    pub seeds: usize,
    /// First seed.
    pub seed: u64,
    /// Time for the search.
    pub budget: Duration,
    /// Most plans.
    pub runs: Option<usize>,
    /// Runs at a time; `None`: the number of processors.
    pub parallel: Option<usize>,
    /// Patterns; empty: all.
    pub only: Vec<PatternId>,
    /// Patterns to leave out.
    pub skip: Vec<PatternId>,
    /// Replay files.
    pub replay: Vec<PathBuf>,
    /// Runs of each replay file.
    pub repeat: usize,
    /// Most distinct findings.
    pub max_findings: usize,
    /// Folder for files of findings.
    pub findings: Option<PathBuf>,
    /// Reports with their files; `None`: standard output.
    pub reports: Vec<(ReportForm, Option<PathBuf>)>,
    /// File for the page of a failing run's cluster.
    pub report_file: Option<PathBuf>,
    /// Whether suspicions count as failures.
    pub is_strict: bool,
    /// Whether the cluster of a replay stays.
    pub is_held: bool,
    /// Whether values of Secrets are shown.
    pub shows_secrets: bool,
    /// The operator and its arguments.
    pub command: Vec<OsString>,
}

fn pattern(text: &str) -> Result<PatternId, String> {
    PatternId::named(text).ok_or_else(|| {
        let known = PatternId::ALL.map(PatternId::name);
        format!("expected one of {}", known.join(", "))
    })
}

fn report(text: &str) -> Result<(ReportForm, Option<PathBuf>), String> {
    let (form, file) = text.split_once('=').map_or((text, None), |(form, file)| (form, Some(file.into())));
    let form = ReportForm::named(form)
        .ok_or("expected text, json, junit or sarif, with =FILE or without, or html=FILE")?;
    Ok((form, file))
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;

    fn parse(line: &str) -> Result<ExploreArgs, String> {
        let cli = Cli::try_parse_from(format!("kstore-server explore {line}").split(' '));
        match cli.map_err(|error| error.to_string())?.command {
            Some(Command::Explore(args)) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn explore_takes_a_scenario_flags_and_a_command() {
        let args =
            parse("--only crash,freeze --budget 2m --report json=a.json --report text s.yaml -- ./op --x")
                .unwrap();
        assert_eq!(args.only, [PatternId::Crash, PatternId::Freeze]);
        assert_eq!((args.budget, args.seeds, args.seed), (Duration::from_secs(120), 200, 1));
        assert_eq!(args.reports, [(ReportForm::Json, Some("a.json".into())), (ReportForm::Text, None)]);
        assert_eq!(args.report_file, None);
        let args = parse("--report html=out/a.html s.yaml -- ./op --x").unwrap();
        assert_eq!((args.report_file, args.reports), (Some("out/a.html".into()), vec![]));
        assert_eq!(args.command, ["./op", "--x"]);
        assert_eq!(args.scenario, Some(PathBuf::from("s.yaml")));
        let args = parse("--replay findings/s-1.yaml -- ./op").unwrap();
        assert_eq!((args.scenario, args.replay), (None, vec![PathBuf::from("findings/s-1.yaml")]));
        let missing = PatternId::ALL.into_iter().find(|pattern| !HELP.contains(pattern.name()));
        assert_eq!(missing, None, "the help names all patterns");
        for wrong in [
            "",
            "-- ./op",
            "--only none s.yaml",
            "--report xml s.yaml",
            "--report html s.yaml",
            "--report html= s.yaml",
            "--budget soon s.yaml",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
