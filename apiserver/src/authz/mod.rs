//! What a caller may do: [`Attributes`] of a request to a [`Decision`]. One mode per file. Not who they are: that is
//! `authn`.

pub mod authorizer;
pub mod bootstrap;
pub mod coverage;
pub mod policy;
pub mod rbac;
pub mod rule;
#[cfg(test)]
mod tests;

pub(crate) use authorizer::AuthorizerImage;
pub use authorizer::{Authorizer, Mode, forbidden};

use crate::authn::UserInfo;

/// What authorization sees of a request. Empty strings mean "none" (core group, no subresource, cluster scope, …).
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The caller.
    pub user: &'a UserInfo,
    /// The API verb (`get`, `list`, …), or the lower-case HTTP method for a path.
    pub verb: &'a str,
    /// What it is about.
    pub target: Target<'a>,
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

/// The verdict. There is no explicit deny yet: what nothing allows is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on; the reason names the rule.
    Allow(String),
    /// Nothing allows it; the reason may be empty.
    NoOpinion(String),
}
