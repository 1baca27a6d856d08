//! What the states of an object before and after a change say about its writer: the author that managed fields name, and whether an owner
//! has the object. For callers who may read the object, and not the notes of writes. Pure.

use kstore_storage::storage::{Raw, RawEvent};
use serde_json::{Value, json};

/// Adds to a changed object in an answer what its states say: `manager` and `operation` (with the subresource after a slash), unless no
/// managed field tells them; `owned`: a controller owns it; `marked`: its deletion began; `terminating`: that had begun before.
pub(super) fn describe(object: &mut Value, event: &RawEvent) {
    let state = |raw: &Option<Raw>| {
        let raw = raw.as_ref().filter(|raw| raw.undecrypted.is_none())?;
        serde_json::from_slice::<Value>(&raw.value).ok()
    };
    let (before, after) = (state(&event.previous), state(&event.current));
    let Some(known) = after.as_ref().or(before.as_ref()) else { return };
    let is_ending = |state: &Option<Value>| {
        state.as_ref().is_some_and(|state| !state["metadata"]["deletionTimestamp"].is_null())
    };
    let owners = known["metadata"]["ownerReferences"].as_array();
    let is_owned = owners.is_some_and(|owners| owners.iter().any(|owner| owner["controller"] == true));
    for (member, holds) in [
        ("owned", is_owned),
        ("marked", is_ending(&after) && !is_ending(&before)),
        ("terminating", is_ending(&before)),
    ] {
        if holds {
            object[member] = json!(true);
        }
    }
    if let Some((manager, operation)) = after.as_ref().and_then(|after| writer(before.as_ref(), after)) {
        object["manager"] = json!(manager);
        object["operation"] = json!(operation);
    }
}

/// The manager whose entry a change made or altered, with its operation. `None`: the change left all entries as they were, as a binding
/// does, or altered several.
fn writer(before: Option<&Value>, after: &Value) -> Option<(String, String)> {
    let entries = |state: &Value| state["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let known = before.map(entries).unwrap_or_default();
    let changed = entries(after).into_iter().filter(|entry| !known.contains(entry));
    let time = |entry: &Value| entry["time"].as_str().map(str::to_owned);
    let changed: Vec<Value> = changed.collect();
    // A change that takes fields from another manager alters its entry, too, but not its time.
    let newest = changed.iter().map(time).max()?;
    let mut newest = changed.iter().filter(|entry| time(entry) == newest);
    let entry = newest.next().filter(|_| newest.next().is_none())?;
    let text = |member: &str| entry[member].as_str().unwrap_or_default();
    let operation = text("operation").to_ascii_lowercase();
    let operation = match text("subresource") {
        "" => operation,
        subresource => format!("{operation}/{subresource}"),
    };
    Some((text("manager").to_owned(), operation)).filter(|(manager, _)| !manager.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, second: u32, fields: &str) -> Value {
        json!({"manager": manager, "operation": "Update", "time": format!("2026-01-01T00:00:{second:02}Z"), "fieldsV1": {fields: {}}})
    }

    fn state(entries: &[Value]) -> Value {
        json!({"metadata": {"managedFields": entries}})
    }

    #[test]
    fn the_writer_of_a_change_is_the_manager_whose_entry_it_altered() {
        let (kubectl, controller) = (entry("kubectl", 1, "f:a"), entry("deployment-controller", 5, "f:b"));
        let before = state(&[kubectl.clone(), controller.clone()]);
        let of = |before: Option<&Value>, after: &Value| writer(before, after).map(|(manager, _)| manager);
        assert_eq!(
            of(None, &state(std::slice::from_ref(&kubectl))).as_deref(),
            Some("kubectl"),
            "of a new object"
        );
        // The entry of the controller is newer, and not of this change.
        let again = state(&[entry("kubectl", 4, "f:a"), controller.clone()]);
        assert_eq!(of(Some(&before), &again).as_deref(), Some("kubectl"));
        let taken = state(&[entry("kubectl", 1, "f:c"), controller.clone(), entry("helm", 6, "f:a")]);
        assert_eq!(of(Some(&before), &taken).as_deref(), Some("helm"), "it took a field of kubectl");
        assert_eq!(of(Some(&before), &before), None, "a binding");
        let both = state(&[entry("kubectl", 6, "f:a"), entry("deployment-controller", 6, "f:b")]);
        assert_eq!(of(Some(&before), &both), None, "which of them is not known");
        let mut status = entry("kubelet", 7, "f:d");
        status["subresource"] = json!("status");
        let written = writer(Some(&before), &state(&[kubectl, controller, status]));
        assert_eq!(written, Some(("kubelet".to_owned(), "update/status".to_owned())));
    }
}
