//! Patch bodies, and what they make of an object, in the terms of the client: what is wrong is wrong with the field `patch`.

use super::{Expected, check_kind, normalize_as, yaml};
use crate::request::{FieldValidation, Target};
use kstore_api::field::{ErrorList, Path};
use kstore_api::meta;
use kstore_api::patch::{PatchType, strategic};
use kstore_api::schema::decode::{DecodeError, Mode};
use kstore_api::schema::strict;
use kstore_api::status::Status;
use serde_json::Value;

/// A patch that has been read.
#[derive(Debug)]
pub(crate) struct Patch {
    /// How it is applied.
    pub kind: PatchType,
    /// What it says.
    pub value: Value,
    /// What strict validation refuses in its text.
    problems: Vec<String>,
}

impl Patch {
    /// Whether its text has something that strict validation refuses.
    pub(crate) fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// Reads the body of a patch of JSON.
///
/// # Errors
/// 400 if it cannot be read.
pub(crate) fn patch(kind: PatchType, body: &[u8], validation: FieldValidation) -> Result<Patch, Status> {
    let value = serde_json::from_slice(body).map_err(|e| match kind {
        PatchType::Strategic => Status::bad_request(e.to_string()),
        PatchType::Json | PatchType::Merge | PatchType::Apply => {
            Status::bad_request(format!("error decoding patch: {e}"))
        }
    })?;
    let problems =
        if validation == FieldValidation::Ignore { Vec::new() } else { problems(kind, body, &value) };
    Ok(Patch { kind, value, problems })
}

/// An apply configuration that has been read. Unknown fields are refused when it is applied, however strictly it is read: they could
/// have no owner.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// What its author wrote, and nothing else.
    pub value: Value,
    /// The keys that it states again.
    repeated: Vec<String>,
}

impl Configuration {
    /// Reads YAML, and so JSON.
    ///
    /// # Errors
    /// 400 if it cannot be read, or is no map.
    pub(crate) fn read(body: &[u8], validation: FieldValidation) -> Result<Self, Status> {
        let malformed = |text: String| Status::bad_request(format!("error decoding YAML: {text}"));
        let document = yaml::parse(body).map_err(|e| malformed(format!("{CONVERTING}: {e}")))?;
        let found = match &document.value {
            Value::Null | Value::Object(_) => None,
            Value::Bool(_) => Some("bool"),
            Value::Number(_) => Some("number"),
            Value::String(_) => Some("string"),
            Value::Array(_) => Some("array"),
        };
        match found {
            Some(found) => Err(malformed(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type \
                 map[string]interface {{}}"
            ))),
            None if validation == FieldValidation::Ignore => {
                Ok(Self { value: document.value, repeated: Vec::new() })
            }
            None => Ok(Self { value: document.value, repeated: document.repeated }),
        }
    }

    /// What there is to say of it once it could be applied.
    ///
    /// # Errors
    /// 400: strict validation refuses it.
    pub(crate) fn judged(&self, validation: FieldValidation) -> Result<&[String], Status> {
        if validation != FieldValidation::Strict || self.repeated.is_empty() {
            return Ok(&self.repeated);
        }
        let lines = self.repeated.join("\n  ");
        Err(Status::bad_request(format!(
            "error strict decoding YAML: {CONVERTING}: yaml: unmarshal errors:\n  {lines}"
        )))
    }
}

const CONVERTING: &str = "error converting YAML to JSON";

/// Members stated twice, and members that an operation does not have.
fn problems(kind: PatchType, body: &[u8], value: &Value) -> Vec<String> {
    let repeated = strict::duplicate_fields(body).into_iter().map(|problem| problem.to_string());
    if kind != PatchType::Json {
        return repeated.collect();
    }
    let operations = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let members = operations.iter().enumerate().flat_map(|(at, operation)| {
        let names = operation.as_object().into_iter().flat_map(|members| members.keys());
        let odd = names.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        odd.map(move |name| format!("unknown field \"[{at}].{name}\""))
    });
    repeated.chain(members).take(strict::MAX_PROBLEMS).map(|text| format!("json patch {text}")).collect()
}

/// Brings what a patch made of an object into canonical form. `again` makes the same of it once more.
///
/// # Errors
/// 422 about the field `patch` if it is no object of the kind any more, or if strict validation refuses it; 400 if it is
/// another object.
pub(crate) fn patched(
    target: &Target,
    patch: &Patch,
    value: &mut Value,
    again: impl Fn() -> Result<Value, Status>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let expected = Expected::of(target.resource, target.subresource);
    check_kind(expected, value)?;
    // What a refusal shows: of a strategic merge its patch, else the result. Nearly every patch is taken, so that the result is
    // made again for a refusal, and not copied for each patch.
    let shown = || match patch.kind {
        PatchType::Strategic => Ok(strategic::in_go(&patch.value)),
        PatchType::Json | PatchType::Merge | PatchType::Apply => {
            let mut value = again()?;
            check_kind(expected, &mut value)?;
            Ok(value.to_string())
        }
    };
    let refused = |text: String| {
        let shown = match shown() {
            Ok(shown) => shown,
            Err(status) => return status,
        };
        let mut errors = ErrorList::new();
        errors.invalid(&Path::new("patch"), &shown, text);
        Status::invalid("", "", "", &errors)
    };
    let unknown =
        normalize_as(expected, value, Mode::Whole)?.map_err(|e| refused(mistyped(patch.kind, &e)))?;
    check_namespace(target, value)?;
    let problems: Vec<String> =
        patch.problems.iter().cloned().chain(unknown.iter().map(ToString::to_string)).collect();
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            Err(refused(format!("strict decoding error: {}", problems.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(problems);
            Ok(())
        }
    }
}

/// Kubernetes does not write the result of a strategic merge as JSON before it reads it as the kind, and says so.
fn mistyped(kind: PatchType, error: &DecodeError) -> String {
    let DecodeError::Type { found, go_type, .. } = error else { return error.to_string() };
    if kind != PatchType::Strategic {
        return error.to_string();
    }
    let from = match found.as_str() {
        "object" => "map",
        "array" => "slice",
        number if number.starts_with("number") => {
            if number.contains('.') {
                "float64"
            } else {
                "int64"
            }
        }
        other => other,
    };
    match go_type.as_str() {
        map if map.starts_with("map[") => format!("cannot restore map from {from}"),
        list if list.starts_with("[]") => format!("cannot restore slice from {from}"),
        number if number.starts_with("int") && from.ends_with("64") => {
            format!("cannot convert {from} to {number}")
        }
        "string" if from == "int64" => "cannot convert int64 to string".to_owned(),
        scalar if !scalar.contains('.') => format!("unrecognized type: {scalar}"),
        _ => format!("cannot restore struct from: {from}"),
    }
}

/// A patch does not move an object.
fn check_namespace(target: &Target, value: &Value) -> Result<(), Status> {
    match meta::namespace(value) {
        "" => Ok(()),
        namespace if namespace == target.namespace || !target.resource.namespaced => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}
