//! JSON patch (RFC 6902) with the bounds and error texts of Kubernetes. Kubernetes' library is laxer than the
//! RFC, and so is this module: `replace` adds an absent member, `test` for null passes for an absent value,
//! `copy` of an absent value copies null, and negative indexes count from the end. Merge patches are in
//! `merge` and `strategic`.

mod container;
mod cost;

use super::PatchError;
use crate::schema::limits::MAX_JSON_PATCH_OPERATIONS;
use container::{KeyError, locate};
use cost::PatchCost;
use serde_json::{Map, Value};

/// Applies the operations of `patch`, a JSON array, in order.
///
/// # Errors
/// The patch is not a list of operations (400), has too many operations or copies too much (413), or an
/// operation fails (422).
pub fn apply(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        // Go decodes it into a list without operations.
        Value::Null => &[],
        _ => return Err(malformed("expected a list of operations")),
    };
    let operations = operations.iter().map(Operation::read).collect::<Result<Vec<_>, _>>()?;
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        let count = operations.len();
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {count}"
        )));
    }
    let mut value = current.clone();
    let mut work = PatchCost::default();
    for operation in operations {
        operation.apply(&mut value, &mut work)?;
    }
    Ok(value)
}

fn malformed(reason: impl std::fmt::Display) -> PatchError {
    PatchError::BadRequest(format!("error decoding patch: {reason}"))
}

/// One operation of a patch; absent members are `None`.
struct Operation<'p> {
    op: &'p str,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: Option<&'p Value>,
}

/// Error of an operation that fails on this object.
fn unfit(text: String) -> PatchError {
    PatchError::Unprocessable(text)
}

