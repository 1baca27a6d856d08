//! Flags of the audit webhook.

use super::{FlagError, FlagValues};
use kstore_access::audit::{Batching, Mode, Throttle, Truncation, WebhookOptions};
use std::path::PathBuf;
use std::time::Duration;

/// The server to which audit events are posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditWebhook {
    /// Kubeconfig with the server's address and credentials.
    pub kubeconfig: PathBuf,
    /// Batching, throttling and retry of posts.
    pub options: WebhookOptions,
}

/// The audit webhook that the flags configure, if any.
///
/// # Errors
/// The first value that cannot be used.
pub(crate) fn audit_webhook(flags: &impl FlagValues) -> Result<Option<AuditWebhook>, FlagError> {
    const MODE: &str = "audit-webhook-mode";
    const VERSION: &str = "audit-webhook-version";
    let known = WebhookOptions::default();
    let mode = match flags.text(MODE) {
        None => known.mode,
        Some(name) => Mode::parse(name).ok_or_else(|| {
            let names = Mode::NAMES.join(",");
            FlagError::new(
                MODE,
                name,
                format!("invalid audit webhook mode {name}, allowed modes are {names:?}"),
            )
        })?,
    };
    if let Some(version) = flags.text(VERSION).filter(|version| *version != "audit.k8s.io/v1") {
        return Err(FlagError::new(VERSION, version, "kstore posts audit.k8s.io/v1 only"));
    }
    let batching = Batching {
        buffer: flags.count("audit-webhook-batch-buffer-size", known.batching.buffer)?,
        max_size: flags.count("audit-webhook-batch-max-size", known.batching.max_size)?,
        max_wait: flags.time("audit-webhook-batch-max-wait", known.batching.max_wait)?,
        throttle: throttle(flags)?,
    };
    let cut = Truncation {
        event_bytes: flags
            .count("audit-webhook-truncate-max-event-size", Truncation::default().event_bytes)?,
        batch_bytes: flags
            .count("audit-webhook-truncate-max-batch-size", Truncation::default().batch_bytes)?,
    };
    let truncation = flags.is_on("audit-webhook-truncate-enabled", false)?.then_some(cut);
    let initial_backoff = flags.time("audit-webhook-initial-backoff", known.initial_backoff)?;
    let options = WebhookOptions { mode, batching, initial_backoff, truncation };
    let kubeconfig = flags.file("audit-webhook-config-file");
    Ok(kubeconfig.map(|kubeconfig| AuditWebhook { kubeconfig, options }))
}

fn throttle(flags: &impl FlagValues) -> Result<Option<Throttle>, FlagError> {
    const QPS: &str = "audit-webhook-batch-throttle-qps";
    let qps: f64 = flags.count(QPS, 10.0)?;
    let interval = Duration::try_from_secs_f64(qps.recip()).ok().filter(|interval| !interval.is_zero());
    let interval = interval
        .ok_or_else(|| FlagError::new(QPS, flags.text(QPS).unwrap_or_default(), "is out of range"))?;
    let burst = flags.count("audit-webhook-batch-throttle-burst", 15)?;
    let is_throttled = flags.is_on("audit-webhook-batch-throttle-enable", true)?;
    Ok(is_throttled.then_some(Throttle { interval, burst }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::TestFlags;

    #[test]
    fn audit_webhook_defaults_are_those_of_kube_apiserver_and_every_flag_is_read() {
        assert_eq!(audit_webhook(&TestFlags(vec![])), Ok(None));
        let file = ("audit-webhook-config-file", "f");
        let plain = audit_webhook(&TestFlags(vec![file])).unwrap().unwrap();
        assert_eq!(plain, AuditWebhook { kubeconfig: "f".into(), options: WebhookOptions::default() });
        let flags = vec![
            file,
            ("audit-webhook-mode", "blocking-strict"),
            ("audit-webhook-batch-buffer-size", "7"),
            ("audit-webhook-batch-max-size", "3"),
            ("audit-webhook-batch-max-wait", "1.5s"),
            ("audit-webhook-batch-throttle-qps", "4"),
            ("audit-webhook-batch-throttle-burst", "2"),
            ("audit-webhook-initial-backoff", "20ms"),
            ("audit-webhook-truncate-enabled", "true"),
            ("audit-webhook-truncate-max-event-size", "100"),
            ("audit-webhook-truncate-max-batch-size", "200"),
        ];
        let options = audit_webhook(&TestFlags(flags)).unwrap().unwrap().options;
        let throttle = Some(Throttle { interval: Duration::from_millis(250), burst: 2 });
        let max_wait = Duration::from_millis(1500);
        assert_eq!(options.batching, Batching { buffer: 7, max_size: 3, max_wait, throttle });
        assert_eq!(options.truncation, Some(Truncation { event_bytes: 100, batch_bytes: 200 }));
        assert_eq!((options.mode, options.initial_backoff.as_millis()), (Mode::BlockingStrict, 20));
        let free = audit_webhook(&TestFlags(vec![file, ("audit-webhook-batch-throttle-enable", "false")]));
        assert_eq!(free.unwrap().unwrap().options.batching.throttle, None);
    }

    #[test]
    fn audit_webhook_errors_name_the_flag_and_its_value() {
        for (name, value) in [
            ("audit-webhook-mode", "sometimes"),
            ("audit-webhook-batch-buffer-size", "0"),
            ("audit-webhook-batch-max-wait", "5"),
            ("audit-webhook-batch-throttle-qps", "-1"),
            ("audit-webhook-batch-throttle-qps", "NaN"),
            ("audit-webhook-batch-throttle-qps", "inf"),
            ("audit-webhook-truncate-enabled", "perhaps"),
            ("audit-webhook-version", "audit.k8s.io/v1beta1"),
        ] {
            let refused = audit_webhook(&TestFlags(vec![(name, value)])).unwrap_err();
            assert_eq!((refused.name, refused.value.as_str()), (name, value));
        }
    }
}
