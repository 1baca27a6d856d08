//! Merges lists of tolerations, for plugins that add tolerations to pods.

use kstore_api::object::{semantically_equal, text};
use serde_json::Value;

/// Both lists without tolerations that others cover. Of equal tolerations the first is kept.
pub(super) fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (at, toleration) in all.iter().enumerate() {
        let is_covered = merged.iter().any(|kept| covers(kept, toleration));
        let is_covered_later = all[at + 1..]
            .iter()
            .any(|later| !semantically_equal(later, toleration) && covers(later, toleration));
        if !is_covered && !is_covered_later {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether `wide` tolerates everything that `narrow` tolerates.
pub(super) fn covers(wide: &Value, narrow: &Value) -> bool {
    if semantically_equal(wide, narrow) {
        return true;
    }
    let [own, other] = [wide, narrow].map(|one| {
        let operator = text(&one["operator"]);
        (text(&one["key"]), if operator.is_empty() { "Equal" } else { operator }, text(&one["effect"]))
    });
    if own.0 != other.0 && (!own.0.is_empty() || own.1 != "Exists") {
        return false;
    }
    if own.2 != other.2 && !own.2.is_empty() {
        return false;
    }
    if own.2 == "NoExecute"
        && let Some(seconds) = wide["tolerationSeconds"].as_i64()
        && narrow["tolerationSeconds"].as_i64().is_none_or(|other| other > seconds)
    {
        return false;
    }
    match own.1 {
        "Exists" => true,
        "Equal" => other.1 == "Equal" && text(&wide["value"]) == text(&narrow["value"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::merged;
    use serde_json::json;

    #[test]
    fn covered_tolerations_are_left_out() {
        let key = |key: &str| json!({ "key": key, "operator": "Exists" });
        let equal = json!({ "key": "a", "operator": "Equal", "value": "v" });
        let seconds = |seconds: i64| json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds });
        for (first, second, want) in [
            (vec![key("a")], vec![key("b")], vec![key("a"), key("b")]),
            (vec![key("a")], vec![key("a")], vec![key("a")]),
            (vec![equal.clone()], vec![key("a")], vec![key("a")]),
            (vec![key("a")], vec![equal.clone()], vec![key("a")]),
            (vec![equal], vec![json!({ "operator": "Exists" })], vec![json!({ "operator": "Exists" })]),
            (vec![seconds(5)], vec![seconds(9)], vec![seconds(9)]),
            (
                vec![json!({ "key": "a", "operator": "Exists", "effect": "NoExecute" })],
                vec![seconds(9)],
                vec![json!({ "key": "a", "operator": "Exists", "effect": "NoExecute" })],
            ),
            (vec![], vec![], vec![]),
        ] {
            assert_eq!(merged(&first, &second), want);
        }
    }
}
