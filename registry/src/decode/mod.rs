//! Decoding of request bodies: parses the encoding, checks that the object is of the URL's kind, and checks
//! types and fields against the schema. Pure. Defaulting and validation come later and see only decoded
//! objects.

pub mod delete_options;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod patch;
pub mod weight;

use crate::kinds::CustomVersion;
use crate::request::{Body, FieldValidation, Format, Target};
use kstore_api::field::{ErrorList, Path};
use kstore_api::group_version::split_api_version;
use kstore_api::patch::apply::{self, ApplyError, ObjectType};
use kstore_api::resource::Resource;
use kstore_api::schema::{self, decode, strict};
use kstore_api::status::Status;
use kstore_api::structural::{MetadataError, Origin};
use kstore_api::version::Minor;
use kstore_api::wire::protobuf::TypeMeta;
use kstore_api::{initializers, json, object, wire, yaml};
use kstore_storage::limits::BODY_BYTES;
pub use patch::{Configuration, Patch, patch, patched};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The kind that a body must have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The group, "" for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The version of a custom kind, with its schema; `None` for kinds in the table of built-in types.
    pub custom: Option<&'a CustomVersion>,
    /// The type of the kind in the table of built-in types; `None` for custom kinds.
    pub built_in: Option<&'static schema::Type>,
    /// The version of Kubernetes whose fields the kind has.
    pub minor: Minor,
    /// Whether `metadata.initializers` is kept. Otherwise it is a field that the kind does not have.
    pub has_initializers: bool,
}

impl Expected<'static> {
    /// The body of a built-in resource, or of a subresource whose type is built in.
    pub fn of(resource: &'static Resource, subresource: &str) -> Self {
        let (group, version, kind) = match resource.subresource(subresource) {
            Some(sub) => (sub.group, sub.version, sub.kind),
            None => (resource.group, resource.version, resource.kind),
        };
        let built_in = resource.body_type(subresource);
        Self { group, version, kind, custom: None, built_in, minor: resource.minor, has_initializers: false }
    }
}

impl<'a> Expected<'a> {
    /// The kind of the body of a request to a target.
    pub fn at(target: &'a Target) -> Self {
        Expected { custom: target.schema(), ..Expected::of(target.resource, target.subresource) }
    }

    /// The kind on a server with or without initializers.
    pub fn with_initializers(self, has_initializers: bool) -> Self {
        Self { has_initializers, ..self }
    }

