//! Flags of the audit log, with kube-apiserver's names and meanings.

use super::UsageError;
use super::access::AuditWebhook;
use kstore_access::audit::{Mode, Rotation};
use std::path::PathBuf;

/// The value of `--audit-log-path` for standard output.
const STDOUT: &str = "-";
/// Default size, in mebibytes, at which a log file is rotated.
const MAX_SIZE_MB: u32 = 100;

/// The values of the flags of the audit log.
#[derive(Debug, Default)]
pub(super) struct AuditOptions {
    pub(super) policy: Option<PathBuf>,
    pub(super) log_path: Option<String>,
    pub(super) mode: Mode,
    pub(super) rotation: Rotation,
}

/// Configuration of the audit log and the audit webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// File of the audit policy.
    pub policy: PathBuf,
    /// The log, if events are written to one.
    pub log: Option<AuditDestination>,
    /// Whether requests wait until their events are written to the log.
    pub mode: Mode,
    /// The webhook, if events are posted to one.
    pub webhook: Option<AuditWebhook>,
}

/// The output of audit events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditDestination {
    /// Standard output.
    Stdout,
    /// A file, with its rotation.
    File(PathBuf, Rotation),
}

impl AuditDestination {
    /// The destination that `--audit-log-path` names. A `max_size_mb` of 0 selects the default size.
    pub(crate) fn new(path: &str, rotation: Rotation) -> Self {
        if path == STDOUT {
            return Self::Stdout;
        }
        let max_size_mb = if rotation.max_size_mb == 0 { MAX_SIZE_MB } else { rotation.max_size_mb };
        Self::File(path.into(), Rotation { max_size_mb, ..rotation })
    }
}

impl AuditOptions {
    /// The audit configuration, if any. `given` is the first given flag of the audit log, `webhook` the configuration by the other
    /// flags.
    pub(super) fn into_config(
        self,
        given: Option<&'static str>,
        webhook: Option<AuditWebhook>,
    ) -> Result<Option<Box<AuditConfig>>, UsageError> {
        const POLICY: &str = "--audit-policy-file FILE";
        let log = self.log_path.map(|path| AuditDestination::new(&path, self.rotation));
        match (self.policy, given) {
            (Some(_), _) if log.is_none() && webhook.is_none() => Err(UsageError::NeedsFlag(
                "audit-policy-file",
                "--audit-log-path FILE or --audit-webhook-config-file FILE",
            )),
            (Some(policy), _) => Ok(Some(Box::new(AuditConfig { policy, log, mode: self.mode, webhook }))),
            (None, Some(flag)) => Err(UsageError::NeedsFlag(flag, POLICY)),
            (None, None) if webhook.is_some() => {
                Err(UsageError::NeedsFlag("audit-webhook-config-file", POLICY))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Parses `--audit-log-mode`.
pub(super) fn mode(text: &str) -> Result<Mode, String> {
    Mode::parse(text).ok_or_else(|| format!("expected one of {}", Mode::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;

    fn config(flags: &str) -> Result<Option<AuditConfig>, String> {
        let line = format!("kstore-server {flags}");
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        let api = cli.serve.into_config().map_err(|error| error.to_string())?.api;
        Ok(api.here().unwrap().audit.map(|audit| *audit))
    }

    #[test]
    fn an_audit_policy_and_an_audit_destination_require_each_other() {
        assert_eq!(config("--nodes 1"), Ok(None));
        let both = "--audit-policy-file p --audit-log-path l";
        let rotation = Rotation { max_age_days: 0, max_backups: 0, max_size_mb: 100 };
        let log = AuditDestination::File("l".into(), rotation);
        let want = AuditConfig { policy: "p".into(), log: Some(log), mode: Mode::Blocking, webhook: None };
        assert_eq!(config(both), Ok(Some(want)));
        let all = config(&format!(
            "{both} --audit-log-mode batch --audit-log-maxage 3 --audit-log-maxbackup 2 --audit-log-maxsize 1"
        ));
        let rotation = Rotation { max_age_days: 3, max_backups: 2, max_size_mb: 1 };
        let AuditConfig { log, mode, .. } = all.unwrap().unwrap();
        assert_eq!((log, mode), (Some(AuditDestination::File("l".into(), rotation)), Mode::Batch));
        let stdout = config("--audit-policy-file p --audit-log-path -").unwrap().unwrap();
        assert_eq!(stdout.log, Some(AuditDestination::Stdout));
        let posted = config("--audit-policy-file p --audit-webhook-config-file w").unwrap().unwrap();
        assert_eq!((posted.log, posted.webhook.unwrap().kubeconfig), (None, "w".into()));
        for (flags, want) in [
            ("--audit-policy-file p", "--audit-policy-file needs --audit-log-path FILE"),
            ("--audit-webhook-config-file w", "--audit-webhook-config-file needs --audit-policy-file FILE"),
            (
                "--audit-policy-file p --audit-webhook-config-file w --audit-webhook-mode x",
                "invalid argument \"x\" for \"--audit-webhook-mode\" flag",
            ),
            ("--audit-log-path l", "--audit-log-path needs --audit-policy-file FILE"),
            ("--audit-log-maxsize 1", "--audit-log-maxsize needs --audit-policy-file FILE"),
            ("--audit-log-mode sometimes", "expected one of batch, blocking, blocking-strict"),
            (
                "--components scheduler --kubeconfig f --audit-log-path l",
                "--audit-log-path requires `apiserver` in --components",
            ),
            (
                "--components store --etcd-listen :0 --audit-log-path l",
                "--audit-log-path requires `apiserver` in --components",
            ),
        ] {
            let refusal = config(flags).unwrap_err();
            assert!(refusal.contains(want), "{flags}: {refusal}");
        }
    }
}
