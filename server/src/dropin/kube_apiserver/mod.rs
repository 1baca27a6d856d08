//! The program `kube-apiserver`: its flags made into an apiserver alone, on an etcd. Flags become a [`settings::Apiserver`] (pure), its
//! files certificates and keys (`identity`), and both a running server (`serve`). The table of flags is `table`.

mod audit;
mod gate_table;
mod gates;
mod identity;
mod plugins;
mod serve;
mod settings;
mod table;
#[cfg(test)]
mod tests;

pub(super) use gates::feature_gates;

use super::{KUBERNETES, UsageError};
use crate::telemetry::{self, LogFormat};
use crate::wiring;
use std::process::ExitCode;
use table::TABLE;

/// Runs the program on the words after its name.
pub(super) fn run(words: Vec<String>) -> ExitCode {
    let parsed = match TABLE.parse(words) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error.into()),
    };
    if parsed.has("help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    if let Some(version) = super::version_line(parsed.last("version")) {
        println!("{version}");
        return ExitCode::SUCCESS;
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let read = parsed.check().map_err(UsageError::from).and_then(|mut warnings| {
        let apiserver = settings::read(&parsed, variable, &mut warnings)?;
        Ok((apiserver, warnings))
    });
    let (apiserver, warnings) = match read {
        Ok(read) => read,
        Err(error) => return refuse(&error),
    };
    telemetry::init(LogFormat::Text);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    wiring::serve_started(serve::start(apiserver)).unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}

fn refuse(error: &UsageError) -> ExitCode {
    eprintln!("Error: {error}\nSee 'kube-apiserver --help' for the flags.");
    ExitCode::FAILURE
}

fn help() -> String {
    format!(
        "kstore's apiserver alone, with the flags of kube-apiserver {KUBERNETES}. It runs no controllers, no scheduler and no\n\
         nodes, unless the environment asks for them: KSTORE_CONTROLLERS=all or a list of\n\
         controllers, KSTORE_SCHEDULER=1, KSTORE_NODES=N.\n\n\
         Usage:\n  kube-apiserver [flags]\n\nFlags:\n{}",
        TABLE.help()
    )
}
