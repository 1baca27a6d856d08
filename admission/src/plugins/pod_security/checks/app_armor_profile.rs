//! Baseline: AppArmor profiles must be the default or local ones, in fields and in the older annotations.

use super::{Control, Pod, Revision, Violation, bad_values, plural, quoted, violation};
use crate::plugins::pod_security::policy::Level;
use kstore_api::object::text;

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) const CONTROL: Control =
    Control { id: "appArmorProfile", level: Level::Baseline, revisions: &[Revision::new(0, check)] };

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let fields = bad_values(pod, "appArmorProfile", |profile| {
        let kind = text(&profile["type"]);
        if matches!(kind, "RuntimeDefault" | "Localhost") { Vec::new() } else { vec![kind] }
    });
    let (mut setters, mut values) = (Vec::new(), Vec::new());
    if let Some((setter, bad)) = fields {
        setters.push(setter);
        values.extend(bad.into_iter().map(str::to_owned));
    }
    let bad = pod.annotations().filter(|(key, value)| key.starts_with(ANNOTATION) && !is_allowed(value));
    let mut annotations: Vec<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    if !annotations.is_empty() {
        annotations.sort_unstable();
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
        values.extend(annotations);
    }
    if setters.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.join(" and "),
        quoted(values.iter().map(String::as_str))
    );
    violation(plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len()), detail)
}

fn is_allowed(annotation: &str) -> bool {
    annotation.is_empty() || annotation == "runtime/default" || annotation.starts_with("localhost/")
}
