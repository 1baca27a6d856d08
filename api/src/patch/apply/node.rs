//! What a value is to server-side apply: a leaf owned as a whole, a map whose members have owners, or a list whose
//! elements have an identity. Built-in types say so in the field table, custom resources in their schema.

use serde_json::{Map, Value};

use crate::schema::{self, Elem, Field, ListType, Shape, Type};

/// Which rules an object follows.
#[derive(Clone, Copy, Debug)]
pub enum ObjectType<'a> {
    /// A type of the field table.
    BuiltIn(&'static Type),
    /// A custom resource with the schema of its version, if it has one.
    Custom(Option<&'a Value>),
}

/// A place in the schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Node<'a> {
    /// Owned as a whole: scalars, atomic lists and maps.
    Leaf,
    /// A struct of the table.
    Struct(&'static Type),
    /// A map with such values.
    Values(Elem),
    /// A list of structs with these keys.
    Keyed(&'static Field),
    /// A list of unique scalars.
    Scalars,
    /// No schema: maps are maps, all else is a leaf.
    Free,
    /// A custom resource as a whole.
    CustomRoot(Option<&'a Value>),
    /// A value with an OpenAPI schema.
    Custom(&'a Value),
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
            Elem::Raw | Elem::Json => Self::Free,
            _ => Self::Leaf,
        }
    }

    fn of_field(field: &'static Field) -> Self {
        match (field.shape, field.list_type) {
            _ if field.atomic => Self::Leaf,
            (Shape::One, _) => Self::of_elem(field.elem),
            (Shape::Map, _) => Self::Values(field.elem),
            (Shape::List, Some(ListType::Map)) => Self::Keyed(field),
            (Shape::List, Some(ListType::Set)) => Self::Scalars,
            (Shape::List, Some(ListType::Atomic) | None) => Self::Leaf,
        }
    }

    /// How to walk this place, given the values that are there.
    pub(super) fn view(self, values: [Option<&Value>; 2]) -> View {
        match self {
            Self::Leaf => View::Leaf,
            Self::Struct(_) | Self::Values(_) | Self::CustomRoot(_) => View::Map,
            Self::Keyed(_) | Self::Scalars => View::List,
            Self::Free => {
                if values.into_iter().flatten().all(|v| v.is_object() || v.is_null()) {
                    View::Map
                } else {
                    View::Leaf
                }
            }
            Self::Custom(schema) => custom_view(schema),
        }
    }

    /// The place of a member, and whether the schema names it (against a key of a map).
    pub(super) fn member(self, name: &str) -> (Self, bool) {
        match self {
            Self::Struct(ty) => ty.field(name).map_or((Self::Free, false), |f| (Self::of_field(f), true)),
            Self::Values(elem) => (Self::of_elem(elem), false),
            Self::CustomRoot(schema) => match name {
                "metadata" => (Self::Struct(schema::object_meta()), true),
                "apiVersion" | "kind" => (Self::Leaf, true),
                _ => schema.map_or((Self::Free, false), |s| Self::Custom(s).member(name)),
            },
            Self::Custom(schema) => match (&schema["properties"][name], &schema["additionalProperties"]) {
                (property @ Value::Object(_), _) => (Self::Custom(property), true),
                (_, values @ Value::Object(_)) => (Self::Custom(values), false),
                _ => (Self::Free, false),
            },
            Self::Free | Self::Leaf | Self::Keyed(_) | Self::Scalars => (Self::Free, false),
        }
    }

    /// The place of a list's elements.
    pub(super) fn item(self) -> Self {
        match self {
            Self::Keyed(field) => Self::of_elem(field.elem),
            Self::Custom(schema) if list_type(schema) == Some("map") => Self::Custom(&schema["items"]),
            _ => Self::Leaf,
        }
    }

    /// True for a member that Go prints as null when it is empty, so that the place itself is never new.
    pub(super) fn always_there(self, name: &str) -> bool {
        matches!(self, Self::Struct(ty) if ty.field(name).is_some_and(|f| !f.omit_empty))
    }

    /// The path element of a list's element.
    ///
    /// # Errors
    /// It lacks its keys; the text says which.
    pub(super) fn identity(self, item: &Value) -> Result<String, String> {
        match self {
            Self::Keyed(field) => {
                let ty = field.struct_type();
                keyed(item, field.list_keys.iter().map(|k| (*k, ty.and_then(|t| key_default(t, k)))))
            }
            Self::Custom(schema) if list_type(schema) == Some("map") => {
                let keys =
                    schema["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
                let default = |key: &str| schema["items"]["properties"][key].get("default").cloned();
                keyed(item, keys.iter().filter_map(Value::as_str).map(|key| (key, default(key))))
            }
            _ => Ok(format!("v:{item}")),
        }
    }
}

fn keyed<'k>(item: &Value, keys: impl Iterator<Item = (&'k str, Option<Value>)>) -> Result<String, String> {
    let mut found = Map::new();
    let mut missing = None;
    for (key, default) in keys {
        match item.get(key).filter(|v| !v.is_null()).cloned().or(default) {
            Some(value) => drop(found.insert(key.to_owned(), value)),
            None => missing = Some(key),
        }
    }
    match missing {
        Some(key) if found.is_empty() => Err(format!(
            "associative list with keys has an element that omits key field \"{key}\" (and doesn't have default value)"
        )),
        _ => Ok(format!("k:{}", Value::Object(found))),
    }
}

/// What an absent key counts as: the protocol of ports defaults to TCP. Other keys must be stated.
fn key_default(ty: &'static Type, key: &str) -> Option<Value> {
    (key == "protocol" && matches!(ty.name, "ContainerPort" | "ServicePort")).then(|| Value::from("TCP"))
}

fn list_type(schema: &Value) -> Option<&str> {
    schema["x-kubernetes-list-type"].as_str()
}

fn custom_view(schema: &Value) -> View {
    let flag = |name: &str| schema[name] == true;
    match schema["type"].as_str() {
        Some("array") if matches!(list_type(schema), Some("map" | "set")) => View::List,
        Some("object") if schema["x-kubernetes-map-type"] != "atomic" => View::Map,
        None if flag("x-kubernetes-preserve-unknown-fields") && !flag("x-kubernetes-int-or-string") => {
            View::Map
        }
        _ => View::Leaf,
    }
}
