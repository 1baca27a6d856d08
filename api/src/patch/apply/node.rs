//! Schema view of server-side apply: whether a value is atomic, a map whose members have owners, or a list
//! whose elements have an identity. Built-in types say so in the field table, custom resources in their
//! schema.

use crate::schema::fill::{self, always_printed, is_null_when_unset};
use crate::schema::{self, Elem, Field, ListType, Shape, Type};
use crate::structural::{self, MapType, Schema, Tree, ValueType};
use crate::{convert, kind};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Source of the type information for an object.
#[derive(Clone, Copy, Debug)]
pub enum ObjectType<'a> {
    /// A type of the field table.
    BuiltIn(&'static Type),
    /// A custom resource with the schema of its version. Without a schema, maps are granular and lists are
    /// atomic.
    Custom(Option<&'a Tree>),
}

impl<'a> ObjectType<'a> {
    /// The version in which fields of an entry with this `api_version` are looked up; `own` is the request's
    /// version. Versions of a custom resource name their fields alike, so `own` stands for all of them.
    pub(super) fn version_of<'s>(self, api_version: &'s str, own: &'s str) -> &'s str {
        match self {
            Self::BuiltIn(_) => api_version,
            Self::Custom(_) => own,
        }
    }

    /// Converts an object of this type to another version of its kind; `None` if there is no such version.
    ///
    /// Versions of a custom resource are assumed to name their fields alike.
    pub(super) fn in_version<'v>(
        self,
        object: &'v Value,
        api_version: &str,
    ) -> Option<(Cow<'v, Value>, Self)> {
        let Self::BuiltIn(ty) = self else { return Some((Cow::Borrowed(object), self)) };
        if ty.package.is_version(api_version) {
            return Some((Cow::Borrowed(object), self));
        }
        let row = kind::known(api_version, ty.name)?;
        let other = schema::of(row.group, row.version, row.kind)?;
        let mut turned = object.clone();
        turned["apiVersion"] = ty.package.api_version().into();
        convert::to_version(row, &mut turned).ok()?;
        Some((Cow::Owned(turned), Self::BuiltIn(other)))
    }
}

/// Members, by type and name, that are merged although the type of their values is atomic.
pub(super) const GRANULAR: [(&str, &str); 1] = [("PersistentVolumeSpec", "claimRef")];

