//! CustomResourceDefinitions: everything about them, and about the kinds they define, that is a pure function of the objects.
//! [`Definition`] is one compiled definition; the other modules take the JSON of definitions or a compiled one. Schemas as such
//! (pruning, defaults, values) belong to `structural`, the evaluation of CEL rules to another crate, storage and HTTP to the apiserver.

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
pub mod openapi;
pub mod priority;
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
/// Finalizer that keeps a deleted definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
