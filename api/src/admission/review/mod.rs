//! `AdmissionReview` of `admission.k8s.io`: encoding of requests for webhooks and decoding of their
//! responses. Module `webhook` decides which webhooks are called; the apiserver makes the calls.

mod answer;
pub(super) mod codec;
mod error;
mod patch;
mod request;
pub mod transport;

pub use answer::{AuditAnnotation, DecodedResponse, read_answer};
pub use error::CallError;
pub use patch::{Patch, apply_patch, decode_patched};
pub use request::encode_request;
pub(super) use request::request_value;

/// Version of `AdmissionReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `admission.k8s.io/v1`.
    V1,
    /// `admission.k8s.io/v1beta1`, with fewer checks of responses.
    V1Beta1,
}

impl ReviewVersion {
    /// Parses the name of a version; `None` if it is unknown.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Name of the version.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}