/// Position in the schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    /// A value owned as a whole: a scalar, an atomic list or an atomic map.
    Leaf,
    /// A struct of the table.
    Struct(&'static Type),
    /// A map with values of this type.
    Values(Elem),
    /// A list of structs that key fields identify.
    Keyed(&'static Field),
    /// A list of unique scalars.
    Scalars,
    /// Without a schema: maps are granular, everything else is atomic.
    Free,
    /// A custom resource as a whole.
    CustomRoot(Option<&'a Tree>),
    /// A value within a custom resource.
    Custom(Schema<'a>),
}

/// How to walk a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Leaf,
    Map,
    List,
}

impl<'a> Node<'a> {
    pub(super) fn root(object: ObjectType<'a>) -> Self {
        match object {
            ObjectType::BuiltIn(ty) => Self::Struct(ty),
            ObjectType::Custom(schema) => Self::CustomRoot(schema),
        }
    }

    fn of_elem(elem: Elem) -> Self {
        match elem {
            Elem::Struct(id) if !id.get().atomic => Self::Struct(id.get()),
            Elem::Json | Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => Self::Free,
            _ => Self::Leaf,
        }
    }

    pub(super) fn of_field(field: &'static Field) -> Self {
        match (field.shape, field.list_type) {
            _ if field.atomic => Self::Leaf,
            (Shape::One, _) => Self::of_elem(field.elem),
            (Shape::Map, _) => Self::Values(field.elem),
            (Shape::List, Some(ListType::Map)) => Self::Keyed(field),
            (Shape::List, Some(ListType::Set)) => Self::Scalars,
            (Shape::List, Some(ListType::Atomic) | None) => Self::Leaf,
        }
    }

    /// How to walk values at this position.
    pub(super) fn view(self, values: [Option<&Value>; 2]) -> View {
        match self {
            Self::Leaf => View::Leaf,
            Self::Struct(_) | Self::Values(_) | Self::CustomRoot(_) => View::Map,
            Self::Keyed(_) | Self::Scalars => View::List,
            Self::Custom(schema) => custom_view(schema).unwrap_or_else(|| free_view(values)),
            Self::Free => free_view(values),
        }
    }

    /// The position of a member, and whether the schema names the member (and not as a key of a map).
    pub(super) fn member(self, name: &str) -> (Self, bool) {
        match self {
            Self::Struct(ty) => ty.field(name).map_or((Self::Free, false), |field| {
                let granular = field.struct_type().filter(|_| GRANULAR.contains(&(ty.name, name)));
                (granular.map_or_else(|| Self::of_field(field), Self::Struct), true)
            }),
            Self::Values(elem) => (Self::of_elem(elem), false),
            Self::CustomRoot(tree) => implied(name)
                .map(|node| (node, true))
                .or_else(|| tree.map(|tree| Self::Custom(tree.root()).member(name)))
                .unwrap_or((Self::Free, false)),
            Self::Custom(schema) => {
                let implied = implied(name).filter(|_| schema.flags.embedded);
                let property = || schema.property(name).map(Self::Custom);
                let value = || schema.values().map_or(Self::Free, Self::Custom);
                implied.or_else(property).map_or_else(|| (value(), false), |node| (node, true))
            }
            Self::Free | Self::Leaf | Self::Keyed(_) | Self::Scalars => (Self::Free, false),
        }
    }

    /// The position of the list's elements.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Keyed(field) => Self::of_elem(field.elem),
            Self::Custom(schema) if map_keys(schema).is_some() => {
                schema.items().map_or(Self::Leaf, Self::Custom)
            }
            _ => Self::Leaf,
        }
    }

    /// Whether an empty struct in this member differs from absence.
    pub(super) fn keeps_empty(self, name: &str) -> bool {
        let Self::Struct(ty) = self else { return false };
        ty.field(name).is_some_and(|f| f.pointer && f.shape == Shape::One && f.struct_type().is_some())
    }

    /// The value that Go prints for a member that is not stated: its zero value, or null for a list, map, pointer or time. `None` if Go
    /// prints nothing. Managers do not own such a member by adding it, since it is always
    /// present.
    pub(super) fn unstated(self, name: &str) -> Option<&'static Value> {
        static NULL: Value = Value::Null;
        let Self::Struct(ty) = self else { return None };
        let field = ty.field(name)?;
        match always_printed(field) {
            true if is_null_when_unset(field) => Some(&NULL),
            true => Some(zero(field.elem)),
            false => None,
        }
    }

    /// The members that Go prints although the value does not state them.
    pub(super) fn printed(self, stated: &Map<String, Value>) -> impl Iterator<Item = &'static str> {
        let fields = if let Self::Struct(ty) = self { ty.fields } else { &[] };
        fields.iter().filter(|f| always_printed(f) && !stated.contains_key(f.name)).map(|f| f.name)
    }

    /// The path element that identifies a list element.
    ///
    /// # Errors
    /// The element lacks its keys, or is of the wrong type; the text says which.
    pub(super) fn identity(self, item: &Value) -> Result<String, String> {
        let has_keys = match self {
            Self::Keyed(_) => true,
            Self::Custom(schema) => map_keys(schema).is_some(),
            _ => false,
        };
        fits(item, has_keys)?;
        match self {
            Self::Keyed(field) => {
                let ty = field.struct_type();
                keyed(item, field.list_keys.iter().map(|k| (*k, ty.and_then(|t| key_default(t, k)))))
            }
            Self::Custom(schema) if let Some(keys) = map_keys(schema) => {
                let property = |key: &str| schema.items()?.property(key);
                let default = |key: &str| property(key)?.default.as_deref().cloned();
                keyed(item, keys.iter().map(|key| (&**key, default(key))))
            }
            _ => Ok(format!("v:{item}")),
        }
    }
}

