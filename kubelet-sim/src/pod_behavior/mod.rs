//! Rules that give pods annotations of this crate from outside: the objects of the kind PodBehavior. Pure: `spec` reads them, and
//! [`effective`] merges those that match a pod with the pod's own annotations, which take precedence.

pub(crate) mod record;
pub(crate) mod spec;

use crate::behavior::{ANNOTATION_PREFIX, find};
use record::BehaviorRecord;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What decides which rules match a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodFacts<'p> {
    pub(crate) namespace: &'p str,
    pub(crate) labels: &'p BTreeMap<String, String>,
    pub(crate) annotations: &'p BTreeMap<String, String>,
}

/// The annotations of a pod with those that rules add. `rules` are in the order of [`ordered`], the strongest first; `containers` are the
/// names and images of the pod's containers. A name that the pod has itself, for the container or for all, stays as it is.
pub(crate) fn effective<'p>(
    rules: &[Arc<BehaviorRecord>],
    pod: PodFacts<'p>,
    containers: &[(&str, &str)],
) -> Cow<'p, BTreeMap<String, String>> {
    let mut merged = Cow::Borrowed(pod.annotations);
    for rule in rules {
        let Ok(spec) = &rule.spec else { continue };
        if !spec.matches_pod(pod.namespace, pod.labels) {
            continue;
        }
        for (container, _) in containers.iter().filter(|(name, image)| spec.matches_container(name, image)) {
            for (name, value) in &spec.behavior {
                let general = format!("{ANNOTATION_PREFIX}{name}");
                let own = format!("{ANNOTATION_PREFIX}{container}.{name}");
                let key = if find(name).is_some_and(|row| row.whole_pod) { &general } else { &own };
                if !merged.contains_key(&general) && !merged.contains_key(&own) {
                    merged.to_mut().insert(key.clone(), value.clone());
                }
            }
        }
    }
    merged
}

/// The valid rules, the strongest first: by priority, then by name.
pub(crate) fn ordered(rules: impl IntoIterator<Item = Arc<BehaviorRecord>>) -> Vec<Arc<BehaviorRecord>> {
    let mut rules: Vec<_> = rules.into_iter().filter(|rule| rule.spec.is_ok()).collect();
    let key = |rule: &BehaviorRecord| {
        let priority = rule.spec.as_ref().map_or(0, |spec| spec.priority);
        (std::cmp::Reverse(priority), rule.name().to_owned())
    };
    rules.sort_by_cached_key(|rule| key(rule));
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rule(name: &str, spec: Value) -> Arc<BehaviorRecord> {
        let object = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
        Arc::new(BehaviorRecord::decode(object.to_string().as_bytes()).unwrap())
    }

    /// The annotations, without their prefix, of a pod in `prod-1` with the containers `db` (postgres) and `log` (fluent-bit).
    fn merged(rules: &[(&str, Value)], annotations: Value) -> Value {
        let rules = ordered(rules.iter().map(|(name, spec)| rule(name, spec.clone())));
        let own: BTreeMap<String, String> = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (format!("{ANNOTATION_PREFIX}{name}"), value.as_str().unwrap().to_owned()))
            .collect();
        let labels = BTreeMap::from([("app".to_owned(), "shop".to_owned())]);
        let pod = PodFacts { namespace: "prod-1", labels: &labels, annotations: &own };
        let found = effective(&rules, pod, &[("db", "postgres:17"), ("log", "fluent/fluent-bit:4")]);
        found
            .iter()
            .map(|(key, value)| (key.trim_start_matches(ANNOTATION_PREFIX).to_owned(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    #[test]
    fn rules_match_by_image_container_namespace_and_label() {
        let slow = json!({"ready-after": "20s"});
        for (matching, expected) in [
            (json!({"images": ["*/library/postgres:*"]}), json!({"db.ready-after": "20s"})),
            (json!({"images": ["postgres*"], "containers": ["log"]}), json!({})),
            (json!({"containers": ["log"]}), json!({"log.ready-after": "20s"})),
            (json!({"namespaces": ["prod-*"]}), json!({"db.ready-after": "20s", "log.ready-after": "20s"})),
            (json!({"namespaces": ["test-*"]}), json!({})),
            (
                json!({"podSelector": {"matchLabels": {"app": "shop"}}, "containers": ["db"]}),
                json!({"db.ready-after": "20s"}),
            ),
            (json!({"podSelector": {"matchLabels": {"app": "bank"}}}), json!({})),
        ] {
            let found = merged(&[("a", json!({"match": matching, "behavior": slow}))], json!({}));
            assert_eq!(found, expected, "{matching}");
        }
    }

    #[test]
    fn the_pods_own_annotations_win_then_the_rule_with_the_highest_priority() {
        let only = json!({"containers": ["db"]});
        let rules = [
            ("a", json!({"match": only, "behavior": {"cpu": "1", "memory": "1Gi"}})),
            ("b", json!({"match": only, "behavior": {"cpu": "2"}, "priority": 5})),
            ("c", json!({"match": only, "behavior": {"cpu": "3"}, "priority": 5})),
            ("bad", json!({"match": only, "behavior": {"cpu": "much"}, "priority": 9})),
        ];
        assert_eq!(merged(&rules, json!({})), json!({"db.cpu": "2", "db.memory": "1Gi"}));
        assert_eq!(
            merged(&rules, json!({"cpu": "7", "db.memory": "9Mi"})),
            json!({"cpu": "7", "db.memory": "9Mi"})
        );
        let whole = [("a", json!({"match": only, "behavior": {"sandbox-seconds": "2"}}))];
        assert_eq!(merged(&whole, json!({})), json!({"sandbox-seconds": "2"}));
    }
}