impl<'p> Operation<'p> {
    fn read(operation: &'p Value) -> Result<Self, PatchError> {
        let members: &Map<String, Value> =
            operation.as_object().ok_or_else(|| malformed("an operation is not a map"))?;
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(malformed(format!("{name} of an operation is not a string"))),
        };
        let op = text("op")?.unwrap_or("unknown");
        Ok(Self { op, path: text("path")?, from: text("from")?, value: members.get("value") })
    }

    /// Carries the operation out.
    fn apply(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        match self.op {
            "add" => self.add(document, work),
            "remove" => self.remove(document, work),
            "replace" => self.replace(document, work),
            "move" => self.move_value(document, work),
            "test" => self.test(document).map_err(unfit),
            "copy" => self.copy(document, work),
            other => Err(unfit(format!("Unexpected kind: {other}"))),
        }
    }

    /// A required member of the operation.
    fn need(member: Option<&'p str>, missing: &str) -> Result<&'p str, PatchError> {
        member.ok_or_else(|| unfit(missing.to_owned()))
    }

    fn add(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        let path = Self::need(self.path, "add operation failed to decode path: missing value")?;
        let (container, key) = locate(document, path).ok_or_else(|| {
            unfit(format!("add operation does not apply: doc is missing path: \"{path}\": missing value"))
        })?;
        work.nest(path, self.given())?;
        work.shift(container.moved_by_add(&key))?;
        container.add(&key, self.given().clone()).map_err(|why| unfit(error_in("add", path, &why)))
    }

    fn remove(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        let path = Self::need(self.path, "remove operation failed to decode path: missing value")?;
        let (container, key) = locate(document, path).ok_or_else(|| {
            unfit(format!("remove operation does not apply: doc is missing path: \"{path}\": missing value"))
        })?;
        work.shift(container.moved_by_remove(&key))?;
        container.remove(&key).map(|_| ()).map_err(|why| unfit(error_in("remove", path, &why)))
    }

    fn replace(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        let missing = "replace operation failed to decode path: operation missing path field: missing value";
        let path = Self::need(self.path, missing)?;
        let value = self.given();
        work.nest(path, value)?;
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err(unfit("replace operation value must be object or array".to_owned()));
            }
            *document = value.clone();
            return Ok(());
        }
        let (mut container, key) = locate(document, path).ok_or_else(|| {
            unfit(format!("replace operation does not apply: doc is missing path: {path}: missing value"))
        })?;
        if container.get(&key).is_err() {
            let text = format!("replace operation does not apply: doc is missing key: {path}: missing value");
            return Err(unfit(text));
        }
        container.set(&key, value.clone()).map_err(|why| unfit(error_in("remove", path, &why)))
    }

    fn move_value(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        let missing = "move operation failed to decode from: operation, missing from field: missing value";
        let from = Self::need(self.from, missing)?;
        let (mut container, key) = locate(document, from).ok_or_else(|| {
            unfit(format!("move operation does not apply: doc is missing from path: {from}: missing value"))
        })?;
        let unmoved = |why: KeyError| unfit(error_in("move", &key, &why));
        container.get(&key).map_err(unmoved)?;
        work.shift(container.moved_by_remove(&key))?;
        let value = container.remove(&key).map_err(unmoved)?;
        let missing = "move operation failed to decode path: operation missing path field: missing value";
        let path = Self::need(self.path, missing)?;
        let (container, key) = locate(document, path).ok_or_else(|| {
            unfit(format!(
                "move operation does not apply: doc is missing destination path: {path}: missing value"
            ))
        })?;
        work.nest(path, &value)?;
        work.shift(container.moved_by_add(&key))?;
        container.add(&key, value).map_err(|why| unfit(error_in("move", path, &why)))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path
            .ok_or("test operation failed to decode path: operation missing path field: missing value")?;
        let failed = || Err(format!("testing value {path} failed: test failed"));
        if path.is_empty() {
            return if document == self.given() { Ok(()) } else { failed() };
        }
        let (mut container, key) = locate(document, path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        let found = container.get(&key).map_err(|why| error_in("test", path, &why))?;
        let found = found.unwrap_or(&Value::Null);
        if found == self.given() { Ok(()) } else { failed() }
    }

    fn copy(&self, document: &mut Value, work: &mut PatchCost) -> Result<(), PatchError> {
        let missing = "copy operation failed to decode from: operation, missing from field: missing value";
        let from = Self::need(self.from, missing)?;
        let (mut container, key) = locate(document, from).ok_or_else(|| {
            unfit(format!("copy operation does not apply: doc is missing from path: {from}: missing value"))
        })?;
        let found =
            container.get(&key).map_err(|why| unfit(format!("error in copy for from: '{from}': {why}")))?;
        // The size is charged before the copy, so that an oversized value is never copied.
        work.copy(found.map_or(0, |value| value.to_string().len()))?;
        let value = found.cloned();
        let path = Self::need(self.path, "copy operation failed to decode path: missing value")?;
        let (container, key) = locate(document, path).ok_or_else(|| {
            unfit(format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            ))
        })?;
        let value = value.unwrap_or_default();
        work.nest(path, &value)?;
        work.shift(container.moved_by_add(&key))?;
        container
            .add(&key, value)
            .map_err(|why| unfit(format!("error while adding value during copy: {why}")))
    }

    /// The operation's value; null if it states none.
    fn given(&self) -> &'p Value {
        self.value.unwrap_or(&Value::Null)
    }
}

fn error_in(operation: &str, path: &str, why: &KeyError) -> String {
    format!("error in {operation} for path: '{path}': {why}")
}

