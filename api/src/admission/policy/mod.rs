//! Admission policies: ValidatingAdmissionPolicy ([`validating`]) and MutatingAdmissionPolicy ([`mutating`]), evaluated for one request.
//! Expressions come from `expression::admission`; what policies need of the cluster is asked of a [`Cluster`].

mod binding;
mod checks;
pub mod mutating;
mod params;
mod request;
pub mod type_checking;
pub mod validating;

pub use checks::{CheckError, CheckObserver, Enforcement, PolicyCheck};
pub(crate) use mutating::uses as mutating_uses;
pub use params::{ParamKind, ParamScope};
pub use request::{Cluster, PolicyRequest, complete_built_in};

pub(crate) use validating::uses as validating_uses;

use crate::status::Status;

use super::review::AuditAnnotation;

/// What policies decided.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The answer to the client, if the request is refused.
    pub denial: Option<Status>,
    /// Texts for `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// Notes for the audit log.
    pub audit_annotations: Vec<AuditAnnotation>,
}
