//! Field paths in a schema, such as `.spec.x` and `['a.b']`, of selectable fields and CEL rules.

use crate::structural::field_path;
pub(super) use crate::structural::field_path::ArrayNotation;
use serde_json::Value;

/// The members of a path, and the schema it leads to.
///
/// # Errors
/// Kubernetes' message for a path that does not exist.
pub(super) fn resolve<'s>(
    path: &str,
    schema: &'s Value,
    notation: ArrayNotation,
) -> Result<(Vec<String>, &'s Value), String> {
    let mut steps = Vec::new();
    let mut at = schema;
    field_path::walk(path, notation, |name| {
        at = child(at, name)?;
        steps.push(name.to_owned());
        Ok(())
    })?;
    Ok((steps, at))
}

/// Schema of a member: a property, or the additional properties if there are no properties.
fn child<'s>(schema: &'s Value, name: &str) -> Result<&'s Value, String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    static NOTHING: Value = Value::Null;
    let properties = schema["properties"].as_object().filter(|properties| !properties.is_empty());
    match (properties, &schema["additionalProperties"]) {
        (Some(properties), _) => properties.get(name).ok_or_else(|| NO_FIELD.to_owned()),
        (None, Value::Null) => Err(NO_FIELD.to_owned()),
        (None, values @ Value::Object(_)) => Ok(values),
        (None, _) => Ok(&NOTHING),
    }
}