/// Checks that an element of a keyed list is an object, and that an element of a set is a scalar.
fn fits(item: &Value, has_keys: bool) -> Result<(), String> {
    let text = match (item, has_keys) {
        (Value::Object(_), true) => return Ok(()),
        (Value::Bool(_) | Value::Number(_) | Value::String(_), false) => return Ok(()),
        (Value::Null, true) => "associative list with keys may not have a null element",
        (_, true) => "associative list with keys may not have non-map elements",
        (Value::Object(_), false) => "associative list without keys has an element that's a map type",
        (Value::Array(_), false) => "not supported: associative list with lists as elements",
        (Value::Null, false) => "associative list without keys has an element that's an explicit null",
    };
    Err(text.to_owned())
}

fn keyed<'k>(item: &Value, keys: impl Iterator<Item = (&'k str, Option<Value>)>) -> Result<String, String> {
    let mut found = Map::new();
    let mut missing = Vec::new();
    for (key, default) in keys {
        match item.get(key).cloned().or(default) {
            Some(value) => drop(found.insert(key.to_owned(), value)),
            None => missing.push(format!("{key:?}")),
        }
    }
    // An element without some of its keys differs from every element that has them.
    if found.is_empty() && !missing.is_empty() {
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            missing.join(" ")
        ));
    }
    Ok(format!("k:{}", Value::Object(found)))
}

/// Default value of an absent list key: ports default to the protocol TCP, references to the empty name, and a key that Go always prints
/// has its zero value. Other keys have no default.
fn key_default(ty: &'static Type, key: &str) -> Option<Value> {
    if key == "protocol" && matches!(ty.name, "ContainerPort" | "ServicePort") {
        return Some(Value::from("TCP"));
    }
    if key == "name" && ty.name == "LocalObjectReference" {
        return Some(Value::from(""));
    }
    let field = ty.field(key).filter(|field| always_printed(field) && !is_null_when_unset(field))?;
    Some(zero(field.elem).clone())
}

/// Positions of apiVersion, kind and metadata, which every object has even if its schema does not declare them.
fn implied<'a>(name: &str) -> Option<Node<'a>> {
    match name {
        "metadata" => Some(Node::Struct(schema::object_meta())),
        "apiVersion" | "kind" => Some(Node::Leaf),
        _ => None,
    }
}

/// The keys of a list of type `map`.
fn map_keys(schema: Schema<'_>) -> Option<&[structural::Name]> {
    match &schema.node().list_type {
        structural::ListType::Map(keys) => Some(keys),
        structural::ListType::Set | structural::ListType::Atomic => None,
    }
}

/// How to walk a value of a custom resource; `None` if that depends on the value.
fn custom_view(schema: Schema<'_>) -> Option<View> {
    match schema.value_type {
        Some(ValueType::Array) if schema.list_type == structural::ListType::Atomic => Some(View::Leaf),
        Some(ValueType::Array) => Some(View::List),
        Some(ValueType::Object) if schema.map_type == MapType::Granular => Some(View::Map),
        None if schema.flags.preserve_unknown && !schema.flags.int_or_string => None,
        _ => Some(View::Leaf),
    }
}

/// How to walk a value without a schema: maps are granular, everything else is atomic.
fn free_view(values: [Option<&Value>; 2]) -> View {
    let is_map = values.into_iter().flatten().all(|value| value.is_object() || value.is_null());
    if is_map { View::Map } else { View::Leaf }
}

/// The zero value of a type that Go always prints.
fn zero(elem: Elem) -> &'static Value {
    static ZEROS: OnceLock<[Value; 7]> = OnceLock::new();
    const KINDS: [Elem; 6] =
        [Elem::String, Elem::Bool, Elem::Int32, Elem::Int64, Elem::Float64, Elem::Quantity];
    let zeros = ZEROS.get_or_init(|| {
        let [text, set, int, long, float, quantity] = KINDS.map(fill::zero);
        [text, set, int, long, float, quantity, Value::Object(Map::new())]
    });
    match (elem, KINDS.iter().position(|kind| *kind == elem)) {
        (Elem::IntOrString, _) => &zeros[2],
        (_, Some(at)) => &zeros[at],
        (_, None) => &zeros[6],
    }
}
