//! The controls of Pod Security, one per file, and their selection by level and version.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_profile_baseline;
mod seccomp_profile_restricted;
mod sysctls;
#[cfg(test)]
mod tests;
mod windows_host_process;

use super::policy::{Level, LevelVersion, Version};
use kstore_api::object::{list, text};
use kstore_api::version::Minor;
use serde_json::Value;
use std::collections::BTreeSet;

/// A pod, or the pod template of a workload.
#[derive(Clone, Copy)]
pub(super) struct Pod<'p> {
    pub(super) metadata: &'p Value,
    pub(super) spec: &'p Value,
}

impl<'p> Pod<'p> {
    fn containers(&self) -> impl Iterator<Item = Container<'p>> + use<'p> {
        let spec = self.spec;
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(|name| list(&spec[name])).map(Container)
    }

    fn security(&self) -> &'p Value {
        &self.spec["securityContext"]
    }

    fn annotations(&self) -> impl Iterator<Item = (&'p str, &'p str)> + use<'p> {
        let annotations = self.metadata["annotations"].as_object().into_iter().flatten();
        annotations.map(|(key, value)| (key.as_str(), text(value)))
    }

    fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Whether the pod has a user namespace of its own, so that its root is not root on the node.
    fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// The names of the containers for which `is_bad` holds.
    fn bad_containers(&self, mut is_bad: impl FnMut(&Container<'p>) -> bool) -> Vec<&'p str> {
        self.containers().filter(|container| is_bad(container)).map(|container| container.name()).collect()
    }
}

#[derive(Clone, Copy)]
struct Container<'p>(&'p Value);

impl<'p> Container<'p> {
    fn name(&self) -> &'p str {
        text(&self.0["name"])
    }

    fn security(&self) -> &'p Value {
        &self.0["securityContext"]
    }
}

/// A violation of a control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The reason in a few words.
    pub(super) reason: String,
    /// The part of the pod that violates the control.
    pub(super) detail: String,
}

fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.to_owned(), detail })
}

type Check = fn(&Pod<'_>) -> Option<Violation>;

/// A control's check from one version on, until its next revision.
struct Revision {
    /// The first minor version of Kubernetes with this check.
    since: u64,
    check: Check,
    /// The baseline control that this stricter one replaces.
    replaces: Option<&'static str>,
}

impl Revision {
    const fn new(since: u64, check: Check) -> Self {
        Self { since, check, replaces: None }
    }

    const fn replacing(since: u64, check: Check, replaced: &'static str) -> Self {
        Self { since, check, replaces: Some(replaced) }
    }
}

struct Control {
    id: &'static str,
    level: Level,
    /// The revisions by version, ascending.
    revisions: &'static [Revision],
}

impl Control {
    /// The revision that applies at a version.
    fn at(&self, minor: u64) -> Option<&'static Revision> {
        self.revisions.iter().rev().find(|revision| revision.since <= minor)
    }
}

/// Controls of baseline, then of restricted; within a level by name, which is the order of Kubernetes' texts.
static CONTROLS: [&Control; 19] = [
    &app_armor_profile::CONTROL,
    &capabilities_baseline::CONTROL,
    &host_namespaces::CONTROL,
    &host_path_volumes::CONTROL,
    &host_ports::CONTROL,
    &host_probes::CONTROL,
    &privileged::CONTROL,
    &proc_mount::BASELINE,
    &se_linux_options::CONTROL,
    &seccomp_profile_baseline::CONTROL,
    &sysctls::CONTROL,
    &windows_host_process::CONTROL,
    &allow_privilege_escalation::CONTROL,
    &capabilities_restricted::CONTROL,
    &proc_mount::RESTRICTED,
    &restricted_volumes::CONTROL,
    &run_as_non_root::CONTROL,
    &run_as_user::CONTROL,
    &seccomp_profile_restricted::CONTROL,
];

/// The violations of a pod against a level at a version. `latest` and versions after the served one are the served one.
pub(super) fn violations(served: Minor, wanted: LevelVersion, pod: &Pod<'_>) -> Vec<Violation> {
    if wanted.level == Level::Privileged {
        return Vec::new();
    }
    let minor = match wanted.version {
        Version::Latest => served.number(),
        Version::Minor(minor) => minor.min(served.number()),
    };
    let in_level = || {
        let controls = CONTROLS.iter().filter(|control| control.level <= wanted.level);
        controls.filter_map(|control| Some((control.id, control.at(minor)?)))
    };
    let is_replaced = |id: &str| in_level().any(|(_, revision)| revision.replaces == Some(id));
    let checks = in_level().filter(|(id, _)| !is_replaced(id));
    checks.filter_map(|(_, revision)| (revision.check)(pod)).collect()
}

/// Texts in quotes: `"a", "b"`.
fn quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| format!("\"{text}\"")).collect();
    quoted.join(", ")
}

/// The singular or plural of a noun, by the count.
fn plural<'w>(singular: &'w str, plural: &'w str, count: usize) -> &'w str {
    if count == 1 { singular } else { plural }
}

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names.iter().copied()))
}

/// Describes the pod, if it violates itself, and the violating containers: `pod and container "a"`. `None` if
/// there are none.
fn setters(is_pod_bad: bool, bad_containers: &[&str]) -> Option<String> {
    let pod = is_pod_bad.then(|| "pod".to_owned());
    let own = (!bad_containers.is_empty()).then(|| containers(bad_containers));
    let setters: Vec<String> = pod.into_iter().chain(own).collect();
    (!setters.is_empty()).then(|| setters.join(" and "))
}

/// The forbidden values of a security context's member, with a description of the pod and containers that set
/// them.
fn bad_values<'p>(
    pod: &Pod<'p>,
    member: &str,
    mut faults: impl FnMut(&'p Value) -> Vec<&'p str>,
) -> Option<(String, BTreeSet<&'p str>)> {
    let mut values = BTreeSet::new();
    let mut is_bad = |security: &'p Value| {
        let bad = if security[member].is_null() { Vec::new() } else { faults(&security[member]) };
        values.extend(bad.iter().copied());
        !bad.is_empty()
    };
    let is_pod_bad = is_bad(pod.security());
    let bad_containers = pod.bad_containers(|container| is_bad(container.security()));
    setters(is_pod_bad, &bad_containers).map(|setters| (setters, values))
}
