//! Rules for conversion webhooks: they must not change the identity of an object, nor metadata other than
//! labels and annotations.

use crate::check::metadata;
use crate::field::{ErrorList, Path};
use crate::meta;
use crate::object::kind;
use serde_json::{Map, Value};

/// Getter of a text in an object.
type ReadText = fn(&Value) -> &str;

/// Checks that kind, name, namespace and uid equal those of the original.
pub(super) fn check_identity(original: &Value, new: &Value) -> Result<(), String> {
    let checks: [(&str, ReadText); 4] =
        [("kind", kind), ("name", meta::name), ("namespace", meta::namespace), ("UID", meta::uid)];
    match checks.into_iter().find(|(_, read)| read(original) != read(new)) {
        Some((what, read)) => Err(format!("must have the same {what}: {} != {}", read(original), read(new))),
        None => Ok(()),
    }
}

/// Restores the original's metadata in `new`, except labels and annotations. Changed labels and annotations
/// are validated.
pub(super) fn restore_metadata(original: &Value, new: &mut Value) -> Result<(), String> {
    let answered = match new.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go_type(other)));
        }
    };
    let mut restored = match original.get("metadata") {
        None => Map::new(),
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(other) => return Err(format!("invalid metadata of type {} in input object", go_type(other))),
    };
    for field in ["labels", "annotations"] {
        let value = match answered.get(field) {
            None | Some(Value::Null) => {
                restored.remove(field);
                continue;
            }
            Some(Value::Object(value)) => value,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go_type(other)
                ));
            }
        };
        check_map(field, value, restored.get(field))?;
        restored.insert(field.to_owned(), value.clone().into());
    }
    new["metadata"] = restored.into();
    Ok(())
}

/// Checks labels or annotations of a response.
fn check_map(field: &str, value: &Map<String, Value>, original: Option<&Value>) -> Result<(), String> {
    if let Some(other) = original.filter(|original| !original.is_object() && !original.is_null()) {
        return Err(format!("invalid metadata.{field} of type {} in original object", go_type(other)));
    }
    if let Some((key, other)) = value.iter().find(|(_, value)| !value.is_string()) {
        let found = go_type(other);
        return Err(format!("metadata.{field}[{key}] must be a string, but is {found} in converted object"));
    }
    if original.and_then(Value::as_object) == Some(value) {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    let value = Value::Object(value.clone());
    if field == "labels" {
        metadata::labels(&mut errors, &Path::new("metadata.labels"), &value);
    } else {
        // Kubernetes uses the singular in this path.
        metadata::annotations(&mut errors, &Path::new("metadata.annotation"), &value);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.aggregate()) }
}

/// Name of a JSON value's type in Go.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
