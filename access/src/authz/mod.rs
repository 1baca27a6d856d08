//! Authorization: decides about the [`Attributes`] of a request with a [`Decision`]. One mode per file.
//! Authentication is in `authn`.

pub mod abac;
pub mod authorization_file;
pub mod authorizer;
pub mod bootstrap;
#[cfg(test)]
mod changed_modes;
pub mod coverage;
#[cfg(test)]
mod decisions;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod node;
pub mod policy;
pub mod rbac;
mod requested;
mod review_version;
pub mod rule;
#[cfg(test)]
mod staged_tests;
#[cfg(test)]
mod tests;
pub mod webhook;

pub use authorizer::{Authorizer, AuthorizerImage, Mode, ModeList, Modes, WebhookNeeded, forbidden};
use kstore_api::selector::{field, label};
use kstore_registry::user::UserInfo;
pub use requested::{RequestedAttributes, resource_verb};
pub use review_version::ReviewVersion;
pub(crate) use webhook::review::Question;

/// The attributes of a request that authorization decides by. Empty strings mean "none" (core group, no
/// subresource, cluster scope, …).
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The caller.
    pub user: &'a UserInfo,
    /// The API verb (`get`, `list`, …), or the lower-case HTTP method for a path.
    pub verb: &'a str,
    /// The resource or path of the request.
    pub target: Target<'a>,
    /// Details that only some modes use.
    pub more: More<'a>,
}

/// Details of a request that only some authorization modes use.
#[derive(Clone, Copy, Debug, Default)]
pub struct More<'a> {
    /// The API version; empty if unknown.
    pub version: &'a str,
    /// The selectors of a list, a watch or a deletecollection.
    pub selects: Option<Selects<'a>>,
}

/// The selectors of a request.
#[derive(Clone, Copy, Debug)]
pub struct Selects<'a> {
    /// The field selector.
    pub fields: &'a field::Selector,
    /// The label selector.
    pub labels: &'a label::Selector,
}

/// The target of a request: a resource or a plain path.
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

/// The decision of a mode. A request that no mode allows is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed; the reason names the rule.
    Allow(String),
    /// The mode does not allow the request, and others may; the reason may be empty.
    NoOpinion(String),
    /// The request is forbidden, even if a later mode would allow it.
    Deny(String),
}
