//! The scheduler's configuration by `--scheduler-config`, and `kstore-server scheduler-config check`.

use crate::args::{CheckArgs, SchedulerFile};
use anyhow::Context;
use kstore_scheduler::{Config, Configuration, Registry};
use std::process::ExitCode;

/// The configuration of a scheduler beside or without an apiserver, with warnings in the log about what the file says in vain.
pub(crate) fn config(file: Option<&SchedulerFile>) -> Config {
    let Some(file) = file else { return Config::default() };
    let read = file.configuration();
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
