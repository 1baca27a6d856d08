//! Patch bodies: parsing, and canonical form of the result. Errors in the result are reported on the field
//! `patch`, since that is what the client sent.

use super::{Expected, check_kind, check_type_meta, normalize_as};
use crate::request::{FieldValidation, Target};
use kstore_api::field::{ErrorList, Path};
use kstore_api::group_version::split_api_version;
use kstore_api::patch::{PatchType, strategic};
use kstore_api::schema::decode::{DecodeError, FieldProblem};
use kstore_api::schema::{self, strict};
use kstore_api::status::Status;
use kstore_api::structural::{MetadataError, Origin};
use kstore_api::{convert, json, kind, meta, object, yaml};
use kstore_storage::limits::BODY_BYTES;
use serde_json::Value;

/// A parsed patch.
#[derive(Debug)]
pub struct Patch {
    /// The patch type.
    pub kind: PatchType,
    /// The parsed body.
    pub value: Value,
    /// Problems of the text that strict validation refuses.
    problems: Vec<String>,
}

impl Patch {
    /// Whether strict validation refuses the text.
    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }
}

/// Parses the JSON body of a patch.
///
/// # Errors
/// 400 if the body cannot be parsed.
pub fn patch(kind: PatchType, body: &[u8], validation: FieldValidation) -> Result<Patch, Status> {
    let (value, body) = json::parse(body).map_err(|e| match kind {
        PatchType::Strategic => Status::bad_request(e.to_string()),
        PatchType::Json | PatchType::Merge | PatchType::Apply => {
            Status::bad_request(format!("error decoding patch: {e}"))
        }
    })?;
    let problems =
        if validation == FieldValidation::Ignore { Vec::new() } else { problems(kind, &body, &value) };
    Ok(Patch { kind, value, problems })
}

/// A parsed apply configuration. Unknown fields are refused when it is applied, at every validation level:
/// managed fields could not record them.
#[derive(Debug)]
pub struct Configuration {
    /// The fields that the author wrote, and no others.
    pub value: Value,
    /// Keys that the YAML repeats.
    repeated: Vec<String>,
}

