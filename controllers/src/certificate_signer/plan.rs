//! Decision about a CertificateSigningRequest: ignore it, refuse it, or issue a certificate, and for how long. Pure.

use super::signers::signs;
use crate::certificate_request::CertificateRequest;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The shortest life that a request can ask for.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

/// The signer's decision about a CertificateSigningRequest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is not approved, was answered, or is another signer's.
    Nothing,
    /// It gets the condition `Failed` with this message.
    Fail(String),
    /// It gets a certificate.
    Sign,
}

/// Judges a request.
pub(crate) fn decide(csr: &CertificateSigningRequest, parsed: &CertificateRequest) -> Decision {
    let usages = csr.spec.usages.clone().unwrap_or_default();
    if !has_condition(csr, "Approved") || has_condition(csr, "Denied") || has_condition(csr, "Failed") {
        return Decision::Nothing;
    }
    let certificate = csr.status.as_ref().and_then(|status| status.certificate.as_ref());
    if certificate.is_some_and(|certificate| !certificate.0.is_empty()) {
        return Decision::Nothing;
    }
    match signs(&csr.spec.signer_name, parsed, &usages) {
        Ok(true) => Decision::Sign,
        Ok(false) => Decision::Nothing,
        Err(why) => Decision::Fail(why),
    }
}

fn has_condition(csr: &CertificateSigningRequest, type_: &str) -> bool {
    let conditions = csr.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Validity of a certificate: the requested one, at least ten minutes, at most `longest`.
pub(crate) fn lifetime(csr: &CertificateSigningRequest, longest: SignedDuration) -> SignedDuration {
    match csr.spec.expiration_seconds {
        None => longest,
        Some(seconds) => SignedDuration::from_secs(i64::from(seconds)).max(SHORTEST).min(longest),
    }
}

/// The request with the condition `Failed`.
pub(crate) fn failed(
    csr: &CertificateSigningRequest,
    message: String,
    now: Timestamp,
) -> CertificateSigningRequest {
    let mut csr = csr.clone();
    let condition = CertificateSigningRequestCondition {
        type_: "Failed".into(),
        status: "True".into(),
        reason: Some("SignerValidationFailure".into()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: None,
    };
    csr.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
    csr
}

/// The request with its certificate.
pub(crate) fn issued(csr: &CertificateSigningRequest, pem: String) -> CertificateSigningRequest {
    let mut csr = csr.clone();
    csr.status.get_or_insert_default().certificate = Some(ByteString(pem.into_bytes()));
    csr
}
