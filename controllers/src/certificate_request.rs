//! [`CertificateRequest`]: what approver and signer read of the PKCS#10 request in a CertificateSigningRequest. Pure. Its signature is
//! checked when a certificate is issued, not here.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// A parsed PKCS#10 request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    /// The whole request in DER.
    pub der: Vec<u8>,
    /// The subject's common name; empty if there is none.
    pub common_name: String,
    /// The subject's organizations, in the order of the subject.
    pub organizations: Vec<String>,
    /// Whether the requested alternative names have a DNS name.
    pub has_dns_names: bool,
    /// Whether they have an IP address.
    pub has_ip_addresses: bool,
    /// Whether they have an email address.
    pub has_emails: bool,
    /// Whether they have a URI.
    pub has_uris: bool,
}

/// Why a request could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnreadableRequest {
    /// The text has no PEM block of that type.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    /// The block is no PKCS#10 request.
    #[error("unable to parse csr: the PEM block is no PKCS#10 certificate request")]
    NotPkcs10,
}

impl CertificateRequest {
    /// Parses `spec.request`: PEM text.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, UnreadableRequest> {
        let (_, block) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| UnreadableRequest::NotPem)?;
        if !matches!(&*block.label, "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST") {
            return Err(UnreadableRequest::NotPem);
        }
        let (_, parsed) =
            X509CertificationRequest::from_der(&block.contents).map_err(|_| UnreadableRequest::NotPkcs10)?;
        let info = &parsed.certification_request_info;
        let texts = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            attribute.as_str().map(str::to_owned).unwrap_or_default()
        };
        let mut request = Self {
            common_name: info.subject.iter_common_name().last().map(texts).unwrap_or_default(),
            organizations: info.subject.iter_organization().map(texts).collect(),
            ..Self::default()
        };
        for name in names_of(&parsed) {
            match name {
                GeneralName::DNSName(_) => request.has_dns_names = true,
                GeneralName::IPAddress(_) => request.has_ip_addresses = true,
                GeneralName::RFC822Name(_) => request.has_emails = true,
                GeneralName::URI(_) => request.has_uris = true,
                _ => {}
            }
        }
        request.der = block.contents;
        Ok(request)
    }
}

/// The requested subject alternative names.
fn names_of<'r>(request: &'r X509CertificationRequest<'r>) -> impl Iterator<Item = &'r GeneralName<'r>> {
    let attributes = request.certification_request_info.attributes().iter();
    let extensions = attributes.flat_map(|attribute| match attribute.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(requested) => requested.extensions.as_slice(),
        _ => &[],
    });
    extensions.flat_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectAlternativeName(names) => names.general_names.as_slice(),
        _ => &[],
    })
}
