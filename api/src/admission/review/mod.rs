//! `AdmissionReview` of `admission.k8s.io`: the request that a webhook gets, and what its answer means. Which webhooks are called is in
//! `webhook`; the call itself is the apiserver's.

mod answer;
pub(super) mod codec;
mod error;
pub(super) mod go_json;
mod patch;
mod request;
pub mod transport;

pub use answer::{Answer, AuditAnnotation, read_answer};
pub use error::CallError;
pub use patch::{Patch, apply_patch, decode_patched};
pub use request::encode_request;
pub(super) use request::request_value;

/// Versions of `AdmissionReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, whose answers are checked less.
    V1Beta1,
}

impl ReviewVersion {
    /// The version of this name; `None` if it is not known.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}
