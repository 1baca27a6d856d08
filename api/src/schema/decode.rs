//! Decodes a JSON object by the rules of Kubernetes' Go structs: checks types, removes and reports unknown
//! members, and writes scalars in canonical form.
//!
//! After [`normalize`] in [`Mode::Whole`] a member that is not a pointer and holds its zero value (`0`, `""`,
//! `{}`) is absent. Defaults and validation therefore need to check only for absence. [`super::fill`] adds
//! the zero members that Kubernetes always prints.

use super::limits::{MAX_DEPTH, MAX_FIELD_PROBLEMS};
use super::path::{Path, PathStep};
use super::{Elem, Field, Shape, Type, json_schema_props, scalar};
use crate::quantity::QuantityError;
use serde_json::{Map, Value};

/// A list whose empty value differs from absence: an empty list asks the server to forget all field managers.
const MANAGED_FIELDS: &str = "managedFields";
/// The type with the other such list: policies that are absent have defaults, and an empty list is refused.
const SCALING_RULES: &str = "HPAScalingRules";

/// Annotation of a DaemonSet with the generation of its template, which Kubernetes decodes into an integer.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Whether the decoded object is whole or an apply configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A whole object: members that equal absence are removed.
    Whole,
    /// An apply configuration: zero values, nulls and unknown members stay.
    Partial,
}

/// Unknown or duplicate field that strict field validation refuses. `Display` is the text that clients know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldProblem {
    /// The type has no such member.
    Unknown(String),
    /// The JSON text states the member more than once.
    Duplicate(String),
}

impl std::fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(path) => write!(f, "unknown field \"{path}\""),
            Self::Duplicate(path) => write!(f, "duplicate field \"{path}\""),
        }
    }
}

/// Decoding error: the body is not a value of its type. The client gets a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A member has the wrong JSON type.
    #[error("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}")]
    Type {
        /// JSON type that was found, e.g. `string`.
        found: String,
        /// Innermost struct that contains the member.
        owner: &'static str,
        /// Names of the struct members on the way from the root.
        path: String,
        /// Expected type in Go's spelling.
        go_type: String,
    },
    /// The value itself has the wrong JSON type.
    #[error("json: cannot unmarshal {found} into Go value of type {go_type}")]
    Root {
        /// JSON type that was found.
        found: String,
        /// Expected type in Go's spelling.
        go_type: String,
    },
    /// The text is not an RFC 3339 time.
    #[error("parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\"")]
    Time {
        /// The text.
        text: String,
        /// Go's layout string for the expected form.
        layout: &'static str,
    },
    /// The text is not base64.
    #[error("illegal base64 data at input byte {at}")]
    Base64 {
        /// Offset of the first wrong byte in the text.
        at: usize,
    },
    /// The text of an annotation is not an integer.
    #[error("strconv.ParseInt: parsing {text:?}: {fault}")]
    Integer {
        /// The text.
        text: String,
        /// What is wrong, in Go's words.
        fault: &'static str,
    },
    /// The value is not a quantity.
    #[error(transparent)]
    Quantity(QuantityError),
    /// Objects are nested more deeply than the limit.
    #[error("exceeded max depth")]
    TooDeep,
}

/// Checks `value` against `ty` and rewrites it in canonical form. Returns the unknown members, which
/// [`Mode::Whole`] removes.
///
/// # Errors
/// A member has the wrong type. `value` is then partly rewritten and must not be used.
pub fn normalize(value: &mut Value, ty: &'static Type, mode: Mode) -> Result<Vec<FieldProblem>, DecodeError> {
    let mut walk = Walk { mode, path: Path::default(), lenient: 0, problems: Vec::new() };
    match value {
        Value::Object(map) => walk.object(map, ty)?,
        other => {
            return Err(DecodeError::Root {
                found: scalar::json_kind(other).to_owned(),
                go_type: ty.go_name(),
            });
        }
    }
    if ty.name == "DaemonSet" && mode == Mode::Whole {
        template_generation(value)?;
    }
    Ok(walk.problems)
}

/// Checks the metadata of a custom object like [`normalize`].
///
/// # Errors
/// A member has the wrong type. `object` must then not be used.
pub fn normalize_metadata(object: &mut Value, mode: Mode) -> Result<Vec<FieldProblem>, DecodeError> {
    match object.get_mut("metadata") {
        None => Ok(Vec::new()),
        Some(metadata) => {
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
            normalize(metadata, super::object_meta(), mode)
        }
    }
}

