//! Validation of the PEM blocks of CertificateSigningRequests and ClusterTrustBundles that needs cryptography: a
//! request must be signed with its own key, an issued certificate must be one, and a trust anchor must be the
//! certificate of an authority. All other validation is in `kstore_api`,
//! which has no cryptography.

pub(super) mod pod_certificate;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::field::{ErrorList, Path};
use kstore_api::resource::Resource;
use kstore_api::validate::trust_bundle;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;

/// The smallest RSA key, in bits, whose signatures the library verifies. Kubernetes accepts half of that.
const RSA_BITS_MIN: usize = 2048;

/// Validation errors of a new request. A request without a block of the right kind is skipped: the rules in
/// `api` report it.
pub(super) fn validate_request(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let request = &object["spec"]["request"];
    if is_signing_request(resource)
        && let Some(block) = blocks(request).into_iter().next().filter(|b| b.label == "CERTIFICATE REQUEST")
        && let Err(fault) = check_signature(&block.contents)
    {
        errors.invalid(&Path::new("spec.request"), request, fault);
    }
    errors
}

/// Validation errors of certificates that this update issues.
pub(super) fn validate_certificate(resource: &Resource, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let chain = &new["status"]["certificate"];
    if is_signing_request(resource) && *chain != old["status"]["certificate"] {
        let mut found = blocks(chain).into_iter().filter(|block| block.label == "CERTIFICATE");
        if found.any(|block| X509Certificate::from_der(&block.contents).is_err()) {
            let fault = "x509: malformed certificate";
            errors.invalid(&Path::new("status.certificate"), "<certificate data>", fault);
        }
    }
    errors
}

/// Validation errors of the certificates of a new or changed trust bundle.
pub(super) fn validate_trust_bundle(resource: &Resource, new: &Value, old: Option<&Value>) -> ErrorList {
    let mut errors = ErrorList::new();
    let bundle = &new["spec"]["trustBundle"];
    let is_bundle = (resource.group, resource.kind) == ("certificates.k8s.io", "ClusterTrustBundle");
    if !is_bundle || old.is_some_and(|old| old["spec"]["trustBundle"] == *bundle) {
        return errors;
    }
    for (index, der) in trust_bundle::certificates(bundle.as_str().unwrap_or_default()) {
        let fault = match X509Certificate::from_der(&der) {
            Ok(([], certificate)) => match certificate.basic_constraints() {
                Ok(Some(constraints)) if constraints.value.ca => continue,
                _ => "does not have the CA bit set",
            },
            _ => "does not parse as X.509",
        };
        errors.invalid(&Path::new("spec.trustBundle"), "<value omitted>", format!("entry {index} {fault}"));
    }
    errors
}

fn is_signing_request(resource: &Resource) -> bool {
    (resource.group, resource.kind) == ("certificates.k8s.io", "CertificateSigningRequest")
}

/// The PEM blocks of a base64-encoded text, up to the first malformed one.
fn blocks(encoded: &Value) -> Vec<Pem> {
    let text = STANDARD.decode(encoded.as_str().unwrap_or_default()).unwrap_or_default();
    Pem::iter_from_buffer(&text).map_while(Result::ok).collect()
}

fn check_signature(der: &[u8]) -> Result<(), &'static str> {
    let Ok((rest, request)) = X509CertificationRequest::from_der(der) else {
        return Err("asn1: structure error: not a certificate request");
    };
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data");
    }
    match request.verify_signature() {
        // Signatures that the library cannot verify (other algorithms, short RSA keys) are accepted.
        Err(X509Error::SignatureVerificationError) if !is_short_key(&request) => {
            Err(signature_error(&request))
        }
        _ => Ok(()),
    }
}

fn key<'r>(request: &'r X509CertificationRequest<'r>) -> Option<PublicKey<'r>> {
    request.certification_request_info.subject_pki.parsed().ok()
}

fn is_short_key(request: &X509CertificationRequest<'_>) -> bool {
    matches!(key(request), Some(PublicKey::RSA(key)) if key.key_size() < RSA_BITS_MIN)
}

/// Go's error text for an invalid signature.
fn signature_error(request: &X509CertificationRequest<'_>) -> &'static str {
    match key(request) {
        Some(PublicKey::RSA(_)) => "crypto/rsa: verification error",
        Some(PublicKey::EC(_)) => "x509: ECDSA verification failure",
        _ => "x509: Ed25519 verification failure",
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
