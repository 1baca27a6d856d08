//! Dynamic admission: what webhooks and policies that are configured by objects decide about a request, as pure functions. Calls of
//! webhooks, time and look-ups belong to the apiserver; so do the plugins that are part of the server.
//!
//! For webhooks the order is: [`Hooks::candidates`], [`Webhook::matches`], conversion to the [`MatchedForm`] it returns,
//! [`Webhook::conditions_match`], [`Webhook::check_dry_run`], [`review::encode_request`], the call, [`review::read_answer`], and for mutating hooks
//! [`review::apply_patch`]; [`Reinvocation`] says which of them run in the second round.
//!
//! Policies are asked as a whole: [`policy::mutating::MutatingPolicies::admit`], [`policy::validating::ValidatingPolicies::admit`].

mod attributes;
pub mod audit;
mod candidates;
pub mod client;
pub(crate) mod conditions;
pub mod conversion;
pub mod equivalent;
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
