//! Pod templates: normalization for comparison, and encoding of hashes. Pure.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kstore_api::json::value_of;
use serde_json::Value;

/// Letters of generated names, without vowels and ambiguous characters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The JSON of `template` without null, empty objects and empty lists. Templates that differ only in these
/// create the same pods.
pub(crate) fn pruned(template: &PodTemplateSpec) -> Value {
    pruned_value(value_of(template).expect("a pod template serializes"))
}

/// `value` without members that are null, an empty object or an empty list. List elements stay, even empty
/// ones, because their number matters. Empty selectors stay too: they select everything, absent ones nothing.
pub(crate) fn pruned_value(value: Value) -> Value {
    fn prune(value: Value) -> Option<Value> {
        match value {
            Value::Null => None,
            Value::Object(map) => {
                let map: serde_json::Map<_, _> = map.into_iter().filter_map(member).collect();
                (!map.is_empty()).then_some(Value::Object(map))
            }
            Value::Array(list) => (!list.is_empty())
                .then(|| Value::Array(list.into_iter().map(|v| prune(v).unwrap_or(Value::Null)).collect())),
            other @ (Value::Bool(_) | Value::Number(_) | Value::String(_)) => Some(other),
        }
    }
    fn member((key, value): (String, Value)) -> Option<(String, Value)> {
        let is_selector = key.ends_with("Selector") && value.is_object();
        let value = prune(value).or_else(|| is_selector.then(|| Value::Object(serde_json::Map::new())))?;
        Some((key, value))
    }
    prune(value).unwrap_or(Value::Null)
}

/// The decimal digits of `hash` in the letters of generated names, as in Kubernetes.
pub(crate) fn encoded(hash: u32) -> String {
    hash.to_string().bytes().map(|digit| ALPHABET[usize::from(digit) % ALPHABET.len()] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn empty_members_are_pruned_except_selectors() {
        let table = [
            (json!({"a": null, "b": {}, "c": [], "d": {"e": {"f": []}}}), Value::Null),
            (json!({"a": [{}, {"b": 1}]}), json!({"a": [null, {"b": 1}]})),
            (json!({"t": {"namespaceSelector": {}}}), json!({"t": {"namespaceSelector": {}}})),
            (json!({"t": {"namespaceSelector": null}}), Value::Null),
            (json!({"a": false, "b": 0, "c": ""}), json!({"a": false, "b": 0, "c": ""})),
        ];
        for (value, expected) in table {
            assert_eq!(pruned_value(value.clone()), expected, "{value}");
        }
    }

    #[test]
    fn hashes_are_encoded_as_in_kubernetes() {
        assert_eq!(encoded(123_456_789), "56789bcdf");
        assert_eq!(encoded(0), "4");
    }
}
