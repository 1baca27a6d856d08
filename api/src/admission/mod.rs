//! Dynamic admission: webhooks and policies configured by objects, as pure functions. The apiserver makes
//! webhook calls, has the clock and looks objects up. Built-in admission plugins are in the apiserver too.
//!
//! Webhooks are processed in this order: [`Hooks::candidates`], [`Webhook::matches`], conversion to the
//! returned [`MatchedForm`], [`Webhook::conditions_match`], [`Webhook::check_dry_run`],
//! [`review::encode_request`], the call, [`review::read_answer`], and for mutating webhooks
//! [`review::apply_patch`]. [`Reinvocation`] says which of them run in the second round.
//!
//! Policies are evaluated by one call: [`policy::mutating::MutatingPolicies::admit`],
//! [`policy::validating::ValidatingPolicies::admit`].

mod attributes;
pub mod audit;
mod candidates;
pub mod client;
pub(crate) mod conditions;
pub mod conversion;
pub mod equivalent;
pub mod manifests;
pub mod policy;
pub mod reinvocation;
pub mod review;
mod rule;
mod selection;
#[cfg(test)]
pub(crate) mod tests;
pub mod webhook;

pub use attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation, UserInfo};
pub use reinvocation::{Plugin, Reinvocation};
pub use rule::{Operations, Rule};
pub use selection::{ClusterFacts, MatchedForm, Selection};
pub use webhook::{FailurePolicy, Hooks, Phase, Webhook};
