//! [`KindTypes`]: types of `object`, `oldObject` and `params` for kinds that are known, for type checking of
//! admission policies. The types come from the field table or from the schema of a custom kind. Evaluation
//! does not use them, since it reads objects of any kind.

use crate::schema::{self, Elem, Shape};
use crate::structural::Tree;
use crate::structural::rules::names::{escape, is_reserved, unescape};
use crate::structural::rules::types::{self as custom, CelNode};
use kstore_cel::Type;
use std::borrow::Cow;
use std::sync::Arc;

/// Source of a kind's fields.
#[derive(Clone, Debug)]
pub enum KindSchema {
    /// The field table.
    BuiltIn(&'static schema::Type),
    /// The schema of a version of a custom kind.
    Custom(Arc<Tree>),
}

/// A kind with the name of its type in errors. Names of nested types add a dot and a path.
#[derive(Clone, Debug)]
struct NamedKind {
    name: Arc<str>,
    schema: KindSchema,
}

/// Kinds of the objects that expressions read; unknown kinds have the dynamic type.
#[derive(Clone, Debug, Default)]
pub struct KindTypes {
    object: Option<NamedKind>,
    params: Option<NamedKind>,
}

impl KindTypes {
    /// Types for `object` and `oldObject` of this kind.
    #[must_use]
    pub fn of(kind: &str, schema: KindSchema) -> Self {
        Self { object: Some(NamedKind { name: Arc::from(kind), schema }), params: None }
    }

    /// Adds the type of `params`.
    #[must_use]
    pub fn with_params(mut self, kind: &str, schema: KindSchema) -> Self {
        let is_taken = self.object.as_ref().is_some_and(|object| &*object.name == kind);
        let name = if is_taken { format!("{kind}Params") } else { kind.to_owned() };
        self.params = Some(NamedKind { name: Arc::from(name), schema });
        self
    }

    pub(super) fn object(&self) -> Type {
        NamedKind::ty(self.object.as_ref())
    }

    pub(super) fn params(&self) -> Type {
        NamedKind::ty(self.params.as_ref())
    }

    /// Type of a field of a named type.
    pub(super) fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let (root, part) = self.part(type_name)?;
        root.field(part, field)?.ty(root, &format!("{type_name}.{field}"))
    }

    /// Whether an object type has this name.
    pub(super) fn has_type(&self, type_name: &str) -> bool {
        self.part(type_name)
            .is_some_and(|(root, part)| matches!(part.view(root), Some(ExpressionView::Object)))
    }

    /// The part of a kind that a named type describes.
    fn part(&self, type_name: &str) -> Option<(&NamedKind, KindPart)> {
        let mut steps = type_name.split('.');
        let kind = steps.next()?;
        let root = self.object.iter().chain(&self.params).find(|root| &*root.name == kind)?;
        let part = steps.try_fold(root.whole(), |part, step| match (step, part.view(root)?) {
            (ITEM, ExpressionView::List(items)) => Some(items),
            (VALUE, ExpressionView::Map(values)) => Some(values),
            (field, ExpressionView::Object) => root.field(part, field),
            _ => None,
        })?;
        Some((root, part))
    }
}

/// Names of element types of lists and maps, below the names of their lists and maps.
const ITEM: &str = "@idx";
const VALUE: &str = "@elem";

/// Part of a kind that has its own type.
#[derive(Clone, Copy, Debug)]
enum KindPart {
    Struct(&'static schema::Type),
    BuiltIn(Shape, Elem),
    Custom(CelNode),
}

/// The form in which expressions see a part.
enum ExpressionView {
    Scalar(Type),
    List(KindPart),
    Map(KindPart),
    Object,
}

impl NamedKind {
    fn ty(root: Option<&Self>) -> Type {
        // Expressions do not see a schema without a type.
        root.and_then(|root| root.whole().ty(root, &root.name)).unwrap_or(Type::Dyn)
    }

    fn whole(&self) -> KindPart {
        match &self.schema {
            KindSchema::BuiltIn(ty) => KindPart::Struct(ty),
            KindSchema::Custom(tree) => KindPart::Custom(CelNode::Schema(tree.root().id())),
        }
    }

