//! Admission policies: evaluation of ValidatingAdmissionPolicy ([`validating`]) and MutatingAdmissionPolicy
//! ([`mutating`]) for one request. Expressions are in `admission_expression`; facts about the cluster come
//! from a [`Cluster`].

mod binding;
mod checks;
pub mod mutating;
mod params;
mod request;
pub mod type_checking;
pub mod validating;

use super::review::AuditAnnotation;
use crate::status::Status;
pub use checks::{CheckError, CheckObserver, Enforcement, PolicyCheck};
pub use params::{ParamKind, ParamScope};
pub use request::{Cluster, PolicyRequest, complete_built_in};

/// Result of policies for a request.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Refusal for the client, if a policy refused the request.
    pub denial: Option<Status>,
    /// Texts of `Warning` headers, in order.
    pub warnings: Vec<String>,
    /// Audit annotations.
    pub audit_annotations: Vec<AuditAnnotation>,
}