    /// Group and version as an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Decodes a whole object. Fields that strict validation would refuse are dropped, and reported as
/// `validation` says.
pub fn object(
    expected: Expected<'_>,
    body: &Body,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let ParsedBody { mut value, repeated, text } = parse(expected, body)?;
    if value.is_null() && expected.custom.is_none() {
        // A text without a value, such as YAML of comments alone, is an object of the expected kind without members, as in Go.
        value = json!({});
    }
    check_stated_version(expected, &value)?;
    check_kind(expected, &mut value)?;
    let unknown = normalize(expected, &mut value)?;
    if validation == FieldValidation::Ignore {
        return Ok(value);
    }
    let found = match body.format {
        // Problems of custom kinds follow the duplicate fields, in sorted order, as in Kubernetes.
        Format::Json if expected.custom.is_some() => {
            strict::duplicate_fields(&text).into_iter().chain(unknown).collect()
        }
        Format::Json => strict::in_document_order(&text, unknown, Some(type_of(expected)?)),
        Format::Yaml | Format::Protobuf => unknown,
    };
    let mut problems = repeated;
    if validation == FieldValidation::Strict && !problems.is_empty() {
        problems = vec![format!("yaml: unmarshal errors:\n  {}", problems.join("\n  "))];
    }
    problems.extend(found.iter().map(ToString::to_string));
    report(expected, problems, validation, warnings)?;
    Ok(value)
}

/// Brings an object that a patch or admission computed into canonical form.
///
/// # Errors
/// 400 or 422 if the object is not valid for the kind.
pub fn canonical(
    expected: Expected<'_>,
    value: &mut Value,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    check_kind(expected, value)?;
    let problems = normalize(expected, value)?;
    report(expected, problems.iter().map(ToString::to_string).collect(), validation, warnings)
}

/// Brings the result of a server-side apply into canonical form. A null that the schema does not allow stays, for validation to
/// refuse it.
///
/// # Errors
/// 400 if the result is not an object of the kind.
pub fn applied(expected: Expected<'_>, value: &mut Value) -> Result<(), Status> {
    check_kind(expected, value)?;
    let read = normalize_as(expected, value, Origin::Apply)?;
    read.map(drop).map_err(|error| refused(expected, &error))
}

impl Target {
    /// Decodes an object that a webhook changed, as a request body is decoded: checks types and drops unknown
    /// fields.
    ///
    /// # Errors
    /// 500 if it is not an object of the kind.
    pub fn decode_admitted(&self, value: &mut Value) -> Result<(), Status> {
        let expected = Expected::at(self);
        check_kind(expected, value).map_err(|status| Status::internal(status.message))?;
        let read = normalize_as(expected, value, Origin::Request)?;
        read.map(drop).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Parses YAML, JSON or protobuf without checking it against a schema.
pub fn tree(body: &Body) -> Result<Value, Status> {
    match body.format {
        Format::Json => json::parse(&body.bytes)
            .map(|(value, _)| value)
            .map_err(|e| Status::bad_request(format!("error decoding JSON: {e}"))),
        Format::Yaml => {
            yaml::parse(&body.bytes, BODY_BYTES).map(|document| document.value).map_err(Status::bad_request)
        }
        Format::Protobuf => wire::protobuf::decode(&body.bytes)
            .map(|(_, value)| value)
            .map_err(|e| Status::bad_request(format!("error decoding protobuf: {e}"))),
    }
}

/// A parsed body.
struct ParsedBody<'b> {
    value: Value,
    /// Keys that the YAML repeats.
    repeated: Vec<String>,
    /// The text as it was read.
    text: Cow<'b, [u8]>,
}

/// Parses the body.
fn parse<'b>(expected: Expected<'_>, body: &'b Body) -> Result<ParsedBody<'b>, Status> {
    let unrecognized = |reason: String| {
        let (kind, start) = (expected.kind, beginning(&body.bytes));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {reason} ({start})"
        ))
    };
    match body.format {
        Format::Json => {
            let refused = |e: serde_json::Error| {
                let why = if e.is_eof() { "unexpected end of JSON input".to_owned() } else { e.to_string() };
                unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
            };
            let (value, text) = json::parse(&body.bytes).map_err(refused)?;
            check_type_meta(&value)
                .map_err(|why| unrecognized(format!("couldn't get version/kind; json parse error: {why}")))?;
            if lacks_kind(expected, &value) {
                let text = String::from_utf8_lossy(&text);
                return Err(unrecognized(format!("Object 'Kind' is missing in '{text}'")));
            }
            Ok(ParsedBody { value, repeated: Vec::new(), text })
        }
        Format::Yaml => {
            let document = yaml::parse(&body.bytes, BODY_BYTES).map_err(unrecognized)?;
            check_type_meta(&document.value)
                .map_err(|why| unrecognized(format!("couldn't get version/kind; json parse error: {why}")))?;
            if lacks_kind(expected, &document.value) {
                return Err(unrecognized(format!("Object 'Kind' is missing in '{}'", document.value)));
            }
            Ok(ParsedBody {
                value: document.value,
                repeated: document.repeated,
                text: Cow::Borrowed(&body.bytes),
            })
        }
        Format::Protobuf => {
            let (meta, mut value) =
                wire::protobuf::decode_as(&body.bytes, |meta| type_of_message(expected, meta)).map_err(
                    |e| unrecognized(format!("couldn't get version/kind; protobuf parse error: {e}")),
                )?;
            let object = value.as_object_mut().expect("a protobuf message is an object");
            object.insert("apiVersion".into(), json!(meta.api_version));
            object.insert("kind".into(), json!(meta.kind));
            Ok(ParsedBody { value, repeated: Vec::new(), text: Cow::Borrowed(&body.bytes) })
        }
    }
}

