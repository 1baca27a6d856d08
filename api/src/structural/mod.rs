//! Structural schemas of custom resources, compiled once and shared: what an object of a custom kind may look like, and the walks that
//! bring an object into that form or say what is wrong with it.
//!
//! A [`Tree`] is data; the walks are methods on it: [`Tree::decode_metadata`] and [`Tree::decode_embedded`], [`Tree::prune`],
//! [`Tree::drop_nulls`] and [`Tree::fill_defaults`], and [`Tree::validate`]. [`Tree::read`] runs all but the last in the order of an
//! API server. Rules (`x-kubernetes-validations`) are compiled when an object first meets them: [`Tree::validate_rules`]. Whether a
//! schema is a legal one is decided before, where a CustomResourceDefinition is validated: here arbitrary JSON gives some tree and
//! never a panic.

mod check;
mod compile;
pub(crate) mod field_path;
mod format;
mod node;
mod pattern;
pub mod re2;
mod rule;
pub(crate) mod rules;
mod tree;
mod walk;

pub use check::{Bound, Checks, NamedFormat};
pub use compile::CompileError;
pub use format::Format;
pub use node::{Additional, Flags, ListType, MapType, Name, Node, NodeId, ValueType};
pub use pattern::Pattern;
pub use rule::{Rule, RuleReason};
pub use rules::{RuleBudget, RuleReport};
pub use tree::{Schema, Tree};
pub use walk::{MetadataError, OldItems, Origin, Part, rules_blocked};

/// Deepest nesting of schemas that [`Tree::compile`] accepts, and of objects that the walks follow. JSON parsing stops at 128 levels.
pub const DEPTH_MAX: usize = 128;

#[cfg(test)]
pub(crate) mod tests;