impl Configuration {
    /// Parses YAML, which includes JSON.
    ///
    /// # Errors
    /// 400 if the body cannot be parsed, or is not a map.
    pub fn read(body: &[u8], validation: FieldValidation) -> Result<Self, Status> {
        let malformed = |text: String| Status::bad_request(format!("error decoding YAML: {text}"));
        let document = yaml::parse(body, BODY_BYTES).map_err(|e| malformed(format!("{CONVERTING}: {e}")))?;
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

    /// The warnings about the text. Call it after the configuration was applied, since errors of applying
    /// come first.
    ///
    /// # Errors
    /// 400 if strict validation refuses the text.
    pub fn repeated_keys(&self, validation: FieldValidation) -> Result<&[String], Status> {
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

/// Finds duplicate members, and members that a JSON patch operation does not have.
fn problems(kind: PatchType, body: &[u8], value: &Value) -> Vec<String> {
    if kind != PatchType::Json {
        return strict::duplicate_fields(body).iter().map(ToString::to_string).collect();
    }
    let operations = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let members = operations.iter().enumerate().flat_map(|(at, operation)| {
        let names = operation.as_object().into_iter().flat_map(|members| members.keys());
        let odd = names.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        odd.map(move |name| FieldProblem::Unknown(format!("[{at}].{name}")))
    });
    let found = strict::in_document_order(body, members.take(strict::MAX_PROBLEMS).collect(), None);
    found.iter().map(|problem| format!("json patch {problem}")).collect()
}

/// Brings the result of a patch into canonical form. `again` computes the result once more.
///
/// # Errors
/// 422 about the field `patch` if the result is not an object of the kind, or if strict validation refuses
/// it; 400 if the result is in another namespace.
pub fn patched(
    target: &Target,
    has_initializers: bool,
    patch: &Patch,
    value: &mut Value,
    again: impl Fn() -> Result<Value, Status>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let expected = Expected::at(target).with_initializers(has_initializers);
    // The value in an error: the patch itself for a strategic merge, otherwise the result. Nearly every patch
    // succeeds, so the result is computed again for an error instead of being cloned for each patch.
    let shown = || match patch.kind {
        PatchType::Strategic => Ok(strategic::in_go(&patch.value)),
        PatchType::Json | PatchType::Merge | PatchType::Apply => Ok(again()?.to_string()),
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
    if patch.kind != PatchType::Strategic
        && let Err(why) = check_type_meta(value)
    {
        return Err(refused(format!("couldn't get version/kind; json parse error: {why}")));
    }
    match patch.kind {
        PatchType::Strategic => keep_kind(expected, value),
        PatchType::Json | PatchType::Merge | PatchType::Apply if expected.custom.is_some() => {
            check_custom_version(expected, value)?;
        }
        PatchType::Json | PatchType::Merge | PatchType::Apply => {
            foreign_kind(expected, value).map_or(Ok(()), |text| Err(refused(text)))?;
        }
    }
    check_kind(expected, value)?;
    let unknown =
        normalize_as(expected, value, Origin::Request)?.map_err(|e| refused(mistyped(patch.kind, &e)))?;
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

/// 422: a patch gave a custom object another apiVersion. A body with another one is a bad request instead.
fn check_custom_version(expected: Expected<'_>, value: &Value) -> Result<(), Status> {
    let (found, own) = (object::api_version(value), expected.api_version());
    if found.is_empty() || found == own {
        return Ok(());
    }
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new("apiVersion"), found, format!("must be {own}"));
    Err(Status::invalid(expected.group, expected.kind, meta::name(value), &errors))
}

/// Sets `apiVersion` and `kind` of a strategic merge's result to those of the endpoint, as Kubernetes does:
/// Ansible's `k8s_scale` patches a Scale with the kind of the workload.
fn keep_kind(expected: Expected<'_>, value: &mut Value) {
    for (member, own) in [("apiVersion", expected.api_version()), ("kind", expected.kind.to_owned())] {
        if value.get(member).is_some_and(Value::is_string) {
            value[member] = own.into();
        }
    }
}

/// The reason for which an object of another kind cannot be converted to the expected kind; `None` if it
/// needs no conversion. An object of another version of the kind is converted.
fn foreign_kind(expected: Expected<'_>, value: &mut Value) -> Option<String> {
    let (api_version, kind) = (object::api_version(value).to_owned(), object::kind(value).to_owned());
    let own = expected.api_version();
    let (api_version, kind) = match (api_version.as_str(), kind.as_str()) {
        ("", "") => return None,
        ("", kind) => (own.clone(), kind.to_owned()),
        (api_version, "") => (api_version.to_owned(), expected.kind.to_owned()),
        _ => (api_version, kind),
    };
    if (api_version.as_str(), kind.as_str()) == (own.as_str(), expected.kind) {
        return None;
    }
    let (group, version) = split_api_version(&api_version);
    if schema::of(group, version, &kind).is_none() {
        return Some(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
        ));
    }
    let turned = kind::known(&own, expected.kind)
        .is_some_and(|row| kind == expected.kind && convert::to_version(row, value).is_ok());
    let package = if expected.group.is_empty() { "core" } else { expected.group.split('.').next()? };
    let to = expected.kind;
    (!turned).then(|| format!("converting ({version}.{kind}) to ({package}.{to}): unknown conversion"))
}

/// The source location of Kubernetes' scheme, as its messages show it.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// The text of a type error. Kubernetes decodes the result of a strategic merge without writing it as JSON
/// first, so its texts differ there.
fn mistyped(kind: PatchType, error: &MetadataError) -> String {
    let MetadataError::Object(DecodeError::Type { found, go_type, .. }) = error else {
        return error.to_string();
    };
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

/// 400 if the result of a patch names another namespace.
fn check_namespace(target: &Target, value: &Value) -> Result<(), Status> {
    match meta::namespace(value) {
        "" => Ok(()),
        namespace if namespace == target.namespace || !target.resource.namespaced => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}
