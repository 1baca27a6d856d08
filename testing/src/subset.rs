//! Comparison of an object with the fields that a test expects. Pure.

use serde_json::Value;

/// Whether `object` contains `subset`. JSON objects are compared member by member; null in the subset means that the member is absent or
/// null. Each item of a list in the subset must be contained in a different item of the object's list, in the same order. Other values
/// must be equal.
pub fn is_subset(subset: &Value, object: &Value) -> bool {
    match (subset, object) {
        (Value::Object(wanted), Value::Object(members)) => {
            wanted.iter().all(|(name, wanted)| is_subset(wanted, members.get(name).unwrap_or(&Value::Null)))
        }
        (Value::Array(wanted), Value::Array(items)) => {
            let mut items = items.iter();
            wanted.iter().all(|wanted| items.any(|item| is_subset(wanted, item)))
        }
        (wanted, value) => wanted == value,
    }
}

/// Line diff of `subset` and the same fields of `object`: lines with `-` were expected, lines with `+` found.
pub(crate) fn diff(subset: &Value, object: &Value) -> String {
    let text = |value: &Value| serde_json::to_string_pretty(value).expect("a JSON value can be printed");
    let (wanted, found) = (text(subset), text(&project(subset, object)));
    similar::TextDiff::from_lines(&wanted, &found)
        .unified_diff()
        .context_radius(2)
        .header("wanted", "found")
        .to_string()
}

/// The fields of `object` that `subset` has.
fn project(subset: &Value, object: &Value) -> Value {
    match (subset, object) {
        (Value::Object(wanted), Value::Object(members)) => wanted
            .iter()
            .filter_map(|(name, wanted)| Some((name.clone(), project(wanted, members.get(name)?))))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        (_, object) => object.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn subsets_match_members_and_ordered_items() {
        let object = json!({"a": 1, "b": {"c": [{"x": 1, "y": 2}, {"x": 3}], "d": null}});
        let contained = [
            json!({}),
            json!({"a": 1}),
            json!({"b": {"c": [{"x": 1}]}}),
            json!({"b": {"c": [{"x": 1}, {"x": 3}], "e": null}}),
        ];
        for subset in contained {
            assert!(is_subset(&subset, &object), "{subset}");
        }
        let others = [
            json!({"a": 2}),
            json!({"a": null}),
            json!({"b": {"c": [{"x": 3}, {"x": 1}]}}),
            json!({"b": {"c": [{"x": 1}, {"x": 1}]}}),
            json!([]),
        ];
        for subset in others {
            assert!(!is_subset(&subset, &object), "{subset}");
        }
    }

    #[test]
    fn diffs_show_only_the_expected_part() {
        let diff =
            diff(&json!({"status": {"ready": 2}}), &json!({"spec": 1, "status": {"ready": 1, "x": 1}}));
        assert!(diff.contains("-    \"ready\": 2") && diff.contains("+    \"ready\": 1"), "{diff}");
        assert!(!diff.contains("spec") && !diff.contains('x'), "{diff}");
    }
}
