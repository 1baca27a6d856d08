//! The scheduler's configuration by `--scheduler-config`, and `kstore-server scheduler-config check`.

use crate::args::{CheckArgs, LoopsConfig, SchedulerFile};
use anyhow::Context;
use jiff::SignedDuration;
use kstore_scheduler::{Config, Configuration, Gates, Registry};
use std::process::ExitCode;

/// The configuration of a scheduler beside or without an apiserver.
pub(crate) fn config(loops: &LoopsConfig, gates: Gates) -> Config {
    let mut config =
        loops.scheduler.as_ref().map_or_else(|| Config::gated(gates), |file| of_file(file, gates));
    config.ties = loops.ties;
    if let Some(stay) = loops.longest_stay {
        config.backoff.longest_stay = SignedDuration::try_from(stay).unwrap_or(SignedDuration::MAX);
    }
    config
}

/// The configuration that a file says, with warnings in the log about what it says in vain.
fn of_file(file: &SchedulerFile, gates: Gates) -> Config {
    let read = file.configuration(gates);
    let mut warnings = read.warnings.clone();
    if read.leader_election.leader_elect == Some(true) {
        warnings.push("leaderElection has no effect: --leader-elect decides".to_owned());
    }
    if read.client_connection.kubeconfig.is_some() {
        warnings.push("clientConnection.kubeconfig has no effect: --kubeconfig decides".to_owned());
    }
    warnings.iter().for_each(|warning| tracing::warn!("--scheduler-config: {warning}"));
    read.into()
}

/// Carries out `scheduler-config check`.
pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {shown}"))?;
    match Configuration::parse(&text, &Registry::in_tree()) {
        Ok(read) => {
            read.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            print!("{}", read.print());
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("{error}");
            Ok(ExitCode::FAILURE)
        }
    }
}