#[cfg(test)]
mod depth_tests;
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
    fn test_for_null_passes_for_absent_values() {
        let absent = json!({"op": "test", "path": "/metadata/finalizers", "value": null});
        let add = json!({"op": "add", "path": "/metadata/finalizers", "value": ["f"]});
        let once = apply(&json!({"metadata": {}}), &json!([absent, add])).unwrap();
        assert_eq!(once, json!({"metadata": {"finalizers": ["f"]}}));
        let twice = apply(&once, &json!([absent, add])).unwrap_err();
        let text = "testing value /metadata/finalizers failed: test failed".to_owned();
        assert_eq!(twice, PatchError::Unprocessable(text));
    }

    #[test]
    fn failures_have_the_status_and_text_of_kubernetes() {
        let current = json!({"spec": {"replicas": 1}, "l": []});
        let unfit = |text: &str| PatchError::Unprocessable(text.to_owned());
        let cases = [
            (
                json!([{"op": "test", "path": "/spec/replicas", "value": 2}]),
                unfit("testing value /spec/replicas failed: test failed"),
            ),
            (
                json!([{"op": "remove", "path": "/x"}]),
                unfit("error in remove for path: '/x': Unable to remove nonexistent key: x: missing value"),
            ),
            (
                json!([{"op": "remove", "path": "/x/y"}]),
                unfit("remove operation does not apply: doc is missing path: \"/x/y\": missing value"),
            ),
            (
                json!([{"op": "replace", "path": "/x/y", "value": 1}]),
                unfit("replace operation does not apply: doc is missing path: /x/y: missing value"),
            ),
            (
                json!([{"op": "replace", "path": "/l/5", "value": 1}]),
                unfit("replace operation does not apply: doc is missing key: /l/5: missing value"),
            ),
            (
                json!([{"op": "add", "path": "/l/5", "value": 1}]),
                unfit(
                    "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
                ),
            ),
            (
                json!([{"op": "add", "path": "/l/x", "value": 1}]),
                unfit(
                    "error in add for path: '/l/x': value was not a proper array index: 'x': \
                     strconv.Atoi: parsing \"x\": invalid syntax",
                ),
            ),
            (
                json!([{"op": "test", "path": "/x/y", "value": null}]),
                unfit("test operation does not apply: is missing path: /x/y: missing value"),
            ),
            (
                json!([{"op": "move", "from": "/x", "path": "/y"}]),
                unfit("error in move for path: 'x': Unable to remove nonexistent key: x: missing value"),
            ),
            (json!([{"op": "bad"}]), unfit("Unexpected kind: bad")),
            (json!([{"op": "add"}]), unfit("add operation failed to decode path: missing value")),
            (
                json!([{"op": "add", "path": "/x/y", "value": 1}]),
                unfit("add operation does not apply: doc is missing path: \"/x/y\": missing value"),
            ),
            (
                json!([{"op": "copy", "path": "/y", "from": "/x/z"}]),
                unfit("copy operation does not apply: doc is missing from path: /x/z: missing value"),
            ),
            (
                json!({}),
                PatchError::BadRequest("error decoding patch: expected a list of operations".to_owned()),
            ),
        ];
        for (patch, want) in cases {
            assert_eq!(apply(&current, &patch).unwrap_err(), want);
        }
        assert!(matches!(apply(&current, &json!([{"op": 1}])), Err(PatchError::BadRequest(_))));
    }

    /// The library that Kubernetes uses, evanphx/json-patch v4, reports no error for a missing map key.
    #[test]
    fn operations_are_as_lax_as_those_of_kubernetes() {
        let current = json!({"data": {"a": "1"}, "l": [1, 2, 3]});
        assert_eq!(apply(&current, &Value::Null).as_ref(), Ok(&current), "null is a list without operations");
        let cases = [
            (
                json!({"op": "replace", "path": "/data/b", "value": "2"}),
                json!({"data": {"a": "1", "b": "2"}, "l": [1, 2, 3]}),
            ),
            (json!({"op": "add", "path": "/data/b"}), json!({"data": {"a": "1", "b": null}, "l": [1, 2, 3]})),
            (json!({"op": "copy", "from": "/none", "path": "/data"}), json!({"data": null, "l": [1, 2, 3]})),
            (json!({"op": "remove", "path": "/l/-1"}), json!({"data": {"a": "1"}, "l": [1, 2]})),
            (
                json!({"op": "add", "path": "/l/-1", "value": 4}),
                json!({"data": {"a": "1"}, "l": [1, 2, 3, 4]}),
            ),
            (json!({"op": "replace", "path": "", "value": {}}), json!({})),
        ];
        for (operation, want) in cases {
            assert_eq!(apply(&current, &json!([operation])).unwrap(), want, "{operation}");
        }
    }

    #[test]
    fn cost_of_a_patch_is_bounded() {
        let test = json!({"op": "test", "path": "", "value": {}});
        let many = Value::Array(vec![test; MAX_JSON_PATCH_OPERATIONS + 1]);
        let error = apply(&json!({}), &many).unwrap_err();
        assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
        let double = json!({"op": "copy", "from": "/l", "path": "/l/-"});
        let bomb = Value::Array(vec![double; 64]);
        assert!(matches!(apply(&json!({"l": ["text"]}), &bomb), Err(PatchError::TooLarge(_))));
        let deeper = json!({"op": "copy", "from": "/a", "path": "/a/a"});
        let tower = Value::Array(vec![deeper; 200]);
        let error = apply(&json!({"a": {}}), &tower).unwrap_err();
        assert_eq!(error, PatchError::Unprocessable("exceeded max depth".to_owned()));
    }
}
