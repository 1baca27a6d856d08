//! Opens the audit log: reads its policy, opens its file, and starts a thread that writes events and a task
//! that posts them to a webhook.

use crate::access;
use crate::args::{AuditConfig, AuditDestination};
use anyhow::{Context, anyhow};
use kstore_access::audit::{Audit, AuditLog, Policy};
use kstore_cluster::Phase;
use kstore_nondet::Nondet;
use std::path::Path;
use std::sync::Arc;

/// Opens the log and starts its writers, which end when the last reference to the log is dropped.
pub(crate) fn open(config: &AuditConfig, nondet: &Nondet) -> anyhow::Result<Arc<Audit>> {
    let mut audit = Audit::by(read_policy(&config.policy)?);
    if let Some(destination) = &config.log {
        let log = match destination {
            AuditDestination::Stdout => AuditLog::stdout(),
            AuditDestination::File(path, rotation) => {
                AuditLog::file(path.clone(), *rotation, nondet.clock)
                    .with_context(|| format!("cannot open the audit log {}", path.display()))?
            }
        };
        let writer = audit.log_to(config.mode, log);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        thread.spawn(move || writer.run()).context("cannot start the writer of the audit log")?;
    }
    if let Some(webhook) = &config.webhook {
        let remote = access::remote("--audit-webhook-config-file", &webhook.kubeconfig)?;
        tokio::spawn(audit.send_to(remote, webhook.options, nondet.rng.fork("audit-webhook")).run());
    }
    Ok(Arc::new(audit))
}

/// Writes the remaining events of the log when `core` ends; no request is served by then.
pub(crate) fn flush_at_end(core: &Phase, audit: Arc<Audit>) {
    let stop = core.stop();
    core.spawn("audit", async move {
        stop.cancelled().await;
        audit.end().await;
    });
}

/// Reads the policy file. Error texts are those of kube-apiserver.
fn read_policy(path: &Path) -> anyhow::Result<Policy> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| {
        anyhow!("loading audit policy file: failed to read file path {:?}: {error}", shown.to_string())
    })?;
    Policy::parse(&text).map_err(|error| anyhow!("loading audit policy file: {error}: from file {shown}"))
}
