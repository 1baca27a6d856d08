//! Structural schemas of custom resources, compiled once and shared, with walks that normalize objects and
//! report their errors.
//!
//! A [`Tree`] is data; the walks are its methods: [`Tree::decode_metadata`] and [`Tree::decode_embedded`],
//! [`Tree::prune`], [`Tree::drop_nulls`] and [`Tree::fill_defaults`], and [`Tree::validate`]. [`Tree::read`]
//! runs all except the last, in the order of an API server. CEL rules (`x-kubernetes-validations`) are
//! compiled when the first object needs them: [`Tree::validate_rules`]. Validation of
//! CustomResourceDefinitions decides whether a schema is valid; here arbitrary JSON compiles to some tree
//! without a panic.

mod check;
mod compile;
pub(crate) mod field_path;
mod former;
mod node;
mod pattern;
pub mod re2;
mod rule;
pub(crate) mod rules;
mod tree;
mod walk;

pub use check::{Bound, Checks, NamedFormat};
pub use compile::CompileError;
pub use former::accept_unknown_formats;
pub use node::{Additional, Flags, ListType, MapType, Name, Node, NodeId, ValueType};
pub use pattern::Pattern;
pub use rule::{Rule, RuleReason};
pub use rules::{RuleBudget, RuleReport};
pub use tree::{Schema, Tree};
pub use walk::{MetadataError, OldItems, Origin, ValidationScope, rules_blocked};

/// Deepest nesting of schemas that [`Tree::compile`] accepts, and of objects that the walks visit. JSON
/// parsing stops at 128 levels.
pub const DEPTH_MAX: usize = 128;

#[cfg(test)]
pub(crate) mod tests;
