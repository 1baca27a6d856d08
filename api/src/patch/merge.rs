//! JSON merge patch (RFC 7386).

use super::PatchError;
use serde_json::Value;

/// Merges `patch` into `current`: null removes a member, objects merge, and other values replace.
///
/// # Errors
/// The patch is not an object; API objects always are.
pub fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::BadRequest("error decoding patch: Invalid JSON Patch".to_owned()));
    }
    let mut value = current.clone();
    json_patch::merge(&mut value, patch);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn null_removes_members_objects_merge_and_lists_are_replaced() {
        let current = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        let patch = json!({"a": {"b": null, "c": [3], "e": {"f": null, "g": 1}}, "d": null, "x": null});
        assert_eq!(apply(&current, &patch).unwrap(), json!({"a": {"c": [3], "e": {"g": 1}}}));
        assert!(apply(&current, &json!([1])).is_err());
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<u8>().prop_map(Value::from), "[ab]".prop_map(Value::from)];
        let any = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-c]", any, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn merge_is_idempotent(current in object(), patch in object()) {
            let once = apply(&current, &patch).unwrap();
            prop_assert_eq!(apply(&once, &patch).unwrap(), once);
        }
    }
}
