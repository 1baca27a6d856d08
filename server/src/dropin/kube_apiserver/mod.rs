//! The drop-in program `kube-apiserver`: an API server with its objects in an external etcd. `table` lists the flags, and `settings` turns
//! them into a [`settings::Apiserver`] (pure). `identity` reads its certificate and key files, and `serve` starts the server.

mod audit;
mod identity;
mod plugins;
mod serve;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod versions;

use super::{KUBERNETES, UsageError};
use crate::telemetry::{self, LogFormat};
use crate::wiring;
use std::process::ExitCode;
use table::TABLE;

/// Runs `kube-apiserver` with the arguments after its name.
pub(super) fn run(words: Vec<String>) -> ExitCode {
    let parsed = match TABLE.parse(words) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error.into()),
    };
    if parsed.has("help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let minor = match versions::served(&parsed, variable) {
        Ok(minor) => minor,
        Err(error) => return refuse(&error),
    };
    if let Some(version) = super::version_line(parsed.last("version"), minor) {
        println!("{version}");
        return ExitCode::SUCCESS;
    }
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
        "Runs kstore's apiserver with the flags of kube-apiserver {KUBERNETES}. Controllers, scheduler and simulated nodes run\n\
         only if the environment enables them: KSTORE_CONTROLLERS=all or a list of controllers,\n\
         KSTORE_SCHEDULER=1, KSTORE_NODES=N. KSTORE_KUBERNETES_VERSION is the version whose API is served, such as 1.34,\n\
         unless --version or --emulated-version says it.\n\n\
         Usage:\n  kube-apiserver [flags]\n\nFlags:\n{}",
        TABLE.help()
    )
}
