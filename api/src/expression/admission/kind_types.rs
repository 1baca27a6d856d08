//! [`KindTypes`]: the types of `object`, `oldObject` and `params` where the kinds of the objects are known, for the type checks of
//! admission policies. Types come from the field table or the schema of a custom kind. Evaluation does not use them: it reads objects
//! of any kind.

use std::borrow::Cow;
use std::sync::Arc;

use kstore_cel::Type;

use crate::schema::{self, Elem, Shape};
use crate::structural::Tree;
use crate::structural::rules::names::{escape, is_reserved, unescape};
use crate::structural::rules::types::{self as custom, CelNode};

/// Where the fields of a kind are known from.
#[derive(Clone, Debug)]
pub enum KindSchema {
    /// The field table.
    BuiltIn(&'static schema::Type),
    /// The schema of a version of a custom kind.
    Custom(Arc<Tree>),
}

/// A kind with the name that its type has in errors; types of its parts continue it with a dot and a path.
#[derive(Clone, Debug)]
struct Root {
    name: Arc<str>,
    schema: KindSchema,
}

/// The kinds of the objects that expressions read; what is unknown has any type.
#[derive(Clone, Debug, Default)]
pub struct KindTypes {
    object: Option<Root>,
    params: Option<Root>,
}

impl KindTypes {
    /// `object` and `oldObject` are of this kind.
    #[must_use]
    pub fn of(kind: &str, schema: KindSchema) -> Self {
        Self { object: Some(Root { name: Arc::from(kind), schema }), params: None }
    }

    /// `params` is of this kind.
    #[must_use]
    pub fn with_params(mut self, kind: &str, schema: KindSchema) -> Self {
        let is_taken = self.object.as_ref().is_some_and(|object| &*object.name == kind);
        let name = if is_taken { format!("{kind}Params") } else { kind.to_owned() };
        self.params = Some(Root { name: Arc::from(name), schema });
        self
    }

    pub(super) fn object(&self) -> Type {
        Root::ty(self.object.as_ref())
    }

    pub(super) fn params(&self) -> Type {
        Root::ty(self.params.as_ref())
    }

    /// The type of a field of a named type.
    pub(super) fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let (root, part) = self.part(type_name)?;
        root.field(part, field)?.ty(root, &format!("{type_name}.{field}"))
    }

    /// Whether there is an object type of this name.
    pub(super) fn has_type(&self, type_name: &str) -> bool {
        self.part(type_name).is_some_and(|(root, part)| matches!(part.view(root), Some(View::Object)))
    }

    /// The part of a kind that a named type stands for.
    fn part(&self, type_name: &str) -> Option<(&Root, Part)> {
        let mut steps = type_name.split('.');
        let kind = steps.next()?;
        let root = self.object.iter().chain(&self.params).find(|root| &*root.name == kind)?;
        let part = steps.try_fold(root.whole(), |part, step| match (step, part.view(root)?) {
            (ITEM, View::List(items)) => Some(items),
            (VALUE, View::Map(values)) => Some(values),
            (field, View::Object) => root.field(part, field),
            _ => None,
        })?;
        Some((root, part))
    }
}

/// What the types of elements of lists and maps are called below those of the lists and maps.
const ITEM: &str = "@idx";
const VALUE: &str = "@elem";

/// A part of an object.
#[derive(Clone, Copy, Debug)]
enum Part {
    Struct(&'static schema::Type),
    BuiltIn(Shape, Elem),
    Custom(CelNode),
}

/// What expressions see at a part.
enum View {
    Scalar(Type),
    List(Part),
    Map(Part),
    Object,
}

impl Root {
    fn ty(root: Option<&Self>) -> Type {
        // Expressions do not see a schema without a type.
        root.and_then(|root| root.whole().ty(root, &root.name)).unwrap_or(Type::Dyn)
    }

    fn whole(&self) -> Part {
        match &self.schema {
            KindSchema::BuiltIn(ty) => Part::Struct(ty),
            KindSchema::Custom(tree) => Part::Custom(CelNode::Schema(tree.root().id())),
        }
    }

