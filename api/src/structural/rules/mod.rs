//! Validation rules of a schema (`x-kubernetes-validations`): CEL expressions that values must satisfy.
//!
//! A schema gives expressions the types ([`types`]), the shapes ([`shapes`]) and the largest sizes ([`sizes`]) of values. [`compile`]
//! makes programs of rules, [`evaluate`] runs them on objects. The module `crd` decides whether a definition with rules may be stored.

mod compile;
mod evaluate;
pub(crate) mod names;
mod shapes;
mod sizes;
pub(crate) mod types;

pub(super) use compile::CompiledRules;
pub(crate) use compile::{CompiledRule, compile_node};
pub use evaluate::{RuleBudget, RuleReport};
pub(crate) use sizes::min_size;

#[cfg(test)]
mod tests;
