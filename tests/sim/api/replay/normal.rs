//! Normalization of answers: removes values that differ between two runs of one server (identities, times,
//! revisions, tokens, hashes) and sorts lists without a defined order. Applied to recorded and to kstore's
//! answers.

use serde_json::Value;

/// Length of a UUID as text.
const UUID: usize = 36;

/// Normalizes a value.
pub(super) fn of(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(of_text(text)),
        Value::Array(items) => items.iter().map(of).collect(),
        // kstore says the revision of a deletion, a binding and an eviction, as Kubernetes will from 1.38.
        Value::Object(members) if members.get("status").is_some_and(|status| status == "Success") => {
            let is_status = members.get("kind").is_some_and(|kind| kind == "Status");
            let members = members.iter().filter(|(name, _)| *name != "metadata" || !is_status);
            members.map(|(name, value)| (name.clone(), of_member(name, value))).collect()
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), of_member(name, value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// The texts of warnings, from whole headers or from texts.
pub(super) fn warnings(headers: &Value) -> Value {
    let text = |header: &Value| -> Value {
        let quoted = header.as_str().and_then(|header| header.strip_prefix("299 - "));
        quoted.and_then(|quoted| serde_json::from_str(quoted).ok()).unwrap_or_else(|| header.clone())
    };
    of(&headers.as_array().into_iter().flatten().map(text).collect())
}

/// Removes service account token volumes and their mounts from a pod.
pub(super) fn drop_token_volumes(pod: &mut Value) {
    let is_own =
        |item: &Value| item["name"].as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    let drop_from = |owner: &mut Value, member: &str| {
        let Some(items) = owner.get_mut(member).and_then(Value::as_array_mut) else { return };
        items.retain(|item| !is_own(item));
        if items.is_empty()
            && let Some(owner) = owner.as_object_mut()
        {
            owner.remove(member);
        }
    };
    let Some(spec) = pod.get_mut("spec") else { return };
    drop_from(spec, "volumes");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            drop_from(container, "volumeMounts");
        }
    }
}

fn of_member(name: &str, value: &Value) -> Value {
    let is_set = value.as_str().is_some_and(|text| !text.is_empty());
    match name {
        // In Kubernetes all controllers write under one manager name.
        "manager" if value.as_str().is_some_and(|name| name.ends_with("-controller")) => {
            "kube-controller-manager".into()
        }
        "resourceVersion" if is_set => "<rv>".into(),
        "continue" if is_set => "<continue>".into(),
        "causes" | "managedFields" => sorted(value),
        "sources" => without_vendor_source(of(value)),
        "message" => of(value).as_str().map_or_else(|| of(value), |text| in_order(text).into()),
        _ => of(value),
    }
}

/// Removes the projected volume source that the recorded build adds; upstream Kubernetes has no such
/// ConfigMap.
fn without_vendor_source(mut sources: Value) -> Value {
    if let Some(items) = sources.as_array_mut() {
        items.retain(|source| source["configMap"]["name"] != "openshift-service-ca.crt");
    }
    sources
}

fn sorted(value: &Value) -> Value {
    let mut value = of(value);
    if let Some(items) = value.as_array_mut() {
        items.sort_by_key(ToString::to_string);
    }
    value
}

/// Sorts the bracketed list in a message.
fn in_order(message: &str) -> String {
    let Some((before, list)) = message.split_once(": [") else { return message.to_owned() };
    let Some(list) = list.strip_suffix(']') else { return message.to_owned() };
    let mut items: Vec<&str> = list.split(", ").collect();
    items.sort_unstable();
    format!("{before}: [{}]", items.join(", "))
}

fn of_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let (replacement, length) = if is_uuid(rest) {
            ("<uid>", UUID)
        } else if let Some(length) = time(rest) {
            ("<time>", length)
        } else if let Some(length) =
            out.ends_with("hash=").then(|| run(rest, |c| c.is_ascii_hexdigit())).filter(|n| *n > 0)
        {
            ("<hash>", length)
        } else if let Some(length) =
            after_version(&out).then(|| run(rest, |c| c.is_ascii_digit())).filter(|n| *n > 0)
        {
            ("<rv>", length)
        } else {
            out.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        out.push_str(replacement);
        rest = &rest[length..];
    }
    out
}

/// Whether a revision follows, in JSON or YAML inside a text.
fn after_version(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\\', ' ', ':']);
    before.ends_with("resourceVersion")
}

fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

fn is_uuid(text: &str) -> bool {
    let Some(text) = text.get(..UUID) else { return false };
    text.char_indices()
        .all(|(at, c)| if [8, 13, 18, 23].contains(&at) { c == '-' } else { c.is_ascii_hexdigit() })
}

/// The length of a time such as `2026-01-01T00:00:00.000000Z` at the start of a text.
fn time(text: &str) -> Option<usize> {
    const FORM: &str = "0000-00-00T00:00:00";
    let head = text.get(..FORM.len())?;
    let fits = |(c, form): (char, char)| if form == '0' { c.is_ascii_digit() } else { c == form };
    if !head.chars().zip(FORM.chars()).all(fits) {
        return None;
    }
    let rest = &text[FORM.len()..];
    let fraction = rest.strip_prefix('.').map_or(0, |digits| 1 + run(digits, |c| c.is_ascii_digit()));
    rest[fraction..].starts_with('Z').then_some(FORM.len() + fraction + 1)
}

#[cfg(test)]
mod tests {
    use super::of;
    use serde_json::json;

    #[test]
    fn identities_times_and_versions_are_replaced_and_lists_are_ordered() {
        let own = json!({
            "uid": "6f2ad8a5-0f0c-4e9b-9d66-5b0f6f1f0a11", "time": "2026-01-01T00:00:00.123456Z",
            "resourceVersion": "12", "text": "{\"resourceVersion\":\"7\"} uid 6f2ad8a5-0f0c-4e9b-9d66-5b0f6f1f0a11.",
            "url": "/openapi/v3/a?hash=0AF1", "message": "x is invalid: [b: no, a: no]", "empty": {"resourceVersion": ""},
        });
        let normal = json!({
            "uid": "<uid>", "time": "<time>", "resourceVersion": "<rv>",
            "text": "{\"resourceVersion\":\"<rv>\"} uid <uid>.", "url": "/openapi/v3/a?hash=<hash>",
            "message": "x is invalid: [a: no, b: no]", "empty": {"resourceVersion": ""},
        });
        assert_eq!(of(&own), normal);
        assert_eq!(of(&normal), normal);
    }
}