/// Checks the generation of a DaemonSet's template, as `Convert_v1_DaemonSet_To_apps_DaemonSet` of Kubernetes does.
fn template_generation(object: &Value) -> Result<(), DecodeError> {
    let stated = object["metadata"]["annotations"].get(TEMPLATE_GENERATION).and_then(Value::as_str);
    match stated.map(|text| (text, text.parse::<i64>())) {
        Some((text, Err(error))) => {
            use std::num::IntErrorKind as Kind;
            let is_large = matches!(error.kind(), Kind::PosOverflow | Kind::NegOverflow);
            let fault = if is_large { "value out of range" } else { "invalid syntax" };
            Err(DecodeError::Integer { text: text.to_owned(), fault })
        }
        _ => Ok(()),
    }
}

struct Walk {
    mode: Mode,
    path: Path,
    /// Number of values around this one whose types have decoders of their own in Go. These end the strict check.
    lenient: usize,
    problems: Vec<FieldProblem>,
}

impl Walk {
    fn object(&mut self, map: &mut Map<String, Value>, ty: &'static Type) -> Result<(), DecodeError> {
        if self.path.depth() > MAX_DEPTH {
            return Err(DecodeError::TooDeep);
        }
        let mut failed = None;
        map.retain(|name, value| {
            if failed.is_some() {
                return true;
            }
            let Some(field) = ty.field(name) else {
                self.unknown(name);
                return self.mode == Mode::Partial;
            };
            self.path.push(PathStep::Field(field.name));
            let kept = self.member(value, field, ty);
            self.path.pop();
            kept.unwrap_or_else(|error| {
                failed = Some(error);
                true
            })
        });
        failed.map_or(Ok(()), Err)
    }

    fn unknown(&mut self, name: &str) {
        // An apply configuration may have no unknown member anywhere.
        let is_checked = self.lenient == 0 || self.mode == Mode::Partial;
        if is_checked && self.problems.len() < MAX_FIELD_PROBLEMS {
            self.problems.push(FieldProblem::Unknown(self.path.strict(name)));
        }
    }

    /// Checks one member; true if it stays in the object.
    fn member(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        owner: &'static Type,
    ) -> Result<bool, DecodeError> {
        // Null equals absence, but a manager that applies it owns the member and takes its value away.
        if value.is_null() {
            return Ok(self.mode == Mode::Partial);
        }
        match field.shape {
            Shape::One => self.elem(value, field, owner)?,
            Shape::List => self.list(value, field, owner)?,
            Shape::Map => self.map(value, field, owner)?,
        }
        Ok(self.mode == Mode::Partial || !(value.is_null() || equals_absence(value, field, owner)))
    }

