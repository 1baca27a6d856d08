//! Tests of the requests that signers accept. Another implementation of X.509 checks that issued certificates have the requested contents.

use super::plan::{Decision, decide, failed, issued, lifetime};
use crate::certificate_request::{CertificateRequest, UnreadableRequest};
use crate::signing_authority::{NotIssued, SigningAuthority, Terms};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair, SanType};
use serde_json::{Value, from_value, json};
use x509_parser::extensions::GeneralName;

const NOW: Timestamp = Timestamp::constant(1_790_000_000, 0);
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);
const CLIENT: &[&str] = &["digital signature", "key encipherment", "client auth"];
const SERVER: &[&str] = &["digital signature", "server auth"];

/// An authority that ends two years from now.
fn authority(algorithm: &'static rcgen::SignatureAlgorithm) -> (SigningAuthority, Vec<u8>) {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = named("test-ca", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_after =
        time::OffsetDateTime::from_unix_timestamp(NOW.as_second()).unwrap() + time::Duration::days(2 * 365);
    let certificate = params.self_signed(&key).unwrap();
    let authority = SigningAuthority::from_pem(&certificate.pem(), &key.serialize_pem()).unwrap();
    (authority, certificate.der().to_vec())
}

fn named(common: &str, organizations: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name
}

fn request(common: &str, organizations: &[&str], names: Vec<SanType>) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(common, organizations);
    params.subject_alt_names = names;
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn csr(signer: &str, usages: &[&str], conditions: &[&str]) -> CertificateSigningRequest {
    let conditions: Vec<Value> =
        conditions.iter().map(|type_| json!({"type": type_, "status": "True"})).collect();
    from_value(json!({"metadata": {"name": "r"}, "status": {"conditions": conditions},
        "spec": {"request": "", "signerName": signer, "usages": usages}}))
    .unwrap()
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

#[test]
fn requests_are_signed_refused_or_left_alone() {
    let parse = |pem: &str| CertificateRequest::parse(pem.as_bytes()).unwrap();
    let node = parse(&request("system:node:a", &["system:nodes"], vec![]));
    let serving = parse(&request("system:node:a", &["system:nodes"], vec![dns("a")]));
    let user = parse(&request("jane", &["dev"], vec![]));
    let fail = |why: &str| Decision::Fail(why.to_owned());
    let (client, kubelet, server) = (
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
    );
    for (signer, usages, parsed, expected) in [
        (client, CLIENT, &user, Decision::Sign),
        (client, SERVER, &user, fail("invalid usage for client certificate: server auth")),
        (client, &CLIENT[..1], &user, fail("missing required usage for client certificate: client auth")),
        (kubelet, CLIENT, &node, Decision::Sign),
        (kubelet, CLIENT, &user, fail("subject organization is not system:nodes")),
        (kubelet, CLIENT, &serving, fail("DNS subjectAltNames are not allowed")),
        (
            kubelet,
            SERVER,
            &node,
            fail("usages did not match [client auth digital signature key encipherment]"),
        ),
        (server, SERVER, &serving, Decision::Sign),
        (server, SERVER, &node, fail("DNS or IP subjectAltName is required")),
        ("kubernetes.io/legacy-unknown", SERVER, &user, Decision::Sign),
        ("example.com/own", CLIENT, &user, Decision::Nothing),
    ] {
        assert_eq!(decide(&csr(signer, usages, &["Approved"]), parsed), expected, "{signer} {usages:?}");
    }
    for conditions in [&[][..], &["Denied"], &["Approved", "Failed"]] {
        assert_eq!(decide(&csr(client, CLIENT, conditions), &user), Decision::Nothing, "{conditions:?}");
    }
    let approved = csr(client, CLIENT, &["Approved"]);
    assert_eq!(decide(&issued(&approved, "pem".into()), &user), Decision::Nothing);
    assert_eq!(decide(&failed(&approved, "why".into(), NOW), &user), Decision::Nothing);
}

#[test]
fn issued_certificates_have_the_requested_contents() {
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let (authority, ca) = authority(algorithm);
        let (_, ca) = x509_parser::parse_x509_certificate(&ca).unwrap();
        let pem = request("jane", &["dev"], vec![dns("jane.example.com")]);
        let parsed = CertificateRequest::parse(pem.as_bytes()).unwrap();
        assert_eq!((parsed.common_name.as_str(), parsed.has_dns_names), ("jane", true));
        let usages: Vec<String> = CLIENT.iter().map(|usage| (*usage).to_owned()).collect();
        let terms = Terms { usages: &usages, lifetime: YEAR, serial: [7; 16] };
        let pem = authority.issue(&parsed.der, terms, NOW).unwrap();
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        let certificate = block.parse_x509().unwrap();
        certificate.verify_signature(Some(ca.public_key())).unwrap();
        assert_eq!(certificate.issuer(), ca.subject());
        assert_eq!(certificate.subject().to_string(), "CN=jane, O=dev");
        assert_eq!(certificate.raw_serial(), [7; 16]);
        assert_eq!(certificate.validity().not_before.timestamp(), NOW.as_second() - 300);
        assert_eq!(certificate.validity().not_after.timestamp(), NOW.as_second() - 300 + YEAR.as_secs());
        let names = certificate.subject_alternative_name().unwrap().unwrap().value;
        assert_eq!(names.general_names, [GeneralName::DNSName("jane.example.com")]);
        let key_usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(key_usage.digital_signature() && key_usage.key_encipherment() && !key_usage.key_cert_sign());
        let extended = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.client_auth && !extended.server_auth);
        assert!(!certificate.is_ca());
    }
}

