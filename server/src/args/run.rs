//! Flags of `run`: the cluster, its objects before the command starts, and the command.

use super::flag::{Choice, Flag, add, chosen, parsed, put, repeated, required, words};
use super::options::ProcessRole;
use super::table::SERVING;
use super::{
    Api, ApiHere, CLUSTER, Config, History, LoopsConfig, ReportFile, ServerOptions, UsageError, parser,
    table, time,
};
use clap::{Arg, ArgMatches};
use kstore_cluster::SHORT_LIVED_HISTORY_BYTES;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

pub(super) const HELP: &str = "\
Starts a fresh in-memory cluster on a free port, runs CMD with KUBECONFIG set, and ends with CMD's exit code (128+n when \
signal n ended it). Without CMD, in a terminal, it opens a shell. Nothing is left behind: on Linux the kubeconfig is in this \
process's memory, and if this process is killed, even by SIGKILL, CMD and what it started are killed. KUBECONFIG can therefore be read but not changed: use `kubectl -n NAMESPACE` rather than \
`kubectl config set-context`, or copy the file first.

--crd and --manifest create objects before CMD starts: first all CustomResourceDefinitions of --crd, then the objects of \
--manifest in the order in which they are written. An object that exists already is changed by server-side apply. If a file \
cannot be read or an object is refused, CMD does not start and the exit code is 1. If --wait=available does not succeed within \
--wait-timeout, `run` prints what is not available and why, CMD does not start, and the exit code is 75.

--from begins with a copy of a cluster, which is removed at the end; the original stays as it is. With --etcd-listen the \
etcd API is served, too, and CMD has its URL in ETCDCTL_ENDPOINTS.

Examples:
  kstore-server run -- kubectl get nodes
  kstore-server run --from prepared -- make test-e2e
  kstore-server run --nodes 0 --components apiserver -- go test ./...
  kstore-server run --crd config/crd/bases --manifest config/samples -- make test-e2e
  kstore-server run --manifest web.yaml --wait=available -- kubectl get pods
  kstore-server run -- sh -c 'kubectl create deployment web --image=nginx && kubectl rollout status deployment/web'";

/// Flags that `run` has besides those of the server.
const FLAGS: &[Flag<RunArgs>] = &[
    Flag::value(
        "listen",
        "ADDR",
        |o: &mut RunArgs, text| put(&mut o.server.api.listen, parsed(text)),
        "Address of the API (REST and gRPC, TLS only); port 0 picks a free port",
    )
    .default("127.0.0.1:0")
    .daily()
    .shaped(|arg| arg.help_heading(SERVING)),
    Flag::path(
        "from",
        "DIR|FILE",
        |o: &mut RunArgs, path| o.setup.from = Some(path),
        "Begin with a copy of a cluster: of a data directory on which no server runs, or of a snapshot of kstore or an etcd",
    )
    .daily()
    .shaped(of_objects),
    Flag::value(
        "crd",
        "PATH",
        |o: &mut RunArgs, text| add(&mut o.setup.definitions, parsed(text)),
        "Create the CustomResourceDefinitions in PATH, and skip other objects: a file, a folder (its *.yaml, *.yml and *.json files, sorted, without subfolders), or - for standard input. May be given several times",
    )
    .daily()
    .shaped(|arg| of_objects(repeated(arg))),
    Flag::value(
        "manifest",
        "PATH",
        |o: &mut RunArgs, text| add(&mut o.setup.manifests, parsed(text)),
        "Create the objects in PATH (a file, a folder or -, as for --crd) after all --crd. Objects without a namespace are created in `default`",
    )
    .daily()
    .shaped(|arg| of_objects(repeated(arg))),
    Flag::choice(
        ("wait", "FOR"),
        words::<WaitFor>,
        |o: &mut RunArgs, word| put(&mut o.setup.wait, chosen(word)),
        "Condition to wait for before CMD starts",
    )
    .default("applied")
    .daily()
    .shaped(of_objects),
    Flag::value(
        "wait-timeout",
        "TIME",
        |o: &mut RunArgs, text| put(&mut o.setup.timeout, time(text)),
        "How long --wait=available may take",
    )
    .default("60s")
    .daily()
    .shaped(of_objects),
    Flag::choice(
        ("ui", "WHEN"),
        words::<PageTime>,
        |o: &mut RunArgs, word| put(&mut o.setup.page, chosen(word).map(Some)),
        "Print the link of a page that shows the cluster in a browser, before CMD starts [without a value: run]",
    )
    .daily()
    .shaped(|arg| arg.num_args(0..=1).require_equals(true).default_missing_value("run")),
    Flag::value(
        "report",
        "FILE[:always]",
        |o: &mut RunArgs, text| put(&mut o.setup.report, parsed(text).map(Some)),
        "Save what the page shows into an HTML file that opens without the cluster, if CMD fails; with :always in any case",
    ),
    Flag::word(
        "command",
        "CMD",
        |o: &mut RunArgs, word| o.command.push(word),
        "Command and its arguments [default: in a terminal, the shell of SHELL]",
    )
    .daily()
    .shaped(|arg| arg.num_args(1..).last(true)),
];

