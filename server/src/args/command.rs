//! The subcommands of `kstore-server`: one row each.

use super::{
    AsArgs, AssetsArgs, AtArgs, BasicAuthArgs, CertsArgs, CheckArgs, CompletionArgs, DiffArgs, EndMarkedArgs,
    ExecArgs, ExplainArgs, ExploreArgs, HistoryArgs, ImportArgs, KubeconfigArgs, ManArgs, RecordArgs,
    ReplayArgs, ReportArgs, RunArgs, SchedulerPerfArgs, SimCrdsArgs, SimLintArgs, SimRbacArgs, SimulateArgs,
    StopArgs, StoreArgs, TagArgs, UiArgs, UndoArgs, WhatIfArgs, at, basic_auth, certs, dropin, explain,
    explore, history, import, pages, parser, record, replay, report, run, scheduler_config, scheduler_perf,
    simulation, stop, store, tag, ui, undo, what_if,
};
use clap::ArgMatches;
use clap::error::ErrorKind;

/// Subcommands besides running the server.
#[derive(Debug)]
pub enum Command {
    /// `run`: a command against a cluster of its own.
    Run(Box<RunArgs>),
    /// `explore`: a search for bugs of an operator.
    Explore(Box<ExploreArgs>),
    /// `explain`: causes and effects of an object.
    Explain(ExplainArgs),
    /// `history`: the retained revisions of an object.
    History(HistoryArgs),
    /// `diff`: what differs between two revisions of an object, or of the cluster.
    Diff(DiffArgs),
    /// `at`: a command that sees the cluster as of a revision.
    At(AtArgs),
    /// `undo`: takes back a write.
    Undo(UndoArgs),
    /// `tag`: names of revisions.
    Tag(TagArgs),
    /// `what-if`: what would follow from a change of the cluster.
    WhatIf(WhatIfArgs),
    /// `ui`: the page of a server in a browser.
    Ui(UiArgs),
    /// `report`: a file that shows a server's history without it.
    Report(ReportArgs),
    /// `import`: a data directory with the state of another cluster.
    Import(ImportArgs),
    /// `record`: a data directory with the state and the changes of another cluster.
    Record(RecordArgs),
    /// `replay`: a recording at a multiple of its speed.
    Replay(Box<ReplayArgs>),
    /// `stop`: ends the server on a data directory.
    Stop(StopArgs),
    /// `store`: work on the store's data without a server.
    Store(StoreArgs),
    /// `certs`: certificates of a data directory.
    Certs(CertsArgs),
    /// `kubeconfig`: a kubeconfig of a user.
    Kubeconfig(KubeconfigArgs),
    /// `scheduler-config check`: a KubeSchedulerConfiguration as the scheduler runs it.
    SchedulerConfig(CheckArgs),
    /// `scheduler-perf`: workloads of Kubernetes' scheduler_perf.
    SchedulerPerf(SchedulerPerfArgs),
    /// `sim-crds`: the kinds of simulated data centres.
    SimCrds(SimCrdsArgs),
    /// `sim-rbac`: the role of simulated nodes in a real cluster.
    SimRbac(SimRbacArgs),
    /// `sim-lint`: what is wrong with files of `--nodes-file`.
    SimLint(SimLintArgs),
    /// `simulate`: a run of a scenario in virtual time.
    Simulate(SimulateArgs),
    /// `basic-auth`: the line of a user with a password.
    BasicAuth(BasicAuthArgs),
    /// `assets`: the programs that test harnesses start.
    Assets(AssetsArgs),
    /// `as`: one of these programs.
    As(AsArgs),
    /// `completion`: completions for a shell.
    Completion(CompletionArgs),
    /// `man`, hidden: manual pages.
    Man(ManArgs),
    /// `exec-guarded`, hidden: a program that ends with its parent.
    ExecGuarded(ExecArgs),
    /// `end-marked`, hidden: ends what a killed `run` started.
    EndMarked(EndMarkedArgs),
}

/// A subcommand.
struct CommandRow {
    name: &'static str,
    /// Description in lists of commands, and the beginning of its own help.
    about: &'static str,
    /// End of its own help.
    help: &'static str,
    is_hidden: bool,
    /// Adds flags, arguments and subcommands.
    build: fn(clap::Command) -> clap::Command,
    /// Reads their values.
    read: fn(&ArgMatches) -> Result<Command, clap::Error>,
}