#[test]
fn validity_is_bounded_by_the_request_the_flag_and_the_authority() {
    let mut signing_request = csr("kubernetes.io/kube-apiserver-client", CLIENT, &["Approved"]);
    for (seconds, expected) in
        [(None, YEAR), (Some(1), SignedDuration::from_mins(10)), (Some(i32::MAX), YEAR)]
    {
        signing_request.spec.expiration_seconds = seconds;
        assert_eq!(lifetime(&signing_request, YEAR), expected);
    }
    let (authority, _) = authority(&rcgen::PKCS_ECDSA_P256_SHA256);
    let parsed = CertificateRequest::parse(request("jane", &[], vec![]).as_bytes()).unwrap();
    let end = |lifetime: SignedDuration, now: Timestamp| {
        let pem = authority.issue(&parsed.der, Terms { usages: &[], lifetime, serial: [7; 16] }, now)?;
        let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap();
        Ok(block.parse_x509().unwrap().validity().not_after.timestamp() - now.as_second())
    };
    assert_eq!(end(SignedDuration::from_hours(1), NOW), Ok(3600), "a short life is not shortened");
    assert_eq!(end(YEAR * 5, NOW), Ok(2 * YEAR.as_secs()), "the authority's own end");
    assert!(matches!(end(YEAR, NOW + YEAR * 3), Err(NotIssued::Expired(_))));
}

#[test]
fn malformed_and_wrongly_signed_requests_are_refused() {
    assert_eq!(CertificateRequest::parse(b"nonsense"), Err(UnreadableRequest::NotPem));
    let block = |label: &str| format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n");
    assert_eq!(CertificateRequest::parse(block("CERTIFICATE").as_bytes()), Err(UnreadableRequest::NotPem));
    let no_request = CertificateRequest::parse(block("CERTIFICATE REQUEST").as_bytes());
    assert_eq!(no_request, Err(UnreadableRequest::NotPkcs10));
    let (authority, _) = authority(&rcgen::PKCS_ECDSA_P256_SHA256);
    let mut forged = CertificateRequest::parse(request("jane", &[], vec![]).as_bytes()).unwrap().der;
    let at = forged.windows(4).position(|bytes| bytes == b"jane").unwrap();
    forged[at] = b'x';
    let terms = Terms { usages: &[], lifetime: YEAR, serial: [7; 16] };
    assert_eq!(authority.issue(&forged, terms, NOW), Err(NotIssued::Signature));
    let usages = ["flying".to_owned()];
    let parsed = CertificateRequest::parse(request("jane", &[], vec![]).as_bytes()).unwrap();
    let terms = Terms { usages: &usages, ..terms };
    assert_eq!(authority.issue(&parsed.der, terms, NOW), Err(NotIssued::Usage("flying".to_owned())));
}