    /// A field of an object, by its name in expressions.
    fn field(&self, part: Part, name: &str) -> Option<Part> {
        let found = match (part, &self.schema) {
            (Part::Struct(ty), _) => {
                let field = ty.field(&document_name(name)?)?;
                match (field.shape, field.elem) {
                    (Shape::One, Elem::Struct(id)) => Part::Struct(id.get()),
                    (shape, elem) => Part::BuiltIn(shape, elem),
                }
            }
            (Part::Custom(place), KindSchema::Custom(tree)) => {
                match name {
                    // Whole objects have them, whatever their schemas say.
                    "apiVersion" | "kind" if is_whole(tree, place) => Part::BuiltIn(Shape::One, Elem::String),
                    "metadata" if is_whole(tree, place) => Part::Struct(schema::object_meta()),
                    _ => Part::Custom(custom::visible_field(tree, place, name)?),
                }
            }
            _ => return None,
        };
        found.view(self).map(|_| found)
    }
}

/// Whether a part of a custom object is an object of its own.
fn is_whole(tree: &Tree, place: CelNode) -> bool {
    match place {
        CelNode::Schema(id) => tree.schema(id).is_root() || tree.schema(id).flags.embedded,
        CelNode::Text | CelNode::Metadata => false,
    }
}

/// The name in documents of a field that expressions call so.
fn document_name(name: &str) -> Option<Cow<'_, str>> {
    match escape(name) {
        Some(Cow::Borrowed(_)) => Some(Cow::Borrowed(name)),
        _ if is_reserved(name) => Some(Cow::Borrowed(name)),
        _ => unescape(name).map(Cow::Owned),
    }
}

impl Part {
    /// One element of a list or map.
    fn one(elem: Elem) -> Self {
        match elem {
            Elem::Struct(id) => Self::Struct(id.get()),
            elem => Self::BuiltIn(Shape::One, elem),
        }
    }

    /// The type of the part, called `name` if it is an object; none if expressions do not see it.
    fn ty(self, root: &Root, name: &str) -> Option<Type> {
        Some(match self.view(root)? {
            View::Scalar(ty) => ty,
            View::List(items) => Type::list(items.ty(root, &format!("{name}.{ITEM}"))?),
            View::Map(values) => Type::map(Type::String, values.ty(root, &format!("{name}.{VALUE}"))?),
            View::Object => Type::object(name),
        })
    }

    /// None if expressions do not see the part.
    fn view(self, root: &Root) -> Option<View> {
        let seen = match (self, &root.schema) {
            (Self::Struct(_), _) => View::Object,
            (Self::BuiltIn(Shape::One, elem), _) => return of_elem(elem),
            (Self::BuiltIn(Shape::List, elem), _) => View::List(Self::one(elem)),
            (Self::BuiltIn(Shape::Map, elem), _) => View::Map(Self::one(elem)),
            (Self::Custom(place), KindSchema::Custom(tree)) => of_place(tree, place)?,
            (Self::Custom(_), KindSchema::BuiltIn(_)) => return None,
        };
        match &seen {
            View::List(below) | View::Map(below) => below.view(root).map(|_| seen),
            View::Scalar(_) | View::Object => Some(seen),
        }
    }
}

fn of_elem(elem: Elem) -> Option<View> {
    Some(View::Scalar(match elem {
        Elem::String => Type::String,
        Elem::Bool => Type::Bool,
        Elem::Int32 | Elem::Int64 => Type::Int,
        Elem::Float64 => Type::Double,
        Elem::Bytes => Type::Bytes,
        Elem::Time | Elem::MicroTime => Type::Timestamp,
        // A number or a text: which, is known when an expression runs.
        Elem::Quantity | Elem::IntOrString => Type::Dyn,
        Elem::Items => Type::list(Type::String),
        Elem::Struct(_) | Elem::Raw | Elem::FieldsV1 => return Some(View::Object),
        // Their schemas have no type.
        Elem::Json | Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => return None,
    }))
}

fn of_place(tree: &Tree, place: CelNode) -> Option<View> {
    Some(View::Scalar(match custom::kind(tree, place)? {
        custom::CelKind::Dyn => Type::Dyn,
        custom::CelKind::Bool => Type::Bool,
        custom::CelKind::Int => Type::Int,
        custom::CelKind::Double => Type::Double,
        custom::CelKind::String => Type::String,
        custom::CelKind::Bytes => Type::Bytes,
        custom::CelKind::Duration => Type::Duration,
        custom::CelKind::Date | custom::CelKind::DateTime => Type::Timestamp,
        custom::CelKind::List(items) => return Some(View::List(Part::Custom(items))),
        custom::CelKind::Map(values) => return Some(View::Map(Part::Custom(values))),
        custom::CelKind::Object => return Some(View::Object),
    }))
}