    fn list(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        owner: &'static Type,
    ) -> Result<(), DecodeError> {
        let Value::Array(items) = value else {
            return Err(self.wrong(value, owner, go_type_of_field(field)));
        };
        for (at, item) in items.iter_mut().enumerate() {
            self.path.push(PathStep::Index(at));
            let done = self.item(item, field, owner);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        owner: &'static Type,
    ) -> Result<(), DecodeError> {
        let Value::Object(map) = value else { return Err(self.wrong(value, owner, go_type_of_field(field))) };
        for (key, item) in map.iter_mut() {
            // Messages show the path below a map key only for structs.
            self.path.push(PathStep::Key(if matches!(field.elem, Elem::Struct(_)) {
                key.clone()
            } else {
                String::new()
            }));
            let done = self.item(item, field, owner);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    /// Checks an element of a list or map; null stands for the zero value.
    fn item(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        owner: &'static Type,
    ) -> Result<(), DecodeError> {
        if value.is_null() {
            if self.mode == Mode::Whole {
                *value = super::fill::zero(field.elem);
            }
            return Ok(());
        }
        self.elem(value, field, owner)
    }

    fn elem(
        &mut self,
        value: &mut Value,
        field: &'static Field,
        owner: &'static Type,
    ) -> Result<(), DecodeError> {
        match field.elem {
            Elem::Struct(id) => self.nested(value, id.get(), owner, &field.elem),
            Elem::String if value.is_string() => Ok(()),
            Elem::Bool if value.is_boolean() => Ok(()),
            Elem::Float64 if value.is_number() => Ok(()),
            Elem::Int32 if value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) => Ok(()),
            Elem::Int64 if value.as_i64().is_some() => Ok(()),
            Elem::Time | Elem::MicroTime | Elem::Bytes => self.text(value, &field.elem, owner),
            // An apply configuration keeps the texts that were sent: ownership compares them, not what they mean.
            Elem::Quantity if self.mode == Mode::Partial => scalar::quantity(value).map(drop),
            // Maps of quantities are resource amounts, kept in thousandths; those of resource.k8s.io are
            // exact.
            Elem::Quantity if field.shape == Shape::Map && owner.package.group != "resource.k8s.io" => {
                *value = Value::String(scalar::amount(value)?);
                Ok(())
            }
            Elem::Quantity => {
                *value = Value::String(scalar::quantity(value)?);
                Ok(())
            }
            Elem::IntOrString => scalar::int_or_string(value),
            Elem::Raw | Elem::Json => Ok(()),
            Elem::FieldsV1 if value.is_object() => Ok(()),
            Elem::Items => self.strings(value, owner),
            Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => {
                self.lenient += 1;
                let done = self.schema(value, field.elem, owner);
                self.lenient -= 1;
                done
            }
            Elem::String | Elem::Bool | Elem::Float64 | Elem::Int32 | Elem::Int64 | Elem::FieldsV1 => {
                Err(self.wrong(value, owner, go_type(&field.elem)))
            }
        }
    }

    fn nested(
        &mut self,
        value: &mut Value,
        ty: &'static Type,
        owner: &'static Type,
        elem: &Elem,
    ) -> Result<(), DecodeError> {
        match value {
            Value::Object(map) => self.object(map, ty),
            other => Err(self.wrong(other, owner, go_type(elem))),
        }
    }

    fn text(&mut self, value: &mut Value, elem: &Elem, owner: &'static Type) -> Result<(), DecodeError> {
        let Value::String(text) = value else { return Err(self.wrong(value, owner, go_type(elem))) };
        let canonical = match elem {
            Elem::Time if scalar::is_canonical_time(text) => return Ok(()),
            Elem::MicroTime if scalar::is_canonical_micro_time(text) => return Ok(()),
            Elem::Time => scalar::time(text)?,
            Elem::MicroTime => scalar::micro_time(text)?,
            _ => Some(scalar::base64(&scalar::bytes(text)?)),
        };
        if self.mode == Mode::Whole {
            *value = canonical.map_or(Value::Null, Value::String);
        }
        Ok(())
    }

    fn strings(&mut self, value: &mut Value, owner: &'static Type) -> Result<(), DecodeError> {
        let Value::Array(items) = value else { return Err(self.wrong(value, owner, "[]string".to_owned())) };
        for item in items {
            match item {
                Value::String(_) => {}
                Value::Null => *item = Value::String(String::new()),
                other => return Err(self.wrong(other, owner, "string".to_owned())),
            }
        }
        Ok(())
    }

    fn schema(&mut self, value: &mut Value, elem: Elem, owner: &'static Type) -> Result<(), DecodeError> {
        match (value, elem) {
            (Value::Object(map), _) => self.object(map, json_schema_props()),
            (Value::Bool(_), Elem::SchemaOrBool) => Ok(()),
            (value @ Value::Array(_), Elem::SchemaOrStrings) => self.strings(value, owner),
            (Value::Array(items), Elem::SchemaOrList) => {
                items.iter_mut().try_for_each(|item| self.nested(item, json_schema_props(), owner, &elem))
            }
            (other, _) => Err(self.wrong(other, owner, go_type(&elem))),
        }
    }

    fn wrong(&self, value: &Value, owner: &'static Type, go_type: String) -> DecodeError {
        let found = match value {
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            other => scalar::json_kind(other).to_owned(),
        };
        DecodeError::Type { found, owner: owner.name, path: self.path.members(), go_type }
    }
}

/// True if the Go struct has the same content with this value as without the member.
fn equals_absence(value: &Value, field: &Field, owner: &Type) -> bool {
    if field.pointer || (owner.name == SCALING_RULES && field.shape == Shape::List) {
        return false;
    }
    match (field.shape, field.elem) {
        (Shape::List, _) if field.name == MANAGED_FIELDS => false,
        (Shape::List | Shape::Map, _) | (_, Elem::Bytes | Elem::Items) => field.omit_empty && is_empty(value),
        (Shape::One, Elem::Raw | Elem::Json | Elem::FieldsV1) => false,
        (Shape::One, Elem::Quantity) => value.as_str() == Some("0"),
        (Shape::One, Elem::IntOrString) => value.as_i64() == Some(0),
        (Shape::One, _) => is_empty(value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn go_type_of_field(field: &Field) -> String {
    match field.shape {
        Shape::One => go_type(&field.elem),
        Shape::List => format!("[]{}", go_type(&field.elem)),
        Shape::Map => format!("map[string]{}", go_type(&field.elem)),
    }
}

fn go_type(elem: &Elem) -> String {
    let name = match elem {
        Elem::String => "string",
        Elem::Bool => "bool",
        Elem::Int32 => "int32",
        Elem::Int64 => "int64",
        Elem::Float64 => "float64",
        Elem::Bytes => "[]uint8",
        Elem::Time | Elem::MicroTime => "string",
        Elem::Quantity => "resource.Quantity",
        Elem::IntOrString => "intstr.IntOrString",
        Elem::Raw => "runtime.RawExtension",
        Elem::FieldsV1 => "v1.FieldsV1",
        Elem::Json => "v1.JSON",
        Elem::Items => "[]string",
        Elem::SchemaOrList => "v1.JSONSchemaPropsOrArray",
        Elem::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
        Elem::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
        Elem::Struct(id) => return id.get().go_name(),
    };
    name.to_owned()
}
