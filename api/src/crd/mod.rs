//! CustomResourceDefinitions: all pure functions of definitions and of the kinds they define. [`Definition`]
//! is a compiled definition; other modules take the JSON or a compiled one. Schemas (pruning, defaults,
//! validation) and the evaluation of CEL rules are in `structural`; storage and HTTP are in the apiserver.

mod approval;
pub mod columns;
mod compile;
mod condition;
pub mod convert;
pub mod definition;
pub mod deletion;
pub mod discovery;
mod go;
mod jsonpath;
pub mod names;
pub mod rules;
pub mod scale;
mod schema;
pub mod selectable;
pub mod strategy;
pub mod validate;

pub use definition::{CompileError, Conversion, Definition, Names, Version};

#[cfg(test)]
mod tests;

/// API group of CustomResourceDefinitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// Kind of CustomResourceDefinitions.
pub const KIND: &str = "CustomResourceDefinition";
/// Finalizer that keeps a deleted definition until its objects are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
