//! PodSecurity: labels `pod-security.kubernetes.io/*` of a namespace restrict its pods to a level. `enforce`
//! refuses pods, `audit` adds audit annotations and `warn` warnings; pod templates of workloads only get
//! annotations and warnings. A namespace can be changed to a stricter `enforce` level, with warnings about
//! existing pods that violate it.
//!
//! A configuration sets the levels of namespaces without labels, and exempts namespaces, users and runtime
//! classes. Without one nothing is exempt, and namespaces without labels are privileged. Existing pods are
//! checked in name order, up to [`POD_SECURITY_PODS`].

mod checks;
mod document;
mod policy;
mod significant;

use crate::plugin::{Cluster, Configuration, ConfigurationContext, Enabled, Plugin, Review, Row};
use checks::{Pod, Violation, violations};
use document::Exemptions;
use kstore_api::admission::Operation;
use kstore_api::field::ErrorList;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_registry::registry::namespaces;
use kstore_registry::undecided::Undecided;
use kstore_storage::limits::POD_SECURITY_PODS;
use policy::{Level, LevelVersion, Policy};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kinds with pods or pod templates, and namespaces.
const KINDS: &[(&str, &str)] = &[
    ("", "pods"),
    ("", "namespaces"),
    ("", "replicationcontrollers"),
    ("", "podtemplates"),
    ("apps", "replicasets"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("apps", "daemonsets"),
    ("batch", "jobs"),
    ("batch", "cronjobs"),
];

/// Subresources of pods that do not change the permissions of containers.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Prefix of namespace labels and audit annotations.
const PREFIX: &str = "pod-security.kubernetes.io/";

/// The full name of a label or audit annotation.
fn name_of(label: &str) -> String {
    format!("{PREFIX}{label}")
}

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Optional(PodSecurity::configured),
    kinds: KINDS,
    subresources: &[],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("PodSecurity", || Arc::new(PodSecurity::new()))
};

struct PodSecurity {
    /// The policy of namespaces without labels.
    default: Policy,
    exemptions: Exemptions,
}

impl PodSecurity {
    /// The plugin without a configuration.
    fn new() -> Self {
        Self { default: Policy::PRIVILEGED, exemptions: Exemptions::new() }
    }

    /// The plugin by a `PodSecurityConfiguration`.
    ///
    /// # Errors
    /// The field that cannot be used.
    fn configured(document: Value, _: &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String> {
        let (default, exemptions) = document::read(document)?;
        Ok(Arc::new(Self { default, exemptions }))
    }
}

impl Plugin for PodSecurity {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let Some(new) = new else { return Ok(()) };
        let is_pod = subject.resource.is("", "pods");
        match is_pod {
            true if HARMLESS.contains(&subject.subresource) => return Ok(()),
            false if !subject.subresource.is_empty() => return Ok(()),
            _ => {}
        }
        if subject.resource.is("", "namespaces") {
            return Ok(self.review_namespace(review, new)?);
        }
        let pod = if is_pod { Some(new) } else { subject.resource.pod_template(new) };
        if let Some(reason) = self.exemptions.reason(subject, pod.unwrap_or(&Value::Null)) {
            review.annotate(|| (name_of("exempt"), reason.to_owned()));
            return Ok(());
        }
        let Some(namespace) = cluster.get(namespaces(), "", subject.namespace) else { return Ok(()) };
        let (policy, errors) = Policy::of(&namespace, self.default);
        if is_pod {
            review_pod(review, policy, &errors, new)
        } else {
            review_template(review, policy, &errors, new);
            Ok(())
        }
    }
}

fn review_pod(review: &Review<'_>, policy: Policy, errors: &ErrorList, pod: &Value) -> Result<(), Undecided> {
    if errors.is_empty() && policy.is_privileged() {
        review.annotate(|| (name_of("enforce-policy"), LevelVersion::PRIVILEGED.to_string()));
        return Ok(());
    }
    if review.old.is_some_and(|old| !significant::is_significant(pod, old)) {
        return Ok(());
    }
    annotate_errors(errors, review);
    let pod = Pod { metadata: &pod["metadata"], spec: &pod["spec"] };
    review.annotate(|| (name_of("enforce-policy"), policy.enforce.to_string()));
    let forbidden = violations(review.subject.resource.minor, policy.enforce, &pod);
    annotate_violations(policy, &pod, review);
    if forbidden.is_empty() {
        warn_of_violations(policy, &pod, review);
        return Ok(());
    }
    let violations = details(&forbidden);
    review.subject.refuse(&format!("violates PodSecurity \"{}\": {violations}", policy.enforce))
}

fn review_template(review: &Review<'_>, policy: Policy, errors: &ErrorList, object: &Value) {
    let is_watched = policy.warn.level != Level::Privileged || policy.audit.level != Level::Privileged;
    let template = review.subject.resource.pod_template(object).unwrap_or(&Value::Null);
    if (errors.is_empty() && !is_watched) || template.is_null() {
        return;
    }
    annotate_errors(errors, review);
    let pod = Pod { metadata: &template["metadata"], spec: &template["spec"] };
    annotate_violations(policy, &pod, review);
    warn_of_violations(policy, &pod, review);
}

