//! The rules of a schema (`x-kubernetes-validations`): the types that expressions see ([`types`]), the values ([`shapes`]) and their
//! largest sizes ([`sizes`]), compiled rules ([`compile`]) and their evaluation on objects ([`evaluate`]). Whether a definition with
//! rules may be stored is `crd`'s.

mod compile;
mod evaluate;
pub(crate) mod names;
mod shapes;
mod sizes;
pub(crate) mod types;

pub(crate) use compile::{Compiled, compile_node};
pub use evaluate::{RuleBudget, RuleReport};
pub(crate) use sizes::min_size;

pub(super) use compile::CompiledRules;

#[cfg(test)]
mod tests;
