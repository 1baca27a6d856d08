//! Types of expressions.

use std::fmt;
use std::sync::Arc;

/// The type of an expression. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// The type of an expression with an error; displayed as `!error!`.
    Error,
    /// Any value; its type is checked during evaluation.
    Dyn,
    /// The type of `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A signed number of 64 bits.
    Int,
    /// An unsigned number of 64 bits.
    Uint,
    /// A floating-point number.
    Double,
    /// A string.
    String,
    /// A sequence of bytes.
    Bytes,
    /// A timestamp.
    Timestamp,
    /// A duration.
    Duration,
    /// A list of elements of one type.
    List(Arc<Type>),
    /// A map from keys of one type to values of another.
    Map(Arc<Type>, Arc<Type>),
    /// An object with declared fields, which the [`TypeProvider`] knows by the name of the type.
    Object(Arc<str>),
    /// A type with a name and parameters whose values only functions can read.
    Opaque(Arc<str>, Arc<[Type]>),
    /// A type parameter of a function's signature.
    Param(Arc<str>),
    /// The type of a type, such as that of the name `int`.
    Type(Option<Arc<Type>>),
    /// A type variable of the checker, by number. Types of checked expressions have none.
    #[doc(hidden)]
    Var(u32),
}

/// The name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// The type of lists of `element`.
    #[must_use]
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// The type of maps from `key` to `value`.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new(key), Arc::new(value))
    }

    /// An object type of the [`TypeProvider`].
    #[must_use]
    pub fn object(name: &str) -> Self {
        Self::Object(Arc::from(name))
    }

    /// An opaque type without parameters.
    #[must_use]
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(Arc::from(name), Arc::from([]))
    }

    /// The type of optional values of a type.
    #[must_use]
    pub fn optional(value: Type) -> Self {
        Self::Opaque(Arc::from(OPTIONAL), Arc::from([value]))
    }

    /// A type parameter of a signature, such as `T`.
    #[must_use]
    pub fn param(name: &str) -> Self {
        Self::Param(Arc::from(name))
    }

    /// The type of the name of a type.
    #[must_use]
    pub fn type_of(value: Type) -> Self {
        Self::Type(Some(Arc::new(value)))
    }

    /// The value type of an optional type; none for other types.
    pub(crate) fn unwrapped(&self) -> Option<&Type> {
        match self {
            Self::Opaque(name, parameters) if &**name == OPTIONAL => parameters.first(),
            _ => None,
        }
    }

    /// Whether the type has at most this many parts, itself included. Stops counting at the limit.
    pub(crate) fn has_at_most(&self, parts: usize) -> bool {
        self.count_parts(parts).is_some()
    }

    /// The rest of a budget of parts after this type; none if the type has more parts.
    fn count_parts(&self, left: usize) -> Option<usize> {
        let left = left.checked_sub(1)?;
        match self {
            Self::List(element) => element.count_parts(left),
            Self::Map(key, value) => key.count_parts(left).and_then(|left| value.count_parts(left)),
            Self::Opaque(_, parameters) => {
                parameters.iter().try_fold(left, |left, parameter| parameter.count_parts(left))
            }
            Self::Type(Some(inner)) => inner.count_parts(left),
            _ => Some(left),
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }

    /// The name that `type()` gives for a value of this type.
    pub(crate) fn runtime_name(&self) -> &str {
        match self {
            Self::Error => "error",
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(..) => "map",
            Self::Object(name) | Self::Opaque(name, _) | Self::Param(name) => name,
            Self::Type(_) => "type",
            Self::Var(_) => "dyn",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(element) => write!(f, "list({element})"),
            Self::Map(key, value) => write!(f, "map({key}, {value})"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Var(number) => write!(f, "_var{number}"),
            Self::Opaque(name, parameters) if !parameters.is_empty() => {
                write!(f, "{name}(")?;
                write_list(f, parameters)?;
                f.write_str(")")
            }
            other => f.write_str(other.runtime_name()),
        }
    }
}

/// Writes types, separated by commas.
pub(crate) fn write_list(f: &mut impl fmt::Write, types: &[Type]) -> fmt::Result {
    for (index, one) in types.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{one}")?;
    }
    Ok(())
}

/// Provides the object types of an environment.
///
/// Names of fields are those that expressions use. Documents may have other names, or names that are no identifiers: the provider
/// and the [`Shape`](crate::Shape) of its values then translate between the two.
pub trait TypeProvider: Send + Sync {
    /// The type of a field; none if the type has no such field.
    fn field(&self, type_name: &str, field: &str) -> Option<Type>;

    /// Whether the provider has an object type of this name.
    fn has_type(&self, type_name: &str) -> bool;

    /// Whether expressions may make values of the type with `Name{field: value}`. The default is no.
    fn is_constructible(&self, type_name: &str) -> bool {
        let _ = type_name;
        false
    }
}

/// A [`TypeProvider`] without types.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTypes;

impl TypeProvider for NoTypes {
    fn field(&self, _type_name: &str, _field: &str) -> Option<Type> {
        None
    }

    fn has_type(&self, _type_name: &str) -> bool {
        false
    }
}
