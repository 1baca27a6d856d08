//! The programs `kube-controller-manager` and `kube-scheduler`: a part of the control plane alone, as a client of kstore's apiserver. Flags
//! become [`settings::Settings`] (pure); `serve` starts the part, `election` makes it work only while it leads, and `health` answers at `--secure-port`.

mod config_file;
mod election;
mod health;
mod serve;
mod settings;
mod table;
#[cfg(test)]
mod tests;

use super::flags::Table;
use super::{KUBERNETES, UsageError};
use crate::telemetry::{self, LogFormat};
use crate::wiring;
use std::process::ExitCode;

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `kube-controller-manager`.
    ControllerManager,
    /// `kube-scheduler`.
    Scheduler,
}

impl Kind {
    /// The name of the program.
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

/// Runs the program on the words after its name.
pub(super) fn run(kind: Kind, words: Vec<String>) -> ExitCode {
    let parsed = match kind.table().parse(words) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(kind, &error.into()),
    };
    if parsed.has("help") {
        print!("{}", help(kind));
        return ExitCode::SUCCESS;
    }
    if let Some(version) = super::version_line(parsed.last("version")) {
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

fn refuse(kind: Kind, error: &UsageError) -> ExitCode {
    let name = kind.name();
    eprintln!("Error: {error}\nSee '{name} --help' for the flags.");
    ExitCode::FAILURE
}

fn help(kind: Kind) -> String {
    let (name, what) = match kind {
        Kind::ControllerManager => (kind.name(), "controllers"),
        Kind::Scheduler => (kind.name(), "scheduler"),
    };
    format!(
        "kstore's {what} alone, with the flags of {name} {KUBERNETES}, on an apiserver of kstore (it speaks gRPC to it).\n\
         Of several, the one that holds the Lease of --leader-elect works.\n\n\
         Usage:\n  {name} [flags]\n\nFlags:\n{}",
        kind.table().help()
    )
}
