//! Patch bodies, and what they make of an object, in the terms of the client: what is wrong is wrong with the field `patch`.

use super::{Expected, check_kind, normalize_as};
use crate::limits::BODY_BYTES;
use crate::request::{FieldValidation, Target};
use kstore_api::field::{ErrorList, Path};
use kstore_api::kind::{self, split_api_version};
use kstore_api::patch::{PatchType, strategic};
use kstore_api::schema::decode::{DecodeError, FieldProblem, Mode};
use kstore_api::schema::{self, strict};
use kstore_api::status::Status;
use kstore_api::structural::MetadataError;
use kstore_api::{convert, meta, object, yaml};
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
    if kind != PatchType::Json {
        return strict::duplicate_fields(body).iter().map(ToString::to_string).collect();
    }
    let operations = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let members = operations.iter().enumerate().flat_map(|(at, operation)| {
        let names = operation.as_object().into_iter().flat_map(|members| members.keys());
        let odd = names.filter(|name| !matches!(name.as_str(), "op" | "path" | "from" | "value"));
        odd.map(move |name| FieldProblem::Unknown(format!("[{at}].{name}")))
    });
    let found = strict::in_document_order(body, members.take(strict::MAX_PROBLEMS).collect());
    found.iter().map(|problem| format!("json patch {problem}")).collect()
}

/// Brings what a patch made of an object into canonical form. `again` makes the same of it once more.
///
/// # Errors
/// 422 about the field `patch` if it is no object of the kind any more, or if strict validation refuses it; 400 if it is
/// in another namespace.
pub(crate) fn patched(
    target: &Target,
    patch: &Patch,
    value: &mut Value,
    again: impl Fn() -> Result<Value, Status>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let expected = Expected::at(target);
    // What a refusal shows: of a strategic merge its patch, else the result. Nearly every patch is taken, so the result is made again for
    // a refusal instead of being copied for each patch.
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
    match patch.kind {
        PatchType::Strategic => keep_kind(expected, value),
        PatchType::Json | PatchType::Merge | PatchType::Apply if expected.custom.is_some() => {}
        PatchType::Json | PatchType::Merge | PatchType::Apply => {
            foreign_kind(expected, value).map_or(Ok(()), |text| Err(refused(text)))?;
        }
    }
    check_kind(expected, value)?;
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

/// Kubernetes reads the result of a strategic merge as the kind of the endpoint, whatever the patch says that it is: Ansible's
/// `k8s_scale` patches a Scale with the kind of the workload.
fn keep_kind(expected: Expected<'_>, value: &mut Value) {
    for (member, own) in [("apiVersion", expected.api_version()), ("kind", expected.kind.to_owned())] {
        if value.get(member).is_some_and(Value::is_string) {
            value[member] = own.into();
        }
    }
}

/// Why an object that says that it is of another kind cannot become one of the expected kind; `None` if it says no such thing. Of
/// another version it is turned into the expected one.
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
    let turned = kind::lookup_api_version(&own, expected.kind)
        .is_some_and(|row| kind == expected.kind && convert::to_version(row, value).is_ok());
    let package = if expected.group.is_empty() { "core" } else { expected.group.split('.').next()? };
    let to = expected.kind;
    (!turned).then(|| format!("converting ({version}.{kind}) to ({package}.{to}): unknown conversion"))
}

/// Where Kubernetes' table of kinds is, as its messages say.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// Kubernetes does not write the result of a strategic merge as JSON before it reads it as the kind, and says so.
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
