//! Admission plugins by `--enable-admission-plugins`, `--disable-admission-plugins` and the deprecated `--admission-control`.

use crate::dropin::UsageError;
use crate::dropin::flags::Parsed;
use kstore_apiserver::admission::{self, PluginSwitches};

/// Plugins that Kubernetes enables by default and that this server does not have.
const MISSING: [&str; 1] = ["ClusterTrustBundleAttest"];
/// Plugins that Kubernetes disables by default and that this server does not have. They need a configuration file, or write objects.
const MISSING_AND_OFF: [&str; 3] = ["EventRateLimit", "ImagePolicyWebhook", "NamespaceAutoProvision"];

/// The enabled and disabled plugins of [`admission::plugins`], and warnings about enabled ones that this server does not have.
pub(super) fn switches(flags: &Parsed) -> Result<(PluginSwitches, Vec<String>), UsageError> {
    let (mut switches, mut warnings) = (PluginSwitches::default(), Vec::new());
    if flags.has("admission-control") {
        for name in flags.list("admission-control") {
            switches.enabled.extend(known("admission-control", &name, &mut warnings)?);
        }
        let others = admission::plugins().filter(|plugin| !switches.enabled.contains(plugin));
        switches.disabled = others.collect();
        return Ok((switches, warnings));
    }
    for name in flags.list("enable-admission-plugins") {
        switches.enabled.extend(known("enable-admission-plugins", &name, &mut warnings)?);
    }
    for name in flags.list("disable-admission-plugins") {
        match admission::plugins().find(|plugin| *plugin == name) {
            Some(plugin) if switches.enabled.contains(plugin) => {
                let reason = "--enable-admission-plugins has it, too";
                return Err(UsageError::value("disable-admission-plugins", &name, reason.to_owned()));
            }
            Some(plugin) => drop(switches.disabled.insert(plugin)),
            None if is_missing(&name) => {}
            None => return Err(UsageError::value("disable-admission-plugins", &name, unknown(&name))),
        }
    }
    Ok((switches, warnings))
}

/// Looks up a plugin that a flag enables. `None`, with a warning, for a plugin that Kubernetes enables by default and kstore does not have.
fn known(
    flag: &'static str,
    name: &str,
    warnings: &mut Vec<String>,
) -> Result<Option<&'static str>, UsageError> {
    if let Some(plugin) = admission::plugins().find(|plugin| *plugin == name) {
        return Ok(Some(plugin));
    }
    if MISSING.contains(&name) {
        // Kubernetes enables it by default anyway, and kstore's documentation lists it as missing.
        warnings.push(format!("--{flag}: kstore does not have the admission plugin {name}"));
        return Ok(None);
    }
    let reason = match is_missing(name) {
        true => format!("kstore does not have the admission plugin {name}; leave it out"),
        false => unknown(name),
    };
    Err(UsageError::value(flag, name, reason))
}

fn is_missing(name: &str) -> bool {
    MISSING.contains(&name) || MISSING_AND_OFF.contains(&name)
}

fn unknown(name: &str) -> String {
    format!("admission plugin {name:?} is unknown")
}
