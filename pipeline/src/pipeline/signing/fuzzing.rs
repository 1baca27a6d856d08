//! Fuzz target for CertificateSigningRequests: arbitrary bytes as the request of one.

use super::{STANDARD, check_signature, validate_request};
use base64::Engine as _;
use kstore_api::kind;
use serde_json::json;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

/// Checks that a request is accepted only as a whole, and that an object with it is accepted exactly if the
/// request is. A request with a signature that does not fit must be refused if its key can be used.
pub fn certificate_request(bytes: &[u8]) {
    let verdict = check_signature(bytes);
    if verdict.is_ok() {
        let (rest, _) = X509CertificationRequest::from_der(bytes).expect("an accepted request is one");
        assert!(rest.is_empty(), "an accepted request has nothing behind it");
        let longer = [bytes, &[0]].concat();
        assert!(check_signature(&longer).is_err(), "bytes behind a request are refused");
    }
    let row =
        kind::lookup("certificates.k8s.io", "v1", "certificatesigningrequests").expect("a row of the table");
    let object = |text: String| json!({"spec": {"request": STANDARD.encode(text)}});
    let block = STANDARD.encode(bytes);
    let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{block}\n-----END CERTIFICATE REQUEST-----\n");
    let errors = validate_request(row, &object(pem));
    if !bytes.is_empty() {
        assert_eq!(errors.is_empty(), verdict.is_ok(), "{errors:?} {verdict:?}");
    }
    // The bytes as the PEM text itself.
    let _ = validate_request(row, &object(String::from_utf8_lossy(bytes).into_owned()));
}
