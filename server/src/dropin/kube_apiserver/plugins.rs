//! `--enable-admission-plugins`, `--disable-admission-plugins` and the old `--admission-control`: which of this server's plugins run.

use crate::dropin::UsageError;
use crate::dropin::flags::Parsed;
use kstore_apiserver::admission;
use std::collections::BTreeSet;

/// Plugins of Kubernetes that this server does not have and that run there unless disabled.
const MISSING: [&str; 6] = [
    "ClusterTrustBundleAttest",
    "LimitRanger",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "PodTopologyLabels",
    "RuntimeClass",
];
/// Further ones, which run only if enabled.
const MISSING_AND_OFF: [&str; 15] = [
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DefaultIngressClass",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "StorageObjectInUseProtection",
];

/// The plugins of [`admission::plugins`] that do not run, and warnings about those that are asked for and not there.
pub(super) fn disabled(flags: &Parsed) -> Result<(BTreeSet<&'static str>, Vec<String>), UsageError> {
    let mut warnings = Vec::new();
    if flags.has("admission-control") {
        let wanted = flags.list("admission-control");
        for name in &wanted {
            enable("admission-control", name, &mut warnings)?;
        }
        let is_wanted = |plugin: &&'static str| wanted.iter().any(|name| name == plugin);
        return Ok((admission::plugins().filter(|plugin| !is_wanted(plugin)).collect(), warnings));
    }
    for name in flags.list("enable-admission-plugins") {
        enable("enable-admission-plugins", &name, &mut warnings)?;
    }
    let mut disabled = BTreeSet::new();
    for name in flags.list("disable-admission-plugins") {
        match admission::plugins().find(|plugin| *plugin == name) {
            Some(plugin) => {
                disabled.insert(plugin);
            }
            None if is_missing(&name) => {}
            None => return Err(UsageError::value("disable-admission-plugins", &name, unknown(&name))),
        }
    }
    Ok((disabled, warnings))
}

fn enable(flag: &'static str, name: &str, warnings: &mut Vec<String>) -> Result<(), UsageError> {
    if admission::plugins().any(|plugin| plugin == name) {
        return Ok(());
    }
    if MISSING.contains(&name) {
        // It would run without being asked for, and its absence is documented.
        warnings.push(format!("--{flag}: kstore does not have the admission plugin {name}"));
        return Ok(());
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
