//! The audit log of a server: its policy is read, its file opened, and its writer runs on a thread of its own.

use crate::args::{AuditConfig, AuditDestination};
use crate::phase::Phase;
use anyhow::{Context, anyhow};
use kstore_apiserver::audit::{Audit, AuditLog, Policy};
use kstore_nondet::Clock;
use std::path::Path;
use std::sync::Arc;

/// Opens the log and starts its writer, which ends with the last user of the log.
pub(crate) fn open(config: &AuditConfig, clock: Clock) -> anyhow::Result<Arc<Audit>> {
    let policy = read_policy(&config.policy)?;
    let log = match &config.log {
        AuditDestination::Stdout => AuditLog::stdout(),
        AuditDestination::File(path, rotation) => AuditLog::file(path.clone(), *rotation, clock)
            .with_context(|| format!("cannot open the audit log {}", path.display()))?,
    };
    let (audit, writer) = Audit::new(policy, config.mode, log);
    let thread = std::thread::Builder::new().name("audit".to_owned());
    thread.spawn(move || writer.run()).context("cannot start the writer of the audit log")?;
    Ok(audit)
}

/// Writes what is left of the log at the end of `core`, when no request comes any more.
pub(crate) fn keep(core: &Phase, audit: Arc<Audit>) {
    let stop = core.stop();
    core.spawn("audit", async move {
        stop.cancelled().await;
        audit.drain().await;
    });
}

/// With the errors of kube-apiserver.
fn read_policy(path: &Path) -> anyhow::Result<Policy> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| {
        anyhow!("loading audit policy file: failed to read file path {:?}: {error}", shown.to_string())
    })?;
    Policy::parse(&text).map_err(|error| anyhow!("loading audit policy file: {error}: from file {shown}"))
}