fn annotate_errors(errors: &ErrorList, review: &Review<'_>) {
    if !errors.is_empty() {
        review.annotate(|| (name_of("error"), format!("Failed to parse policy: {}", errors.aggregate())));
    }
}

fn annotate_violations(policy: Policy, pod: &Pod<'_>, review: &Review<'_>) {
    if review.calls().is_recorded() {
        let found = violations(review.subject.resource.minor, policy.audit, pod);
        if !found.is_empty() {
            review.annotate(|| (name_of("audit-violations"), would_violate(policy.audit, &found)));
        }
    }
}

fn warn_of_violations(policy: Policy, pod: &Pod<'_>, review: &Review<'_>) {
    let found = violations(review.subject.resource.minor, policy.warn, pod);
    if !found.is_empty() {
        review.warn(&[would_violate(policy.warn, &found)]);
    }
}

fn would_violate(wanted: LevelVersion, found: &[Violation]) -> String {
    format!("would violate PodSecurity \"{wanted}\": {}", details(found))
}

/// The reasons of the violations with their details.
fn details(found: &[Violation]) -> String {
    let texts = found.iter().map(|one| match one.detail.as_str() {
        "" => one.reason.clone(),
        detail => format!("{} ({detail})", one.reason),
    });
    texts.collect::<Vec<_>>().join(", ")
}

impl PodSecurity {
    fn review_namespace(&self, review: &Review<'_>, new: &Value) -> Result<(), Status> {
        let Review { cluster, subject, old, .. } = *review;
        let (policy, errors) = Policy::of(new, self.default);
        let before = old.map(|old| Policy::of(old, self.default));
        let were_wrong = |errors: &ErrorList| {
            before.as_ref().is_some_and(|(_, before)| before.aggregate() == errors.aggregate())
        };
        if !errors.is_empty() && !were_wrong(&errors) {
            return Err(Status::invalid("", "Namespace", subject.name, &errors));
        }
        let is_exempt = self.exemptions.namespaces.contains(subject.name);
        let Some((before, _)) = before else {
            if is_exempt {
                review.warn(self.warning_about_exemption(subject.name, new, policy).as_slice());
            }
            return Ok(());
        };
        let (wanted, before) = (policy.enforce, before.enforce);
        let is_relaxed = wanted.version == before.version && wanted.level <= before.level;
        if wanted.level == Level::Privileged || wanted == before || is_relaxed {
            return Ok(());
        }
        match is_exempt {
            true => review.warn(self.warning_about_exemption(subject.name, new, policy).as_slice()),
            false => review.warn(&warnings_about_pods(cluster, subject.resource.minor, subject.name, wanted)),
        }
        Ok(())
    }

    /// A warning about labels of an exempt namespace, which have no effect.
    fn warning_about_exemption(&self, name: &str, namespace: &Value, policy: Policy) -> Option<String> {
        if policy.is_privileged() || policy == self.default {
            return None;
        }
        let modes = [("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn)];
        let has = |label: &str| meta::label(namespace, &name_of(label)).is_some();
        let labelled = modes.into_iter().filter(|(mode, wanted)| {
            wanted.level != Level::Privileged && (has(mode) || has(&format!("{mode}-version")))
        });
        let texts: Vec<String> = labelled.map(|(mode, wanted)| format!("{mode}={wanted}")).collect();
        let texts = texts.join(", ");
        Some(format!(
            "namespace {name:?} is exempt from Pod Security, and the policy ({texts}) will be ignored"
        ))
    }
}

/// Warnings about existing pods that violate a level. Pods with the same violations share one text.
fn warnings_about_pods(
    cluster: &dyn Cluster,
    served: Minor,
    namespace: &str,
    wanted: LevelVersion,
) -> Vec<String> {
    let (pods, total) = cluster.first(kstore_registry::lookup::core("pods"), namespace, POD_SECURITY_PODS);
    let mut by_reasons: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in &pods {
        let view = Pod { metadata: &pod["metadata"], spec: &pod["spec"] };
        let found = violations(served, wanted, &view);
        if !found.is_empty() {
            let reasons: Vec<String> = found.into_iter().map(|one| one.reason).collect();
            let (_, count) =
                by_reasons.entry(reasons.join(", ")).or_insert_with(|| (meta::name(pod).to_owned(), 0));
            *count += 1;
        }
    }
    let mut warnings = Vec::new();
    if pods.len() < total {
        let checked = pods.len();
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
        ));
    }
    if !by_reasons.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{wanted}\""
        ));
    }
    let mut texts: Vec<String> = by_reasons
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            _ => format!("{first} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    texts.sort_unstable();
    warnings.extend(texts);
    warnings
}

#[cfg(test)]
mod tests;
