//! The library of the binary `kstore-server`: command line, certificates, kubeconfigs, and the start and end
//! of a cluster in one process. Only here do all crates meet; no Kubernetes rule is implemented here.

mod access;
pub mod args;
mod assembly;
mod at;
mod audit;
mod authorities;
mod autoscaler;
mod basic_auth;
mod certs;
mod client_command;
mod clients;
mod cri_node;
mod data_dir;
mod data_version;
pub mod dropin;
mod encryption;
mod etcd_listener;
mod explain;
mod explore;
mod external;
mod file_page;
mod files;
mod flags;
mod forward;
mod history;
mod hostname;
mod import;
mod kubeconfig;
mod lab;
mod listen;
mod load_report;
mod memory_file;
mod metrics_server;
mod no_connections;
mod no_space;
mod open_files;
mod other_cluster;
mod pages;
mod pki;
mod ready;
mod record;
mod remote_version;
mod replay;
mod report;
mod revision;
mod run;
mod runtime;
mod salvage;
mod scheduler_config;
mod scheduler_perf;
mod served_kinds;
mod server_config;
mod shutdown;
mod signing;
mod simulate;
mod simulation;
mod socket_file;
mod source_copy;
mod stop;
mod store_cmd;
mod telemetry;
mod tls;
mod ui;
mod version;
mod watched_object;
mod what_if;
mod wiring;

pub use args::Cli;
use args::Command;
use kstore_api::revision_expression::ExpressionError;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
pub use telemetry::LogFormat;
pub use version::VERSION;

/// Executes `exec-guarded` and `end-marked`, the commands by which `run` starts this program again, and those of the launchers of host
/// programs, and returns the exit code. What starts them waits for them, and writes them in one form: they are recognized before the
/// command line is parsed, which takes longer than what they do.
pub fn helper(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    match arguments.next()?.to_str()? {
        "exec-guarded" => run::guard::exec_with(arguments.collect()),
        "end-marked" => run::watcher::end_with(arguments.collect()),
        other => kstore_host_runtime::launcher::run(other),
    }
}

/// Executes a parsed command line and returns the exit code of the process.
pub fn main(cli: Cli) -> ExitCode {
    if let Some(Command::As(replaced)) = cli.command {
        return dropin::run_as(replaced.program, replaced.flags);
    }
    if let Some(Command::ExecGuarded(exec)) = &cli.command {
        // Before logging starts: the process that `run` replaces by the command writes no log.
        return run::guard::exec(exec);
    }
    if let Some(Command::EndMarked(marked)) = &cli.command {
        return run::watcher::end_marked(marked);
    }
    telemetry::init(cli.log_format);
    let reads_history = matches!(
        cli.command,
        Some(
            Command::History(_)
                | Command::Diff(_)
                | Command::At(_)
                | Command::Undo(_)
                | Command::Tag(_)
                | Command::Report(_)
                | Command::WhatIf(_)
        )
    );
    let outcome = match cli.command {
        None => cli.serve.into_config().map_err(Into::into).and_then(import::serve),
        Some(Command::Run(run)) => run::run(*run),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Record(args)) => record::record(&args),
        Some(Command::Replay(args)) => replay::replay(&args),
        Some(Command::Explore(args)) => explore::explore(*args),
        Some(Command::Explain(args)) => explain::explain(args),
        Some(Command::History(args)) => history::history(args),
        Some(Command::Diff(args)) => history::diff(args),
        Some(Command::At(args)) => at::at(args),
        Some(Command::Undo(args)) => history::undo(args),
        Some(Command::Tag(args)) => history::tag(&args),
        Some(Command::WhatIf(args)) => what_if::what_if(&args),
        Some(Command::Ui(args)) => file_page::show_or_connect(args),
        Some(Command::Report(args)) => report::report(args),
        Some(Command::Stop(args)) => stop::stop(&args),
        Some(Command::Store(args)) => store_cmd::run(args),
        Some(Command::Certs(args)) => certs::run(&args.command),
        Some(Command::Kubeconfig(args)) => kubeconfig::user::kubeconfig(&args),
        Some(Command::SchedulerConfig(args)) => scheduler_config::check(&args),
        Some(Command::SchedulerPerf(args)) => scheduler_perf::scheduler_perf(&args),
        Some(Command::SimCrds(_)) => simulation::print_definitions(),
        Some(Command::SimRbac(args)) => simulation::print_role(&args),
        Some(Command::SimLint(args)) => simulation::lint(&args),
        Some(Command::Simulate(args)) => simulate::simulate(&args),
        Some(Command::BasicAuth(args)) => basic_auth::basic_auth(&args),
        Some(Command::Assets(args)) => dropin::make_assets(&args),
        Some(Command::Completion(args)) => pages::completion(args.shell),
        Some(Command::Man(args)) => pages::man(&args.dir),
        Some(Command::As(_) | Command::ExecGuarded(_) | Command::EndMarked(_)) => {
            unreachable!("returned above")
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("kstore-server: {}", without_repeats(&format!("{error:#}")));
        let is_expression = error.chain().any(|cause| cause.is::<ExpressionError>());
        let is_usage = error.is::<args::UsageError>()
            || error.is::<args::FlagError>()
            || error.is::<import::UnusableSource>()
            || is_expression
            || (reads_history && error.is::<simulation::Problems>());
        match (is_usage, reads_history) {
            (true, _) => ExitCode::from(USAGE),
            (false, true) => ExitCode::from(REFUSED),
            (false, false) => ExitCode::FAILURE,
        }
    })
}

/// Prints why a command line cannot be used, or the help that it asks for, and returns the exit code. `first` is its first word.
pub fn refuse(error: &clap::Error, first: Option<OsString>) -> ExitCode {
    let other_tool = first.as_deref().and_then(OsStr::to_str).and_then(args::of_other_tools);
    match other_tool.filter(|_| error.use_stderr()) {
        Some(instead) => eprintln!("kstore-server: {instead}"),
        // Standard error may be closed.
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE))
}

/// Exit code of a command line that cannot be used, as clap's.
const USAGE: u8 = 2;
/// Exit code of commands whose code 1 says that something differs, if the server refuses them or cannot be reached.
const REFUSED: u8 = 3;

/// An error text without the repetitions that come of causes whose texts name their own causes: `a: b: b` is `a: b`.
fn without_repeats(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split(": ").map(str::trim_end) {
        parts.push(part);
        let len = parts.len();
        let repeated = (1..=len / 2).find(|n| parts[len - n..] == parts[len - 2 * n..len - n]);
        parts.truncate(len - repeated.unwrap_or(0));
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_each_cause_once() {
        for (text, expected) in [
            ("cannot read x: No such file: No such file", "cannot read x: No such file"),
            ("transport error: transport error: refused: refused", "transport error: refused"),
            (
                "the storage does not answer: a: b : the storage does not answer: a: b",
                "the storage does not answer: a: b",
            ),
            ("listen on 127.0.0.1:80: in use", "listen on 127.0.0.1:80: in use"),
            ("a: b: a", "a: b: a"),
            ("", ""),
        ] {
            assert_eq!(without_repeats(text), expected);
        }
    }
}
