//! The version of Kubernetes that the flags `--version` and `--emulated-version` choose, or the environment.

use crate::dropin::UsageError;
use crate::flags::Parsed;
use kstore_api::version::{Minor, UnknownMinor};

/// The environment variable of the version of Kubernetes whose API is served.
const VARIABLE: &str = "KSTORE_KUBERNETES_VERSION";
const VERSION: &str = "version";
const EMULATED: &str = "emulated-version";
const COMPATIBLE: &str = "min-compatibility-version";

/// The version of Kubernetes whose API is served: that of `--emulated-version`, else that of `--version`, else that of the environment.
/// `variable` looks up an environment variable.
///
/// # Errors
/// One of them names a version that is not served.
pub(super) fn served(flags: &Parsed, variable: impl Fn(&str) -> Option<String>) -> Result<Minor, UsageError> {
    if let Some(text) = last(flags, EMULATED)? {
        return emulated(&text);
    }
    if let Some(text) = flags.last(VERSION).filter(|text| text.starts_with('v')) {
        return text.parse().map_err(|error: UnknownMinor| UsageError::value(VERSION, text, error));
    }
    let Some(text) = variable(VARIABLE) else { return Ok(Minor::DEFAULT) };
    text.parse().map_err(|error: UnknownMinor| UsageError::variable(VARIABLE, &text, error))
}

fn emulated(text: &str) -> Result<Minor, UsageError> {
    text.parse().map_err(|_: UnknownMinor| {
        let (oldest, newest) = (Minor::SERVED[0], Minor::DEFAULT.programs());
        let newest = newest.trim_start_matches('v');
        // kube-apiserver's message.
        let reason = format!("emulation version {text} is not between [{oldest}, {newest}]");
        UsageError::value(EMULATED, text, reason)
    })
}

/// Checks the version of the oldest control plane that may run beside the server. Returns a warning if it is given: no feature of kstore
/// depends on it.
///
/// # Errors
/// It is no version, or newer than the served one.
pub(super) fn compatibility(flags: &Parsed, served: Minor) -> Result<Option<String>, UsageError> {
    let Some(text) = last(flags, COMPATIBLE)? else { return Ok(None) };
    let number = text.strip_prefix("1.").and_then(|minor| minor.parse::<u64>().ok());
    match number {
        Some(number) if number <= served.number() => Ok(Some(format!(
            "--{COMPATIBLE}={text} has no effect: no feature of kstore depends on the versions of other servers"
        ))),
        _ => {
            let reason = format!("expected a version of Kubernetes up to {served}, which is served");
            Err(UsageError::value(COMPATIBLE, &text, reason))
        }
    }
}

/// The last value of a flag whose values are `VERSION` or `kube=VERSION`.
fn last(flags: &Parsed, name: &'static str) -> Result<Option<String>, UsageError> {
    let values = flags.list(name);
    for text in &values {
        if let Some((component, _)) = text.split_once('=')
            && component != "kube"
        {
            let reason = format!("component {component} is not known: the only one is kube");
            return Err(UsageError::value(name, text, reason));
        }
    }
    let last = values.last().map(|text| text.strip_prefix("kube=").unwrap_or(text));
    Ok(last.filter(|text| !text.is_empty()).map(str::to_owned))
}
