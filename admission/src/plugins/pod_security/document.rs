//! The configuration of PodSecurity: `PodSecurityConfiguration` of `pod-security.admission.config.k8s.io`. Pure.

use super::policy::{Level, LevelVersion, Policy, Version};
use crate::plugin::read_document;
use crate::subject::Subject;
use kstore_api::object::text;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;

const VERSIONS: &[&str] = &[
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PodSecurityConfiguration {
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: ExemptionEntries,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Defaults {
    #[serde(default)]
    enforce: String,
    #[serde(default)]
    enforce_version: String,
    #[serde(default)]
    audit: String,
    #[serde(default)]
    audit_version: String,
    #[serde(default)]
    warn: String,
    #[serde(default)]
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExemptionEntries {
    #[serde(default)]
    usernames: Vec<String>,
    #[serde(default)]
    runtime_classes: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
}

/// Namespaces, users and runtime classes whose pods are not checked.
pub(super) struct Exemptions {
    pub(super) namespaces: BTreeSet<String>,
    usernames: BTreeSet<String>,
    runtime_classes: BTreeSet<String>,
}

impl Exemptions {
    /// No exemptions.
    pub(super) fn new() -> Self {
        Self { namespaces: BTreeSet::new(), usernames: BTreeSet::new(), runtime_classes: BTreeSet::new() }
    }

    /// Why a pod or pod template is not checked, as in the audit annotation.
    pub(super) fn reason(&self, subject: &Subject<'_>, pod: &Value) -> Option<&'static str> {
        if self.namespaces.contains(subject.namespace) {
            return Some("namespace");
        }
        if self.usernames.contains(&subject.user.username) {
            return Some("user");
        }
        let class = text(&pod["spec"]["runtimeClassName"]);
        (!class.is_empty() && self.runtime_classes.contains(class)).then_some("runtimeClass")
    }
}

/// Reads a configuration: the policy of namespaces without labels, and the exemptions.
///
/// # Errors
/// The field that cannot be used.
pub(super) fn read(document: Value) -> Result<(Policy, Exemptions), String> {
    let PodSecurityConfiguration { defaults, exemptions } =
        read_document(document, VERSIONS, "PodSecurityConfiguration")?;
    let default = Policy {
        enforce: mode("enforce", &defaults.enforce, &defaults.enforce_version)?,
        audit: mode("audit", &defaults.audit, &defaults.audit_version)?,
        warn: mode("warn", &defaults.warn, &defaults.warn_version)?,
    };
    let exemptions = Exemptions {
        namespaces: set("namespaces", exemptions.namespaces)?,
        usernames: set("usernames", exemptions.usernames)?,
        runtime_classes: set("runtimeClasses", exemptions.runtime_classes)?,
    };
    Ok((default, exemptions))
}

/// The level and version of a mode; "" is the default of either.
fn mode(name: &str, level: &str, version: &str) -> Result<LevelVersion, String> {
    let (level_or, version_or) = (
        if level.is_empty() { "privileged" } else { level },
        if version.is_empty() { "latest" } else { version },
    );
    Ok(LevelVersion {
        level: Level::parse(level_or).map_err(|why| format!("defaults.{name}: {why}, found {level:?}"))?,
        version: Version::parse(version_or)
            .map_err(|why| format!("defaults.{name}-version: {why}, found {version:?}"))?,
    })
}

/// Names without empty and repeated ones.
fn set(field: &str, names: Vec<String>) -> Result<BTreeSet<String>, String> {
    let mut set = BTreeSet::new();
    for (index, name) in names.into_iter().enumerate() {
        if name.is_empty() {
            return Err(format!("exemptions.{field}[{index}]: must not be empty"));
        }
        if !set.insert(name.clone()) {
            return Err(format!("exemptions.{field}[{index}]: Duplicate value: {name:?}"));
        }
    }
    Ok(set)
}