const COMMANDS: &[CommandRow] = &[
    CommandRow {
        name: "run",
        about: "Run a command against a fresh in-memory cluster that ends with it",
        help: run::HELP,
        is_hidden: false,
        build: run::build,
        read: |matches| Ok(Command::Run(Box::new(run::read(matches)?))),
    },
    CommandRow {
        name: "explore",
        about: "Search for bugs of an operator by runs on forks of a cluster",
        help: explore::HELP,
        is_hidden: false,
        build: |command| parser::add(command, explore::FLAGS),
        read: |matches| parser::read(explore::FLAGS, matches).map(Box::new).map(Command::Explore),
    },
    CommandRow {
        name: "explain",
        about: "Print what led to an object and what followed from it, as a tree",
        help: explain::HELP,
        is_hidden: false,
        build: |command| parser::add(command, explain::FLAGS),
        read: |matches| parser::read(explain::FLAGS, matches).map(Command::Explain),
    },
    CommandRow {
        name: "history",
        about: "Print who wrote each retained revision of an object, why, and what it changed",
        help: history::HISTORY_HELP,
        is_hidden: false,
        build: |command| parser::add(command, history::HISTORY),
        read: |matches| parser::read(history::HISTORY, matches).map(Command::History),
    },
    CommandRow {
        name: "diff",
        about: "Print what differs between two revisions of an object, or of the cluster",
        help: history::DIFF_HELP,
        is_hidden: false,
        build: |command| parser::add(command, history::DIFF),
        read: |matches| parser::read(history::DIFF, matches).map(Command::Diff),
    },
    CommandRow {
        name: "at",
        about: "Run a command that sees the cluster as of a revision",
        help: at::HELP,
        is_hidden: false,
        build: |command| parser::add(command, at::FLAGS),
        read: |matches| parser::read(at::FLAGS, matches).map(Command::At),
    },
    CommandRow {
        name: "undo",
        about: "Take back a write, or what happened to an object, by new writes",
        help: undo::HELP,
        is_hidden: false,
        build: |command| parser::add(command, undo::FLAGS),
        read: |matches| parser::read(undo::FLAGS, matches).map(Command::Undo),
    },
    CommandRow {
        name: "tag",
        about: "Name a revision, and keep its state until the name is deleted",
        help: tag::HELP,
        is_hidden: false,
        build: |command| parser::add(command, tag::FLAGS),
        read: |matches| parser::read(tag::FLAGS, matches).map(Command::Tag),
    },
    CommandRow {
        name: "what-if",
        about: "Try a change on a copy of the cluster, and print what follows from it",
        help: what_if::HELP,
        is_hidden: false,
        build: |command| parser::add(command, what_if::FLAGS),
        read: |matches| parser::read(what_if::FLAGS, matches).map(Command::WhatIf),
    },
    CommandRow {
        name: "ui",
        about: "Show a server in a browser, now and at any retained revision",
        help: ui::HELP,
        is_hidden: false,
        build: |command| parser::add(command, ui::FLAGS),
        read: |matches| parser::read(ui::FLAGS, matches).map(Command::Ui),
    },
    CommandRow {
        name: "report",
        about: "Save what the page shows into one file that opens without a server",
        help: report::HELP,
        is_hidden: false,
        build: |command| parser::add(command, report::FLAGS),
        read: |matches| parser::read(report::FLAGS, matches).map(Command::Report),
    },
    CommandRow {
        name: "import",
        about: "Make a data directory of a snapshot of a Kubernetes' etcd, or of manifests",
        help: import::HELP,
        is_hidden: false,
        build: |command| parser::add(command, import::FLAGS),
        read: |matches| parser::read(import::FLAGS, matches).map(Command::Import),
    },
    CommandRow {
        name: "record",
        about: "Record the state and the changes of a running cluster as a data directory",
        help: record::HELP,
        is_hidden: false,
        build: |command| parser::add(command, record::FLAGS),
        read: |matches| parser::read(record::FLAGS, matches).map(Command::Record),
    },
    CommandRow {
        name: "replay",
        about: "Serve a recording so that its changes happen again, at a multiple of their speed",
        help: replay::HELP,
        is_hidden: false,
        build: |command| parser::add(command, replay::FLAGS),
        read: |matches| parser::read(replay::FLAGS, matches).map(Box::new).map(Command::Replay),
    },
    CommandRow {
        name: "stop",
        about: "End the server that runs on a data directory, in order",
        help: stop::HELP,
        is_hidden: false,
        build: |command| parser::add(command, stop::FLAGS),
        read: |matches| parser::read(stop::FLAGS, matches).map(Command::Stop),
    },
    CommandRow {
        name: "store",
        about: "Check, save, restore or salvage the store's data while no server runs on it",
        help: store::HELP,
        is_hidden: false,
        build: store::build,
        read: |matches| store::read(matches).map(Command::Store),
    },
    CommandRow {
        name: "certs",
        about: "Show and renew certificates of a data directory, and issue new ones",
        help: certs::CERTS_HELP,
        is_hidden: false,
        build: certs::build,
        read: |matches| certs::read(matches).map(Command::Certs),
    },
    CommandRow {
        name: "kubeconfig",
        about: "Make a kubeconfig with a new client certificate for a user",
        help: certs::KUBECONFIG_HELP,
        is_hidden: false,
        build: |command| parser::add(command, certs::KUBECONFIG),
        read: |matches| parser::read(certs::KUBECONFIG, matches).map(Command::Kubeconfig),
    },
    CommandRow {
        name: "scheduler-config",
        about: "Check a file for --scheduler-config, and print it with its defaults",
        help: scheduler_config::HELP,
        is_hidden: false,
        build: scheduler_config::build,
        read: |matches| scheduler_config::read(matches).map(Command::SchedulerConfig),
    },
    CommandRow {
        name: "scheduler-perf",
        about: "Measure the scheduler with workloads of Kubernetes' scheduler_perf",
        help: scheduler_perf::HELP,
        is_hidden: false,
        build: |command| parser::add(command, scheduler_perf::FLAGS),
        read: |matches| parser::read(scheduler_perf::FLAGS, matches).map(Command::SchedulerPerf),
    },
    CommandRow {
        name: "simulate",
        about: "Run a scenario of a data centre in virtual time, and report what happened",
        help: simulation::SIMULATE_HELP,
        is_hidden: false,
        build: |command| parser::add(command, simulation::SIMULATE),
        read: |matches| parser::read(simulation::SIMULATE, matches).map(Command::Simulate),
    },
    CommandRow {
        name: "sim-lint",
        about: "Check files for --nodes-file",
        help: simulation::LINT_HELP,
        is_hidden: false,
        build: |command| parser::add(command, simulation::LINT),
        read: |matches| parser::read(simulation::LINT, matches).map(Command::SimLint),
    },
    CommandRow {
        name: "sim-crds",
        about: "Print the definitions of NodeGroup and the other kinds of sim.kstore.io",
        help: simulation::CRDS_HELP,
        is_hidden: false,
        build: |command| parser::add(command, simulation::CRDS),
        read: |matches| parser::read(simulation::CRDS, matches).map(Command::SimCrds),
    },
    CommandRow {
        name: "sim-rbac",
        about: "Print the least role for simulated nodes inside a cluster of another API server",
        help: simulation::RBAC_HELP,
        is_hidden: false,
        build: |command| parser::add(command, simulation::RBAC),
        read: |matches| parser::read(simulation::RBAC, matches).map(Command::SimRbac),
    },
    CommandRow {
        name: "basic-auth",
        about: "Print a line for --basic-auth-file with the hash of a password",
        help: basic_auth::HELP,
        is_hidden: false,
        build: |command| parser::add(command, basic_auth::FLAGS),
        read: |matches| parser::read(basic_auth::FLAGS, matches).map(Command::BasicAuth),
    },
    CommandRow {
        name: "assets",
        about: "Make a folder with the programs that envtest and other test harnesses start",
        help: dropin::ASSETS_HELP,
        is_hidden: false,
        build: |command| parser::add(command, dropin::ASSETS),
        read: |matches| parser::read(dropin::ASSETS, matches).map(Command::Assets),
    },
    CommandRow {
        name: "as",
        about: "Run as another program, with its flags: `kstore-server as etcd --help`",
        help: "",
        is_hidden: false,
        build: |command| parser::add(command, dropin::AS),
        read: |matches| parser::read(dropin::AS, matches).map(Command::As),
    },
    CommandRow {
        name: "completion",
        about: "Print completions for a shell",
        help: pages::COMPLETION_HELP,
        is_hidden: false,
        build: |command| parser::add(command, pages::COMPLETION),
        read: |matches| parser::read(pages::COMPLETION, matches).map(Command::Completion),
    },
    CommandRow {
        name: "man",
        about: "Write the manual pages of all commands (used when packages are made)",
        help: "",
        is_hidden: true,
        build: |command| parser::add(command, pages::MAN),
        read: |matches| parser::read(pages::MAN, matches).map(Command::Man),
    },
    CommandRow {
        name: "exec-guarded",
        about: "Replace this process by another program that is killed when its parent exits (used by `run`)",
        help: "",
        is_hidden: true,
        build: |command| parser::add(command, run::EXEC_GUARDED),
        read: |matches| parser::read(run::EXEC_GUARDED, matches).map(Command::ExecGuarded),
    },
    CommandRow {
        name: "end-marked",
        about: "End the processes that a `run` started, when that `run` was killed (used by `run`)",
        help: "",
        is_hidden: true,
        build: |command| parser::add(command, run::END_MARKED),
        read: |matches| parser::read(run::END_MARKED, matches).map(Command::EndMarked),
    },
];

/// Adds the subcommands to the program.
pub(super) fn add(program: clap::Command) -> clap::Command {
    program.subcommands(COMMANDS.iter().map(|row| {
        let command = subcommand(row.name, row.about, row.help).hide(row.is_hidden);
        (row.build)(command)
    }))
}

/// A command with its description, and the end of its help if there is one.
pub(super) fn subcommand(name: &'static str, about: &'static str, help: &'static str) -> clap::Command {
    let command = clap::Command::new(name).about(about);
    if help.is_empty() { command } else { command.after_help(help) }
}

/// The name and the arguments of a subcommand that must be given.
pub(super) fn given(matches: &ArgMatches) -> Result<(&str, &ArgMatches), clap::Error> {
    matches.subcommand().ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))
}

/// The given subcommand, if there is one.
pub(super) fn read(matches: &ArgMatches) -> Result<Option<Command>, clap::Error> {
    let Some((name, matches)) = matches.subcommand() else { return Ok(None) };
    let row = COMMANDS.iter().find(|row| row.name == name);
    row.map(|row| (row.read)(matches)).transpose()
}