fn of_objects(arg: Arg) -> Arg {
    arg.help_heading("Objects")
}

/// Adds the flags of `run`.
pub(super) fn build(command: clap::Command) -> clap::Command {
    let own = |flag: &'static Flag<RunArgs>| parser::arg(flag).hide_short_help(!flag.is_daily);
    let (listen, objects) = FLAGS.split_at(1);
    let command = command.args(listen.iter().map(own));
    parser::add_server(command, |flag| !flag.is_server_only).args(objects.iter().map(own))
}

/// Reads the arguments of `run`.
pub(super) fn read(matches: &ArgMatches) -> Result<RunArgs, clap::Error> {
    let mut run: RunArgs = parser::read(FLAGS, matches)?;
    run.server.read(table::flags_of_run(), matches)?;
    Ok(run)
}

/// Arguments of `run`.
#[derive(Debug, Default)]
pub struct RunArgs {
    server: ServerOptions,
    setup: Setup,
    /// Command and its arguments.
    pub command: Vec<OsString>,
}

pub(super) const EXEC_GUARDED: &[Flag<ExecArgs>] = &[
    Flag::value(
        "parent",
        "PARENT",
        |o: &mut ExecArgs, text| put(&mut o.parent, parsed(text)),
        "Process ID of the parent",
    )
    .shaped(required),
    Flag::word(
        "command",
        "COMMAND",
        |o: &mut ExecArgs, word| o.command.push(word),
        "The command and its arguments",
    )
    .shaped(|arg| arg.num_args(1..).last(true).required(true)),
];

/// Arguments of the hidden `exec-guarded`.
#[derive(Debug, Default)]
pub struct ExecArgs {
    /// Process ID of the parent.
    pub parent: i32,
    /// The command and its arguments.
    pub command: Vec<OsString>,
}

pub(super) const END_MARKED: &[Flag<EndMarkedArgs>] = &[
    Flag::value(
        "mark",
        "MARK",
        |o: &mut EndMarkedArgs, text| put(&mut o.mark, parsed(text)),
        "The mark of the processes",
    )
    .shaped(required),
    Flag::path(
        "remove",
        "REMOVE",
        |o: &mut EndMarkedArgs, path| o.remove = Some(path),
        "A folder to remove afterwards",
    ),
];

/// Arguments of the hidden `end-marked`.
#[derive(Debug, Default)]
pub struct EndMarkedArgs {
    /// The mark of the processes.
    pub mark: String,
    /// A folder to remove afterwards.
    pub remove: Option<PathBuf>,
}

/// Source of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestPath {
    /// Standard input.
    Stdin,
    /// A file, or a folder of manifest files.
    Path(PathBuf),
}

impl FromStr for ManifestPath {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text == "-" { Self::Stdin } else { Self::Path(text.into()) })
    }
}

impl fmt::Display for ManifestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// The condition that `run` waits for before it starts the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitFor {
    /// None: the command starts at once; it is terminated if an object is refused.
    None,
    /// All objects are created and all definitions established.
    #[default]
    Applied,
    /// All objects are available.
    Available,
}

impl Choice for WaitFor {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("none", Self::None, "Nothing: CMD starts at once; it is terminated if an object is refused"),
        ("applied", Self::Applied, "All objects are created and all definitions established"),
        (
            "available",
            Self::Available,
            "Deployments, ReplicaSets, StatefulSets and DaemonSets have their pods, pods are ready, Jobs complete, namespaces active, APIServices available; other objects with a condition Ready have Ready=True",
        ),
    ];
}

/// How long the page of `run` is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTime {
    /// While the command runs.
    Run,
    /// Until a signal, as the cluster.
    Stay,
}

impl Choice for PageTime {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("run", Self::Run, "While CMD runs"),
        ("stay", Self::Stay, "Until Ctrl-C: the cluster stays when CMD has ended"),
    ];
}

/// Contents of a cluster before the command of `run` starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Sources of CustomResourceDefinitions.
    pub definitions: Vec<ManifestPath>,
    /// Sources of all other objects.
    pub manifests: Vec<ManifestPath>,
    /// The condition to wait for before the command starts.
    pub wait: WaitFor,
    /// Timeout of [`WaitFor::Available`].
    pub timeout: Duration,
    /// Directory or snapshot of a cluster to begin with; `None` begins with an empty one.
    pub from: Option<PathBuf>,
    /// How long the page is served; `None`: there is none.
    pub page: Option<PageTime>,
    /// Where and when a report is saved; `None`: never.
    pub report: Option<ReportFile>,
}