    /// Field of an object, by its name in expressions.
    fn field(&self, part: KindPart, name: &str) -> Option<KindPart> {
        let found = match (part, &self.schema) {
            (KindPart::Struct(ty), _) => {
                let field = ty.field(&document_name(name)?)?;
                match (field.shape, field.elem) {
                    (Shape::One, Elem::Struct(id)) => KindPart::Struct(id.get()),
                    (shape, elem) => KindPart::BuiltIn(shape, elem),
                }
            }
            (KindPart::Custom(node), KindSchema::Custom(tree)) => {
                match name {
                    // Every object has these fields, even if its schema does not declare them.
                    "apiVersion" | "kind" if is_whole(tree, node) => {
                        KindPart::BuiltIn(Shape::One, Elem::String)
                    }
                    "metadata" if is_whole(tree, node) => KindPart::Struct(schema::object_meta()),
                    _ => KindPart::Custom(custom::visible_field(tree, node, name)?),
                }
            }
            _ => return None,
        };
        found.view(self).map(|_| found)
    }
}

/// Whether a part of a custom object is a whole object: the root or an embedded resource.
fn is_whole(tree: &Tree, node: CelNode) -> bool {
    match node {
        CelNode::Schema(id) => tree.schema(id).is_root() || tree.schema(id).flags.embedded,
        CelNode::Text | CelNode::Metadata => false,
    }
}

/// Member name of a field with this name in expressions.
fn document_name(name: &str) -> Option<Cow<'_, str>> {
    match escape(name) {
        Some(Cow::Borrowed(_)) => Some(Cow::Borrowed(name)),
        _ if is_reserved(name) => Some(Cow::Borrowed(name)),
        _ => unescape(name).map(Cow::Owned),
    }
}

impl KindPart {
    /// The element type of a list or map.
    fn one(elem: Elem) -> Self {
        match elem {
            Elem::Struct(id) => Self::Struct(id.get()),
            elem => Self::BuiltIn(Shape::One, elem),
        }
    }

    /// CEL type of the part; objects are called `name`. `None` if expressions do not see the part.
    fn ty(self, root: &NamedKind, name: &str) -> Option<Type> {
        Some(match self.view(root)? {
            ExpressionView::Scalar(ty) => ty,
            ExpressionView::List(items) => Type::list(items.ty(root, &format!("{name}.{ITEM}"))?),
            ExpressionView::Map(values) => {
                Type::map(Type::String, values.ty(root, &format!("{name}.{VALUE}"))?)
            }
            ExpressionView::Object => Type::object(name),
        })
    }

    /// How expressions see the part; `None` if they do not.
    fn view(self, root: &NamedKind) -> Option<ExpressionView> {
        let seen = match (self, &root.schema) {
            (Self::Struct(_), _) => ExpressionView::Object,
            (Self::BuiltIn(Shape::One, elem), _) => return of_elem(elem),
            (Self::BuiltIn(Shape::List, elem), _) => ExpressionView::List(Self::one(elem)),
            (Self::BuiltIn(Shape::Map, elem), _) => ExpressionView::Map(Self::one(elem)),
            (Self::Custom(node), KindSchema::Custom(tree)) => of_node(tree, node)?,
            (Self::Custom(_), KindSchema::BuiltIn(_)) => return None,
        };
        match &seen {
            ExpressionView::List(below) | ExpressionView::Map(below) => below.view(root).map(|_| seen),
            ExpressionView::Scalar(_) | ExpressionView::Object => Some(seen),
        }
    }
}

fn of_elem(elem: Elem) -> Option<ExpressionView> {
    Some(ExpressionView::Scalar(match elem {
        Elem::String => Type::String,
        Elem::Bool => Type::Bool,
        Elem::Int32 | Elem::Int64 => Type::Int,
        Elem::Float64 => Type::Double,
        Elem::Bytes => Type::Bytes,
        Elem::Time | Elem::MicroTime => Type::Timestamp,
        // A number or a text, known only at evaluation.
        Elem::Quantity | Elem::IntOrString => Type::Dyn,
        Elem::Items => Type::list(Type::String),
        Elem::Struct(_) | Elem::Raw | Elem::FieldsV1 => return Some(ExpressionView::Object),
        // Their schemas have no type.
        Elem::Json | Elem::SchemaOrList | Elem::SchemaOrBool | Elem::SchemaOrStrings => return None,
    }))
}

fn of_node(tree: &Tree, node: CelNode) -> Option<ExpressionView> {
    Some(ExpressionView::Scalar(match custom::kind(tree, node)? {
        custom::CelKind::Dyn => Type::Dyn,
        custom::CelKind::Bool => Type::Bool,
        custom::CelKind::Int => Type::Int,
        custom::CelKind::Double => Type::Double,
        custom::CelKind::String => Type::String,
        custom::CelKind::Bytes => Type::Bytes,
        custom::CelKind::Duration => Type::Duration,
        custom::CelKind::Date | custom::CelKind::DateTime => Type::Timestamp,
        custom::CelKind::List(items) => return Some(ExpressionView::List(KindPart::Custom(items))),
        custom::CelKind::Map(values) => return Some(ExpressionView::Map(KindPart::Custom(values))),
        custom::CelKind::Object => return Some(ExpressionView::Object),
    }))
}
