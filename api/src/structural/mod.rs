//! Structural schemas of custom resources, compiled once and shared: what an object of a custom kind may look like, and the walks that
//! bring an object into that form or say what is wrong with it.
//!
//! A [`Tree`] is data; the walks are methods on it: [`Tree::decode_metadata`] and [`Tree::decode_embedded`], [`Tree::prune`],
//! [`Tree::drop_nulls`] and [`Tree::fill_defaults`], and [`Tree::validate`]. [`Tree::read`] runs all but the last in the order of an
//! API server. Expressions (`x-kubernetes-validations`) are kept as text; other code compiles and evaluates them. Whether a schema is a
//! legal one is decided before, where a CustomResourceDefinition is validated: here arbitrary JSON gives some tree and never a panic.

mod check;
mod compile;
mod format;
mod node;
mod pattern;
pub mod re2;
mod rule;
mod tree;
mod walk;

pub use check::{Bound, Checks, NamedFormat};
pub use compile::CompileError;
pub use format::Format;
pub use node::{Additional, Flags, ListType, MapType, Name, Node, NodeId, ValueType};
pub use pattern::Pattern;
pub use rule::{Rule, RuleReason};
pub use tree::{Schema, Tree};
pub use walk::{MetadataError, OldItems, Origin, Part, rules_blocked};

/// Deepest nesting of schemas that [`Tree::compile`] accepts, and of objects that the walks follow. JSON parsing stops at 128 levels.
pub const DEPTH_MAX: usize = 128;

#[cfg(test)]
pub(crate) mod tests;
