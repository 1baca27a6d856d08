//! The drop-in programs `kube-controller-manager` and `kube-scheduler`: one component as a client of kstore's API server. `settings` turns
//! flags into [`settings::Settings`] (pure). `serve` starts the component, which `election` runs only while it is the leader. `health`
//! serves `--secure-port`.

mod config_file;
mod election;
mod health;
mod serve;
mod settings;
mod table;
#[cfg(test)]
mod tests;

use super::{KUBERNETES, UsageError};
use crate::flags::Table;
use crate::telemetry::{self, LogFormat};
use crate::wiring;
use kstore_api::version::Minor;
use std::process::ExitCode;

/// The component that a drop-in program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComponentKind {
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
}

impl ComponentKind {
    /// Name of the program, which its Lease has by default, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    fn table(self) -> Table {
        match self {
            Self::ControllerManager => table::CONTROLLER_MANAGER,
            Self::Scheduler => table::SCHEDULER,
        }
    }
}

/// Runs the program with the arguments after its name.
pub(super) fn run(kind: ComponentKind, words: Vec<String>) -> ExitCode {
    let parsed = match kind.table().parse(words) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(kind, &error.into()),
    };
    if parsed.has("help") {
        print!("{}", help(kind));
        return ExitCode::SUCCESS;
    }
    if let Some(version) = super::version_line(parsed.last("version"), Minor::DEFAULT) {
        println!("{version}");
        return ExitCode::SUCCESS;
    }
    let read = parsed.check().map_err(UsageError::from).and_then(|mut warnings| {
        let settings = settings::read(kind, &parsed, &mut warnings)?;
        Ok((settings, warnings))
    });
    let (settings, warnings) = match read {
        Ok(read) => read,
        Err(error) => return refuse(kind, &error),
    };
    telemetry::init(LogFormat::Text);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    wiring::serve_started(serve::start(settings)).unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}

fn refuse(kind: ComponentKind, error: &UsageError) -> ExitCode {
    let name = kind.name();
    eprintln!("Error: {error}\nSee '{name} --help' for the flags.");
    ExitCode::FAILURE
}

fn help(kind: ComponentKind) -> String {
    let (name, what) = match kind {
        ComponentKind::ControllerManager => (kind.name(), "controllers"),
        ComponentKind::Scheduler => (kind.name(), "scheduler"),
    };
    format!(
        "Runs kstore's {what} with the flags of {name} {KUBERNETES}. The apiserver must be kstore's: the program speaks gRPC to it.\n\
         Of several replicas, only the leader works (--leader-elect).\n\n\
         Usage:\n  {name} [flags]\n\nFlags:\n{}",
        kind.table().help()
    )
}