impl RunArgs {
    /// The cluster's configuration (in memory until a copy takes its place, always with an apiserver), its contents, and the command.
    pub fn into_config(mut self) -> Result<(Config, Setup, Vec<OsString>), UsageError> {
        let ProcessRole::Apiserver(components) = self.server.role()? else {
            return Err(UsageError::RunNeedsApiserver);
        };
        let loops = LoopsConfig { components, ..self.server.loops()? };
        let paths = self.setup.definitions.iter().chain(&self.setup.manifests);
        if paths.filter(|path| **path == ManifestPath::Stdin).count() > 1 {
            return Err(UsageError::StdinTwice);
        }
        let is_history_given = self.server.history.is_some();
        let mut api = self.server.into_here(&loops)?;
        if !is_history_given && api.lab.is_none() {
            // A command that fails still has its beginning.
            (api.history, api.history_bytes) = (History::All, Some(SHORT_LIVED_HISTORY_BYTES));
        }
        if let Some(lab) = &mut api.lab {
            // Whoever starts `run` starts programs anyway.
            lab.programs = true;
        }
        if api.lab.is_some() && self.setup.from.is_some() {
            let reason = "a lab begins with an empty cluster, or with the file of --lab-image";
            return Err(UsageError::LabRefuses("from", reason));
        }
        if api.lab.is_some() && self.setup.page.is_some() {
            let reason = "the page shows one cluster in real time";
            return Err(UsageError::LabRefuses("ui", reason));
        }
        // Not that of the folder of a copy.
        let name = api.name.or_else(|| Some(CLUSTER.to_owned()));
        let api = Api::Here(Box::new(ApiHere { name, ..api }));
        Ok((Config { api, loops }, self.setup, self.command))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;

    fn parse(flags: &str) -> Result<(Config, Setup, Vec<OsString>), String> {
        let cli = Cli::try_parse_from(format!("kstore-server run {flags}").split(' '));
        let Some(Command::Run(run)) = cli.map_err(|error| error.to_string())?.command else {
            panic!("not run")
        };
        run.into_config().map_err(|error| error.to_string())
    }

    #[test]
    fn run_takes_flags_before_the_dashes_and_a_command_after_them() {
        let (config, setup, command) = parse("--nodes 1 -- kubectl get pods -A").unwrap();
        assert_eq!(config.loops.nodes, 1);
        assert_eq!(command, ["kubectl", "get", "pods", "-A"]);
        let (wait, timeout) = (WaitFor::Applied, Duration::from_secs(60));
        assert_eq!(
            setup,
            Setup {
                definitions: vec![],
                manifests: vec![],
                wait,
                timeout,
                from: None,
                page: None,
                report: None
            }
        );
        for (flags, page) in
            [("--ui", PageTime::Run), ("--ui=run", PageTime::Run), ("--ui=stay", PageTime::Stay)]
        {
            let (_, setup, command) = parse(&format!("{flags} -- true")).unwrap();
            assert_eq!((setup.page, command), (Some(page), vec!["true".into()]), "{flags}");
        }
        let report = parse("--report a.html:always -- true").unwrap().1.report.unwrap();
        assert_eq!((report.path, report.is_always), ("a.html".into(), true));
        assert!(parse("--report a.html --lab -- true").unwrap().1.report.is_some());
        assert!(parse("--ui --lab -- true").unwrap_err().contains("one cluster in real time"));
        assert!(parse("--nodes 1").unwrap().2.is_empty(), "the shell takes its place");
        let five = History::For(Duration::from_secs(300));
        for (flags, expected) in [
            ("-- true", (History::All, Some(128 << 20))),
            ("--history 5m -- true", (five, None)),
            ("--history all,1MiB -- true", (History::All, Some(1 << 20))),
        ] {
            let (config, ..) = parse(flags).unwrap();
            let api = config.api.here().unwrap();
            assert_eq!((api.history, api.history_bytes), expected, "{flags}");
        }
        let (config, setup, _) = parse("--from prepared --etcd-listen 127.0.0.1:0 -- true").unwrap();
        assert_eq!(setup.from, Some("prepared".into()));
        assert!(config.api.here().unwrap().etcd.is_some());
        assert_eq!(
            parse("--components scheduler -- true").unwrap_err(),
            UsageError::RunNeedsApiserver.to_string()
        );
    }

    #[test]
    fn objects_come_from_files_folders_and_at_most_once_from_standard_input() {
        let flags =
            "--crd crds --crd - --manifest a.yaml --manifest b --wait=available --wait-timeout 2m -- true";
        let setup = parse(flags).unwrap().1;
        let path = |text: &str| text.parse().unwrap();
        assert_eq!(setup.definitions, [path("crds"), ManifestPath::Stdin]);
        assert_eq!(setup.manifests, [path("a.yaml"), path("b")]);
        assert_eq!((setup.wait, setup.timeout), (WaitFor::Available, Duration::from_secs(120)));
        assert_eq!(parse("--wait none -- true").unwrap().1.wait, WaitFor::None);
        for (flags, want) in [
            ("--crd - --manifest - -- true", "standard input"),
            ("--wait=ready -- true", "[possible values: none, applied, available]"),
            ("--wait-timeout 5 -- true", "expected a time"),
        ] {
            let refusal = parse(flags).unwrap_err();
            assert!(refusal.contains(want), "{flags}: {refusal}");
        }
    }
}