/// The type of a protobuf message: the expected one, or another one of the same version of Kubernetes.
fn type_of_message(expected: Expected<'_>, meta: &TypeMeta) -> Option<&'static schema::Type> {
    let own = expected.built_in.filter(|ty| ty.name == meta.kind && ty.package.is_version(&meta.api_version));
    let (group, version) = split_api_version(&meta.api_version);
    own.or_else(|| schema::of_minor(expected.minor, group, version, &meta.kind))
}

/// Checks that `apiVersion` and `kind` are texts, if they are there. The error is the text of Go's decoder.
fn check_type_meta(value: &Value) -> Result<(), String> {
    for member in ["apiVersion", "kind"] {
        let found = match value.get(member) {
            None | Some(Value::Null | Value::String(_)) => continue,
            Some(Value::Bool(_)) => "bool",
            Some(Value::Number(_)) => "number",
            Some(Value::Array(_)) => "array",
            Some(Value::Object(_)) => "object",
        };
        return Err(format!("json: cannot unmarshal {found} into Go struct field .{member} of type string"));
    }
    Ok(())
}

/// Checks the `apiVersion` of a request's body of a custom kind, which must state it. Built-in kinds take it from the URL.
fn check_stated_version(expected: Expected<'_>, value: &Value) -> Result<(), Status> {
    let kind = expected.kind;
    if expected.custom.is_none() {
        return Ok(());
    }
    match value.get("apiVersion") {
        Some(Value::Null) => Err(Status::bad_request(format!(
            "{kind} in version \"\" cannot be handled as a {kind}: .apiVersion accessor error: <nil> is of the type <nil>, expected string"
        ))),
        None => Err(other_version("", &expected.api_version())),
        Some(stated) if stated == "" => Err(other_version("", &expected.api_version())),
        Some(_) => Ok(()),
    }
}

fn other_version(stated: &str, wanted: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({stated}) does not match the expected API version ({wanted})"
    ))
}

/// Whether an object of a custom kind does not say its kind, which for built-in kinds is taken from the URL.
fn lacks_kind(expected: Expected<'_>, value: &Value) -> bool {
    expected.custom.is_some() && value.is_object() && object::kind(value).is_empty()
}

/// The beginning of a body for an error message: JSON as text, other bytes in hexadecimal.
fn beginning(body: &[u8]) -> String {
    let more = if body.len() > SHOWN_BYTES { " ..." } else { "" };
    let shown = &body[..body.len().min(SHOWN_BYTES)];
    match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => format!("{}{more}", String::from_utf8_lossy(shown)),
        _ => format!("{}{more}", shown.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// Bytes of an undecodable body that the error message shows.
const SHOWN_BYTES: usize = 30;

/// Sets missing type information from the URL, and checks that present type information agrees with it.
fn check_kind(expected: Expected<'_>, value: &mut Value) -> Result<(), Status> {
    let Some(object) = value.as_object_mut() else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): not an object",
            expected.kind
        )));
    };
    let wanted = expected.api_version();
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !kind.is_empty() && kind != expected.kind {
        if expected.custom.is_some() {
            return Err(other_custom_kind(expected, &kind, object));
        }
        let (group, version) = split_api_version(&api_version);
        return Err(Status::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {}: no kind \"{kind}\" is registered for this path in group \"{group}\"",
            expected.kind
        )));
    }
    if !api_version.is_empty() && api_version != wanted {
        return Err(other_version(&api_version, &wanted));
    }
    object.insert("apiVersion".into(), json!(wanted));
    object.insert("kind".into(), json!(expected.kind));
    Ok(())
}

