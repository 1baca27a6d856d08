//! Label selectors: matches `metav1.LabelSelector` against labels. Does not parse the text form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

type Labels = BTreeMap<String, String>;

/// Whether a selector has no requirements and so matches everything.
pub(crate) fn selects_everything(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// Whether all requirements hold. An unknown operator matches nothing.
pub(crate) fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    let plain = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    plain
        && selector.match_expressions.iter().flatten().all(|r| {
            let listed = |value: &String| r.values.iter().flatten().any(|v| v == value);
            match r.operator.as_str() {
                "In" => labels.get(&r.key).is_some_and(listed),
                "NotIn" => !labels.get(&r.key).is_some_and(listed),
                "Exists" => labels.contains_key(&r.key),
                "DoesNotExist" => !labels.contains_key(&r.key),
                _ => false,
            }
        })
}

/// Whether the labels contain all pairs of a plain map (a Service's selector). An empty map selects nothing.
pub(crate) fn map_matches(selector: &Labels, labels: &Labels) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn requirements_hold_together() {
        let labels: Labels = [("app", "web"), ("tier", "a")].map(|(k, v)| (k.into(), v.into())).into();
        let table = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}), true),
            (json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}), true),
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}),
                false,
            ),
        ];
        for (selector, expected) in table {
            let parsed: LabelSelector = from_value(selector.clone()).unwrap();
            assert_eq!(matches(&parsed, &labels), expected, "{selector}");
        }
    }
}
