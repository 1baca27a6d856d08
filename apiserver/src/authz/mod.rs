//! What a caller may do: [`Attributes`] of a request to a [`Decision`]. One mode per file. Not who they are: that is
//! `authn`.

pub mod abac;
pub mod authorizer;
pub mod bootstrap;
pub mod coverage;
pub(crate) mod node;
pub mod policy;
pub mod rbac;
pub mod rule;
#[cfg(test)]
mod tests;
pub mod webhook;

pub(crate) use authorizer::AuthorizerImage;
pub(crate) use authorizer::NotNow;
pub use authorizer::{Authorizer, Mode, Modes, forbidden};
pub(crate) use webhook::review::Question;

use crate::authn::UserInfo;
use kstore_api::selector::{field, label};

/// What authorization sees of a request. Empty strings mean "none" (core group, no subresource, cluster scope, …).
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The caller.
    pub user: &'a UserInfo,
    /// The API verb (`get`, `list`, …), or the lower-case HTTP method for a path.
    pub verb: &'a str,
    /// What it is about.
    pub target: Target<'a>,
    /// What only some modes look at.
    pub more: More<'a>,
}

/// What only some modes look at.
#[derive(Clone, Copy, Debug, Default)]
pub struct More<'a> {
    /// The API version; empty where it is not known.
    pub version: &'a str,
    /// Which objects a list, a watch or the deletion of a collection selects.
    pub selects: Option<Selects<'a>>,
}

/// The selectors of a request.
#[derive(Clone, Copy, Debug)]
pub struct Selects<'a> {
    /// By fields.
    pub fields: &'a field::Selector,
    /// By labels.
    pub labels: &'a label::Selector,
}

/// A resource or a plain path.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// A resource request.
    Resource {
        /// API group.
        group: &'a str,
        /// Plural resource name.
        resource: &'a str,
        /// Subresource.
        subresource: &'a str,
        /// Namespace.
        namespace: &'a str,
        /// Object name.
        name: &'a str,
    },
    /// A path outside the resource API, such as `/version`.
    Path(&'a str),
}

/// The verdict. What nothing allows is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on; the reason names the rule.
    Allow(String),
    /// Nothing allows it; the reason may be empty.
    NoOpinion(String),
    /// It is forbidden, whatever the modes behind say.
    Deny(String),
}
