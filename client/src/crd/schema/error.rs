//! [`SchemaError`]: the reason why a Rust type has no structural schema, with the field.

use std::fmt;

/// The reason why a Rust type has no structural schema. The fix is in the type, or in a schema for the field
/// alone (`#[schemars(schema_with = "…")]`, `#[schemars(with = "serde_json::Value")]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaError {
    /// Field names, innermost first: each caller appends its field.
    path: Vec<String>,
    problem: SchemaProblem,
}

/// A property of a type that a structural schema cannot express.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// A recursive type.
    #[error(
        "the type {0} contains itself, and a structural schema cannot: bound the depth with a type per level, or take \
         `#[schemars(with = \"serde_json::Value\")]` on the field that recurses"
    )]
    Recursive(String),
    /// Values of two types.
    #[error(
        "values are of type {0} or {1}, and a structural schema has one type: give every variant of an enum braces \
         (`Variant {{}}`), or take `serde_json::Value`"
    )]
    Types(&'static str, &'static str),
    /// More than one type in `type`.
    #[error("values are of the types {0}, and a structural schema has one type: take `serde_json::Value`")]
    TypeList(String),
    /// A tuple with items of several types.
    #[error(
        "items of a tuple differ, and a structural schema has one for all items: take a struct with named fields"
    )]
    Tuple,
    /// No valid value exists.
    #[error("no value is valid here but null: remove the field, or give it a type with values")]
    Never,
    /// A keyword of JSON Schema without counterpart.
    #[error("the keyword {0} of JSON Schema has no counterpart in structural schemas: remove it")]
    Keyword(String),
    /// A reference without target.
    #[error("the reference {0} leads to no definition of the same schema")]
    Reference(String),
    /// Checks without a type.
    #[error("values are checked ({0}), but have no type: add `\"type\"` to the schema")]
    NoType(String),
    /// Two conflicting values.
    #[error("{0} is given twice with different values: keep one of them")]
    Conflict(String),
    /// A schema that Kubernetes cannot read.
    #[error("the schema is not one that Kubernetes can read: {0}")]
    Malformed(String),
}

impl SchemaError {
    /// The path of the field, such as `spec.template.ports`; `[]` stands for the items of a list, `{}` for
    /// the values of a map. Empty for the type itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for name in self.path.iter().rev() {
            if !path.is_empty() && !name.starts_with(['[', '{']) {
                path.push('.');
            }
            path.push_str(name);
        }
        path
    }

    /// The problem.
    pub fn problem(&self) -> &SchemaProblem {
        &self.problem
    }

    /// The same error, with the path prefixed by the field `name`.
    #[must_use]
    pub fn of_field(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }
}

impl From<SchemaProblem> for SchemaError {
    fn from(problem: SchemaProblem) -> Self {
        Self { path: Vec::new(), problem }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return self.problem.fmt(f);
        }
        write!(f, "{}: {}", self.path(), self.problem)
    }
}

impl std::error::Error for SchemaError {}