/// 422: the body of a custom kind states another kind.
fn other_custom_kind(expected: Expected<'_>, kind: &str, object: &Map<String, Value>) -> Status {
    let name = object.get("metadata").map(|metadata| object::text(&metadata["name"])).unwrap_or_default();
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new("kind"), kind, format!("must be {}", expected.kind));
    Status::invalid(expected.group, kind, name, &errors)
}

/// Checks an apply configuration and brings its values into canonical form. Fields that its author wrote are
/// kept, also with zero values.
pub fn configuration(
    expected: Expected<'_>,
    object: ObjectType<'_>,
    value: &mut Value,
) -> Result<(), Status> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version.as_str(), kind.as_str()) != (expected.api_version().as_str(), expected.kind) {
        let (group, version) = split_api_version(&api_version);
        return Err(Status::bad_request(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    // This check reports values of a wrong type by their path; the decoder below then only finds values out
    // of range.
    apply::check(value, object).map_err(|e| match e {
        ApplyError::BadRequest(text) => Status::bad_request(text),
        ApplyError::Unclassified(text) => Status::unclassified(text),
        ApplyError::Conflicts(_) => Status::internal("a configuration alone conflicts with nothing"),
    })?;
    if expected.custom.is_some() {
        let read = decode::normalize_metadata(value, decode::Mode::Partial);
        return read.map(drop).map_err(|e| refused(expected, &e.into()));
    }
    let named = apply::identity(value);
    let read = decode::normalize(value, type_of(expected)?, decode::Mode::Partial);
    read.map(drop).map_err(|e| unconvertible(expected, &named, &e))
}

/// 500 without a reason: a value of a configuration is of its type and cannot be converted. Kubernetes notices it after the merge.
fn unconvertible(expected: Expected<'_>, named: &str, error: &decode::DecodeError) -> Status {
    let (group, version, kind) = (expected.group, expected.version, expected.kind);
    Status::unclassified(format!(
        "failed to convert new object ({named}) to proper version: unable to convert unstructured object to {group}/{version}, Kind={kind}: {error}"
    ))
}

fn normalize(expected: Expected<'_>, value: &mut Value) -> Result<Vec<decode::FieldProblem>, Status> {
    normalize_as(expected, value, Origin::Request)?.map_err(|e| refused(expected, &e))
}

type Normalized = Result<Vec<decode::FieldProblem>, MetadataError>;

fn normalize_as(expected: Expected<'_>, value: &mut Value, origin: Origin) -> Result<Normalized, Status> {
    let initializers = if expected.has_initializers { initializers::take(value) } else { None };
    let read = match expected.custom {
        Some(custom) => custom.version().tree.read(value, origin),
        None => decode::normalize(value, type_of(expected)?, decode::Mode::Whole).map_err(Into::into),
    };
    if initializers.is_some() {
        initializers::put(value, initializers);
    }
    Ok(read)
}

fn type_of(expected: Expected<'_>) -> Result<&'static schema::Type, Status> {
    expected.built_in.ok_or_else(|| {
        Status::internal(format!("no schema for {} {}", expected.api_version(), expected.kind))
    })
}

/// 400: the body cannot be decoded as the kind.
fn refused(expected: Expected<'_>, error: &MetadataError) -> Status {
    let Expected { version, kind, .. } = expected;
    Status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
}

fn report(
    expected: Expected<'_>,
    problems: Vec<String>,
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    match validation {
        FieldValidation::Strict if !problems.is_empty() => {
            let Expected { version, kind, .. } = expected;
            let problems = problems.join(", ");
            Err(Status::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {problems}"
            )))
        }
        FieldValidation::Strict | FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(problems);
            Ok(())
        }
    }
}
