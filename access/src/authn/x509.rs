//! Client certificates as identities: the common name is the user, organizations are groups. The TLS
//! handshake has verified the certificate; this file checks no signature.

use crate::peer::{ClientCertificate, Peer};
use jiff::Timestamp;
use kstore_registry::user::UserInfo;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Subject attribute in which Kubernetes stores a uid.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";
/// Extra field with the certificate's fingerprint, for audit.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

impl Peer {
    /// A TLS client with its leaf certificate (DER), if it presented one. The handshake has verified it
    /// against the server's CA.
    pub fn tls(certificate: Option<&[u8]>, address: std::net::SocketAddr) -> Self {
        Self::Tls { certificate: certificate.and_then(identity), proxy: None, address }
    }
}

/// The user and the end of validity of a verified leaf certificate (DER); `None` if it cannot be parsed or
/// has no common name.
pub fn identity(certificate: &[u8]) -> Option<ClientCertificate> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    // Of several common names the last one counts, as in Go, which kube-apiserver relies on.
    let name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).last()?;
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok());
    let mut user = UserInfo::new(name, groups);
    user.uid = subject
        .iter_attributes()
        .find(|a| a.attr_type().to_id_string() == UID_OID)
        .and_then(|a| a.as_str().ok())
        .unwrap_or_default()
        .to_owned();
    user.extra.insert(CREDENTIAL_ID.into(), vec![format!("X509SHA256={}", fingerprint(certificate))]);
    // A date that does not fit counts as the far future.
    let expires = Timestamp::from_second(parsed.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX);
    Some(ClientCertificate { user: user.into(), expires })
}

fn fingerprint(certificate: &[u8]) -> String {
    Sha256::digest(certificate).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_registry::user::{AUTHENTICATED, MASTERS};
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(parts: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn common_name_is_the_user_and_organization_the_group() {
        let der =
            certificate(&[(DnType::OrganizationName, MASTERS), (DnType::CommonName, "kubernetes-admin")]);
        let ClientCertificate { user, expires } = identity(&der).unwrap();
        assert_eq!(expires.to_string(), "4096-01-01T00:00:00Z", "rcgen's default");
        assert_eq!(user.username, "kubernetes-admin");
        assert_eq!(user.groups, [MASTERS, AUTHENTICATED]);
        assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        assert_eq!(user.uid, "");
    }

    #[test]
    fn the_last_of_several_common_names_is_the_user() {
        let another = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let der = certificate(&[(DnType::CommonName, "first"), (another.clone(), "last")]);
        assert_eq!(identity(&der).unwrap().user.username, "last");
        let der = certificate(&[(DnType::CommonName, "first"), (another, "")]);
        assert!(identity(&der).is_none(), "an empty name identifies no user");
    }

    #[test]
    fn a_certificate_without_a_common_name_identifies_no_user() {
        assert!(identity(&certificate(&[(DnType::OrganizationName, MASTERS)])).is_none());
        assert!(identity(b"not a certificate").is_none());
    }
}
