//! Audit settings of kube-apiserver's flags. Without a policy, or without a log file or webhook, nothing is recorded, as with
//! kube-apiserver; a warning says so.

use crate::args::{self, AuditConfig, AuditDestination};
use crate::dropin::UsageError;
use crate::dropin::serving::{file, text};
use crate::flags::Parsed;
use kstore_access::audit::{Mode, Rotation};

/// Reads the audit flags; `None` if nothing is to be recorded. Appends warnings about flags without effect.
pub(super) fn read(
    flags: &Parsed,
    warnings: &mut Vec<String>,
) -> Result<Option<Box<AuditConfig>>, UsageError> {
    let mode = match text(flags, "audit-log-mode") {
        None => Mode::default(),
        Some(name) => Mode::parse(name).ok_or_else(|| {
            let reason =
                format!("invalid audit log mode {name}, allowed modes are {:?}", Mode::NAMES.join(","));
            UsageError::value("audit-log-mode", name, reason)
        })?,
    };
    if let Some(format) = text(flags, "audit-log-format").filter(|format| *format != "json") {
        return Err(UsageError::value("audit-log-format", format, "kstore supports the format json only"));
    }
    let rotation = Rotation {
        max_age_days: number(flags, "audit-log-maxage")?,
        max_backups: number(flags, "audit-log-maxbackup")?,
        max_size_mb: number(flags, "audit-log-maxsize")?,
    };
    let log = text(flags, "audit-log-path").map(|path| AuditDestination::new(path, rotation));
    let webhook = args::audit_webhook(flags)?;
    match (file(flags, "audit-policy-file"), log, webhook) {
        (Some(_), None, None) => {
            let text = "--audit-policy-file: nothing is recorded without --audit-log-path or --audit-webhook-config-file";
            warnings.push(text.to_owned());
            Ok(None)
        }
        (Some(policy), log, webhook) => Ok(Some(Box::new(AuditConfig { policy, log, mode, webhook }))),
        (None, None, None) => Ok(None),
        (None, log, _) => {
            let flag = if log.is_some() { "--audit-log-path" } else { "--audit-webhook-config-file" };
            warnings.push(format!("{flag}: nothing is recorded without --audit-policy-file"));
            Ok(None)
        }
    }
}

fn number(flags: &Parsed, name: &'static str) -> Result<u32, UsageError> {
    let Some(value) = text(flags, name) else { return Ok(0) };
    match value.parse::<i64>() {
        Ok(negative) if negative < 0 => {
            Err(UsageError::value(name, value, format!("--{name} {value} can't be a negative number")))
        }
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => Err(UsageError::value(name, value, "expected a whole number")),
    }
}
