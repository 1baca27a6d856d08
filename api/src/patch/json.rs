//! JSON patch (RFC 6902), with the bounds and the error texts of Kubernetes.

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::PatchError;
use crate::schema::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_JSON_PATCH_OPERATIONS};

/// Applies the operations of `patch`, a JSON array, one after the other.
///
/// # Errors
/// The patch is no list of operations (400), has too many of them or copies too much (413), or one does not fit (422).
pub fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().ok_or_else(|| malformed("expected a list of operations"))?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        let count = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {count}"
        )));
    }
    let mut value = current.clone();
    let mut copied = 0;
    for operation in operations {
        let operation: PatchOperation = serde_json::from_value(operation.clone()).map_err(malformed)?;
        copied += copied_bytes(&value, &operation);
        if copied > MAX_COPY_BYTES {
            return Err(PatchError::TooLarge(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPY_BYTES}"
            )));
        }
        if finds_nothing(&value, &operation) {
            continue;
        }
        json_patch::patch(&mut value, std::slice::from_ref(&operation))
            .map_err(|e| misfit(&operation, &e.kind))?;
    }
    if deeper_than(&value, MAX_DEPTH) {
        return Err(PatchError::Unprocessable("exceeded max depth".to_owned()));
    }
    Ok(value)
}

/// A test for null passes where there is nothing: beyond the RFC, but what the server does with the library it uses, and how clients
/// add the first finalizer only if there is none.
fn finds_nothing(value: &Value, operation: &PatchOperation) -> bool {
    match operation {
        PatchOperation::Test(test) => test.value.is_null() && value.pointer(test.path.as_str()).is_none(),
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Copy(_) => false,
    }
}

/// Operations can nest what no JSON parser would read back.
fn deeper_than(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|v| deeper_than(v, below)),
        Value::Object(map) => map.values().any(|v| deeper_than(v, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn malformed(reason: impl std::fmt::Display) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {reason}"))
}

/// What a copy adds; a chain of copies could otherwise double the object with each operation.
fn copied_bytes(value: &Value, operation: &PatchOperation) -> usize {
    match operation {
        PatchOperation::Copy(copy) => value.pointer(copy.from.as_str()).map_or(0, |v| v.to_string().len()),
        PatchOperation::Add(_)
        | PatchOperation::Remove(_)
        | PatchOperation::Replace(_)
        | PatchOperation::Move(_)
        | PatchOperation::Test(_) => 0,
    }
}

fn misfit(operation: &PatchOperation, kind: &PatchErrorKind) -> PatchError {
    let (name, from) = match operation {
        PatchOperation::Add(_) => ("add", None),
        PatchOperation::Remove(_) => ("remove", None),
        PatchOperation::Replace(_) => ("replace", None),
        PatchOperation::Move(op) => ("move", Some(op.from.as_str())),
        PatchOperation::Copy(op) => ("copy", Some(op.from.as_str())),
        PatchOperation::Test(_) => ("test", None),
    };
    let path = operation.path().as_str();
    PatchError::Unprocessable(match kind {
        PatchErrorKind::TestFailed => format!("testing value {path} failed: test failed"),
        PatchErrorKind::InvalidFromPointer => {
            format!(
                "{name} operation does not apply: doc is missing from path: {}: missing value",
                from.unwrap_or(path)
            )
        }
        PatchErrorKind::InvalidPointer | PatchErrorKind::CannotMoveInsideItself => {
            format!("{name} operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        // The crate may add kinds; they are misfits all the same.
        _ => format!("{name} operation does not apply at \"{path}\""),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_apply_in_order() {
        let current = json!({"metadata": {"labels": {"a": "1"}}, "l": [1, 2]});
        let patch = json!([
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
            {"op": "add", "path": "/metadata/labels/b~1c", "value": "3"},
            {"op": "add", "path": "/l/-", "value": 3},
            {"op": "remove", "path": "/l/0"},
            {"op": "copy", "from": "/l", "path": "/m"},
            {"op": "move", "from": "/m/0", "path": "/n"},
        ]);
        let want = json!({"metadata": {"labels": {"a": "2", "b/c": "3"}}, "l": [2, 3], "m": [3], "n": 2});
        assert_eq!(apply(&current, &patch).unwrap(), want);
    }

    #[test]
    fn a_test_for_null_passes_where_nothing_is() {
        let absent = json!({"op": "test", "path": "/metadata/finalizers", "value": null});
        let add = json!({"op": "add", "path": "/metadata/finalizers", "value": ["f"]});
        let once = apply(&json!({"metadata": {}}), &json!([absent, add])).unwrap();
        assert_eq!(once, json!({"metadata": {"finalizers": ["f"]}}));
        let twice = apply(&once, &json!([absent, add])).unwrap_err();
        let text = "testing value /metadata/finalizers failed: test failed".to_owned();
        assert_eq!(twice, PatchError::Unprocessable(text));
    }

    #[test]
    fn each_failure_has_its_class_and_text() {
        let current = json!({"spec": {"replicas": 1}});
        let unfit = |text: &str| PatchError::Unprocessable(text.to_owned());
        let cases = [
            (
                json!([{"op": "test", "path": "/spec/replicas", "value": 2}]),
                unfit("testing value /spec/replicas failed: test failed"),
            ),
            (
                json!([{"op": "remove", "path": "/x"}]),
                unfit("remove operation does not apply: doc is missing path: \"/x\": missing value"),
            ),
            (
                json!([{"op": "add", "path": "/x/y", "value": 1}]),
                unfit("add operation does not apply: doc is missing path: \"/x/y\": missing value"),
            ),
            (
                json!([{"op": "copy", "path": "/y", "from": "/x"}]),
                unfit("copy operation does not apply: doc is missing from path: /x: missing value"),
            ),
            (
                json!({}),
                PatchError::BadRequest("error decoding patch: expected a list of operations".to_owned()),
            ),
        ];
        for (patch, want) in cases {
            assert_eq!(apply(&current, &patch).unwrap_err(), want);
        }
        assert!(matches!(apply(&current, &json!([{"op": "bad"}])), Err(PatchError::BadRequest(_))));
    }

    #[test]
    fn work_is_bounded() {
        let test = json!({"op": "test", "path": "", "value": {}});
        let many = Value::Array(vec![test; MAX_JSON_PATCH_OPERATIONS + 1]);
        let error = apply(&json!({}), &many).unwrap_err();
        assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
        let double = json!({"op": "copy", "from": "/l", "path": "/l/-"});
        let bomb = Value::Array(vec![double; 64]);
        assert!(matches!(apply(&json!({"l": ["text"]}), &bomb), Err(PatchError::TooLarge(_))));
        let deeper = json!({"op": "copy", "from": "", "path": "/a"});
        let tower = Value::Array(vec![deeper; 200]);
        let error = apply(&json!({}), &tower).unwrap_err();
        assert_eq!(error, PatchError::Unprocessable("exceeded max depth".to_owned()));
    }
}
