//! The spec of a PodBehavior: as the API has it ([`BehaviorDoc`]), and checked ([`BehaviorSpec`]).

use crate::behavior::{ANNOTATION_PREFIX, check};
use crate::image::{glob, matches};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `spec` of a PodBehavior.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct BehaviorDoc {
    priority: i32,
    #[serde(rename = "match")]
    matching: MatchDoc,
    behavior: BTreeMap<String, String>,
}

/// Which containers a rule is for: those for which all members hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MatchDoc {
    images: Vec<String>,
    containers: Vec<String>,
    namespaces: Vec<String>,
    pod_selector: SelectorDoc,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SelectorDoc {
    match_labels: BTreeMap<String, String>,
}

/// A checked rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BehaviorSpec {
    pub(crate) priority: i32,
    matching: MatchDoc,
    /// Values by the names of annotations, without the prefix.
    pub(crate) behavior: BTreeMap<String, String>,
}

impl BehaviorSpec {
    /// Checks a spec.
    ///
    /// # Errors
    /// The first name or value of `behavior` that a pod could not have.
    pub(crate) fn check(doc: &BehaviorDoc) -> Result<Self, String> {
        let BehaviorDoc { priority, matching, behavior } = doc;
        if behavior.is_empty() {
            return Err("spec.behavior: must have at least one name, such as ready-after".to_owned());
        }
        if let Some(name) = behavior.keys().find(|name| name.contains('.')) {
            return Err(format!(
                "spec.behavior: {name:?}: leave the container out and name it in spec.match.containers"
            ));
        }
        let keys = behavior.iter().map(|(name, value)| (format!("{ANNOTATION_PREFIX}{name}"), value.clone()));
        if let Some(bad) = check(&keys.collect(), &[]).first() {
            return Err(format!("spec.behavior: {bad}"));
        }
        Ok(Self { priority: *priority, matching: matching.clone(), behavior: behavior.clone() })
    }

    /// Whether the rule may be for containers of a pod.
    pub(crate) fn matches_pod(&self, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
        let MatchDoc { namespaces, pod_selector, .. } = &self.matching;
        (namespaces.is_empty() || namespaces.iter().any(|one| glob(one.as_bytes(), namespace.as_bytes())))
            && pod_selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether the rule is for a container of a pod that matches.
    pub(crate) fn matches_container(&self, name: &str, image: &str) -> bool {
        let MatchDoc { images, containers, .. } = &self.matching;
        (images.is_empty() || images.iter().any(|pattern| matches(pattern, image)))
            && (containers.is_empty() || containers.iter().any(|one| one == name))
    }
}
