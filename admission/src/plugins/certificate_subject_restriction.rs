//! CertificateSubjectRestriction: no API client certificate may name the group `system:masters`, whose
//! permissions no role can revoke.

use crate::plugin::{Enabled, Plugin, Review, Row};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kstore_api::admission::Operation;
use kstore_api::object::text;
use kstore_registry::undecided::Undecided;
use kstore_registry::user::MASTERS;
use serde_json::Value;
use std::sync::Arc;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

/// The signer of API client certificates, which prove a user and its groups.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("certificates.k8s.io", "certificatesigningrequests")],
    validates: &[Operation::Create],
    ..Row::new("CertificateSubjectRestriction", || Arc::new(CertificateSubjectRestriction))
};

struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let subject = review.subject;
        let Some(new) = new else { return Ok(()) };
        if new["spec"]["signerName"] != CLIENT_SIGNER {
            return Ok(());
        }
        let Some(organizations) = organizations(text(&new["spec"]["request"])) else {
            return subject.refuse("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST");
        };
        if organizations.iter().any(|organization| organization == MASTERS) {
            let text = format!("use of {CLIENT_SIGNER} signer with system:masters group is not allowed");
            return subject.refuse(&text);
        }
        Ok(())
    }
}

/// The common names in the subject of the request in this `spec`; `None` if it contains no request.
pub(super) fn common_names(spec: &Value) -> Option<Vec<String>> {
    subject(text(&spec["request"]), |request| {
        let named = request.certification_request_info.subject.iter_common_name();
        named.filter_map(|attribute| attribute.as_str().ok()).map(str::to_owned).collect()
    })
}

/// The organizations that a request names, in any string type; `None` if it is not a request.
fn organizations(encoded: &str) -> Option<Vec<String>> {
    subject(encoded, |request| {
        let named = request.certification_request_info.subject.iter_organization();
        let texts = named.flat_map(|attribute| {
            let bytes = attribute.attr_value().data;
            // Strings with one byte and with two bytes per character.
            let wide = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            [String::from_utf8_lossy(bytes).into_owned(), String::from_utf16_lossy(&wide.collect::<Vec<_>>())]
        });
        texts.collect()
    })
}

/// Reads a base64-encoded PEM request; `None` if it is not a request.
fn subject(
    encoded: &str,
    read: impl FnOnce(&X509CertificationRequest<'_>) -> Vec<String>,
) -> Option<Vec<String>> {
    let text = STANDARD.decode(encoded).ok()?;
    let block =
        Pem::iter_from_buffer(&text).next()?.ok().filter(|block| block.label == "CERTIFICATE REQUEST")?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    Some(read(&request))
}
