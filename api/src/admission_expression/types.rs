//! Object types of admission: the request, the namespace, declared variables, and values of mutations.

use super::kind_types::KindTypes;
use kstore_cel::{FieldShape, ListKind, ObjectShape, Shape, Type, TypeProvider};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The type of `variables`.
pub(super) const VARIABLES_TYPE: &str = "kubernetes.variables";
/// Type name of objects made by mutations; names of nested types add a dot and a path.
pub(super) const OBJECT_TYPE: &str = "Object";
/// Type name of one operation of a JSON patch.
pub(super) const PATCH_TYPE: &str = "JSONPatch";

/// Type provider of one environment.
pub(super) struct Types {
    pub(super) variables: BTreeMap<Arc<str>, Type>,
    pub(super) patch_types: bool,
    pub(super) kinds: KindTypes,
}

impl Types {
    fn is_object_type(&self, name: &str) -> bool {
        let rest = name.strip_prefix(OBJECT_TYPE);
        self.patch_types && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn is_patch_type(&self, name: &str) -> bool {
        self.patch_types && name == PATCH_TYPE
    }
}

impl TypeProvider for Types {
    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        if type_name == VARIABLES_TYPE {
            return self.variables.get(field).cloned();
        }
        if self.is_object_type(type_name) {
            return Some(Type::Dyn);
        }
        if self.is_patch_type(type_name) {
            return Some(match field {
                "op" | "path" | "from" => Type::String,
                "value" => Type::Dyn,
                // Kubernetes returns a field without a type here, and its error shows that.
                _ => Type::object(""),
            });
        }
        match SHAPES.get(type_name) {
            Some(shape) => shape.field(field).map(|field| field.shape.ty()),
            None => self.kinds.field(type_name, field),
        }
    }

    fn has_type(&self, type_name: &str) -> bool {
        type_name == VARIABLES_TYPE
            || self.is_constructible(type_name)
            || SHAPES.contains_key(type_name)
            || self.kinds.has_type(type_name)
    }

    fn is_constructible(&self, type_name: &str) -> bool {
        self.is_object_type(type_name) || self.is_patch_type(type_name)
    }
}

/// The shape of `request`.
pub(super) fn request() -> &'static Shape {
    &REQUEST
}

/// The shape of `namespaceObject`.
pub(super) fn namespace() -> &'static Shape {
    &NAMESPACE
}

static REQUEST: LazyLock<Shape> = LazyLock::new(|| {
    let kind = object(
        "kubernetes.GroupVersionKind",
        &[("group", Shape::String), ("version", Shape::String), ("kind", Shape::String)],
    );
    let resource = object(
        "kubernetes.GroupVersionResource",
        &[("group", Shape::String), ("version", Shape::String), ("resource", Shape::String)],
    );
    let user = object(
        "kubernetes.UserInfo",
        &[
            ("username", Shape::String),
            ("uid", Shape::String),
            ("groups", list(Shape::String)),
            ("extra", Shape::Map(Arc::new(list(Shape::String)))),
        ],
    );
    object(
        "kubernetes.AdmissionRequest",
        &[
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", Shape::String),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", Shape::String),
            ("name", Shape::String),
            ("namespace", Shape::String),
            ("operation", Shape::String),
            ("userInfo", user),
            ("dryRun", Shape::Bool),
            ("options", Shape::Dyn),
        ],
    )
});

static NAMESPACE: LazyLock<Shape> = LazyLock::new(|| {
    let texts = || Shape::Map(Arc::new(Shape::String));
    let condition = object(
        "kubernetes.NamespaceCondition",
        &[
            ("status", Shape::String),
            ("type", Shape::String),
            ("lastTransitionTime", Shape::Timestamp),
            ("message", Shape::String),
            ("reason", Shape::String),
        ],
    );
    let metadata = object(
        "kubernetes.NamespaceMetadata",
        &[
            ("name", Shape::String),
            ("generateName", Shape::String),
            ("namespace", Shape::String),
            ("labels", texts()),
            ("annotations", texts()),
            ("UID", Shape::String),
            ("creationTimestamp", Shape::Timestamp),
            ("deletionGracePeriodSeconds", Shape::Int),
            ("deletionTimestamp", Shape::Timestamp),
            ("generation", Shape::Int),
            ("resourceVersion", Shape::String),
            ("finalizers", list(Shape::String)),
        ],
    );
    let spec = object("kubernetes.NamespaceSpec", &[("finalizers", list(Shape::String))]);
    let status =
        object("kubernetes.NamespaceStatus", &[("conditions", list(condition)), ("phase", Shape::String)]);
    object("kubernetes.Namespace", &[("metadata", metadata), ("spec", spec), ("status", status)])
});

/// Shapes of all objects in a request and a namespace, by name.
static SHAPES: LazyLock<BTreeMap<Arc<str>, Arc<ObjectShape>>> = LazyLock::new(|| {
    let mut shapes = BTreeMap::new();
    let mut open = vec![request().clone(), namespace().clone()];
    while let Some(shape) = open.pop() {
        match shape {
            Shape::Object(object) => {
                open.extend(object.fields().map(|(_, field)| field.shape.clone()));
                shapes.insert(Arc::from(object.name()), object);
            }
            Shape::List(items, _) => open.push(Shape::clone(&items)),
            Shape::Map(values) => open.push(Shape::clone(&values)),
            _ => {}
        }
    }
    shapes
});

fn object(name: &str, fields: &[(&str, Shape)]) -> Shape {
    let field = |(name, shape): &(&str, Shape)| {
        (Box::from(*name), FieldShape { key: Box::from(*name), shape: shape.clone() })
    };
    Shape::Object(Arc::new(ObjectShape::new(name, fields.iter().map(field))))
}

fn list(items: Shape) -> Shape {
    Shape::List(Arc::new(items), ListKind::Ordered)
}
