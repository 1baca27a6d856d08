//! Validation of pod certificate requests that needs cryptography: the key of a request and its signature, and the certificates that
//! answer it.

use super::check_signature;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kstore_api::field::{ErrorList, Path};
use kstore_api::object::{list, text};
use kstore_api::resource::Resource;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

const REQUEST: Path<'static> = Path::new("spec.stubPKCS10Request");
const CHAIN: Path<'static> = Path::new("status.certificateChain");
const NOT_BEFORE: Path<'static> = Path::new("status.notBefore");
const NOT_AFTER: Path<'static> = Path::new("status.notAfter");
const REFRESH: Path<'static> = Path::new("status.beginRefreshAt");

/// Algorithm of Ed25519 keys.
const ED25519: &str = "1.3.101.112";
/// The curves P256, P384 and P521.
const CURVES: [&str; 3] = ["1.2.840.10045.3.1.7", "1.3.132.0.34", "1.3.132.0.35"];
/// Sizes of RSA keys in bits.
const RSA_BITS: [usize; 2] = [3072, 4096];

/// The longest time between the beginning of a certificate and now.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(5);
/// The shortest life of a certificate.
const LIFE_MIN: SignedDuration = SignedDuration::from_hours(1);
/// Time between the refresh of a certificate and its beginning, and its end.
const REFRESH_MARGIN: SignedDuration = SignedDuration::from_mins(10);

fn is_request(resource: &Resource) -> bool {
    (resource.group, resource.kind) == ("certificates.k8s.io", "PodCertificateRequest")
}

fn request_of(object: &Value) -> Vec<u8> {
    STANDARD.decode(text(&object["spec"]["stubPKCS10Request"])).unwrap_or_default()
}

/// Validation errors of a new request.
pub(in crate::pipeline) fn validate_request(resource: &Resource, object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if !is_request(resource) {
        return errors;
    }
    let (der, shown) = (request_of(object), &object["spec"]["stubPKCS10Request"]);
    let Ok(([], request)) = X509CertificationRequest::from_der(&der) else {
        errors.invalid(&REQUEST, shown, "must be a valid PKCS#10 CSR");
        return errors;
    };
    if let Err((value, fault)) = check_key(&request.certification_request_info.subject_pki) {
        errors.invalid(&REQUEST, &value, fault);
    } else if check_signature(&der).is_err() {
        errors.invalid(&REQUEST, shown, "invalid signature");
    }
    errors
}

/// Checks the kind of a key; the error is what the message shows of it, and the fault.
fn check_key(key: &SubjectPublicKeyInfo<'_>) -> Result<(), (String, &'static str)> {
    let algorithm = key.algorithm.algorithm.to_id_string();
    match key.parsed() {
        _ if algorithm == ED25519 => Ok(()),
        Ok(PublicKey::RSA(rsa)) if RSA_BITS.contains(&rsa.key_size()) => Ok(()),
        Ok(PublicKey::RSA(rsa)) => {
            Err((format!("{}-bit modulus", rsa.key_size()), "RSA keys must have modulus size 3072 or 4096"))
        }
        Ok(PublicKey::EC(_)) => {
            let curve = key.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
            let curve = curve.map(|curve| curve.to_id_string()).unwrap_or_default();
            let fault = "elliptic public keys must use curve P256, P384, or P521";
            if CURVES.contains(&curve.as_str()) { Ok(()) } else { Err((format!("curve {curve}"), fault)) }
        }
        _ => Err((algorithm, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")),
    }
}

/// Validation errors of the certificates that this update issues.
pub(in crate::pipeline) fn validate_issued(
    resource: &Resource,
    new: &Value,
    old: &Value,
    now: Timestamp,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let is_issued = |object: &Value| {
        list(&object["status"]["conditions"])
            .iter()
            .any(|one| one["type"] == "Issued" && one["status"] == "True")
    };
    if is_request(resource) && is_issued(new) && !is_issued(old) {
        issued(&mut errors, new, now);
    }
    errors
}

fn issued(errors: &mut ErrorList, object: &Value, now: Timestamp) {
    let chain = text(&object["status"]["certificateChain"]);
    let blocks: Vec<Pem> = Pem::iter_from_buffer(chain.as_bytes()).map_while(Result::ok).collect();
    let Some(first) = blocks.first() else {
        return errors.invalid(
            &CHAIN,
            chain,
            "issued certificate chain must contain at least one certificate",
        );
    };
    if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        let fault = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks";
        return errors.invalid(&CHAIN, chain, fault);
    }
    let Ok((_, leaf)) = X509Certificate::from_der(&first.contents) else {
        return errors.invalid(&CHAIN, chain, "leaf certificate does not parse as valid X.509");
    };
    let der = request_of(object);
    let wanted = X509CertificationRequest::from_der(&der).ok();
    if wanted.is_none_or(|(_, request)| {
        request.certification_request_info.subject_pki.raw != leaf.public_key().raw
    }) {
        let fault = "leaf certificate was not issued to the requested public key";
        return errors.invalid(&CHAIN, chain, fault);
    }
    times(errors, object, &leaf, now);
    if errors.is_empty() && blocks.iter().any(|block| X509Certificate::from_der(&block.contents).is_err()) {
        errors.invalid(&CHAIN, chain, "intermediate certificate does not parse as valid X.509");
    }
}

/// Checks the times of an issued certificate; the first fault ends it.
fn times(errors: &mut ErrorList, object: &Value, leaf: &X509Certificate<'_>, now: Timestamp) {
    let status = &object["status"];
    let time = |member: &str| text(&status[member]).parse::<Timestamp>().ok();
    let (begin, end, refresh) = (time("notBefore"), time("notAfter"), time("beginRefreshAt"));
    for (path, time) in [(&NOT_BEFORE, begin), (&NOT_AFTER, end)] {
        if time.is_none() {
            errors.required(path, "must be present and consistent with the issued certificate");
        }
    }
    if refresh.is_none() {
        errors.required(&REFRESH, "must be present and in the range [notbefore+10min, notafter-10min]");
    }
    let (Some(begin), Some(end), Some(refresh)) = (begin, end, refresh) else { return };
    let (not_before, not_after) =
        (leaf.validity().not_before.timestamp(), leaf.validity().not_after.timestamp());
    let life = SignedDuration::from_secs(not_after - not_before);
    let longest = object["spec"]["maxExpirationSeconds"].as_i64().unwrap_or_default();
    let mut refuse = |path: &Path<'_>, value: &dyn std::fmt::Display, fault: &str| {
        errors.invalid(path, &value.to_string(), fault);
    };
    if begin.as_second() != not_before {
        refuse(&NOT_BEFORE, &begin, "must be set to the NotBefore time encoded in the leaf certificate");
    } else if now.duration_since(begin).abs() > CLOCK_SKEW {
        refuse(&NOT_BEFORE, &begin, "must be set to within 5 minutes of kube-apiserver's current time");
    } else if end.as_second() != not_after {
        refuse(&NOT_AFTER, &end, "must be set to the NotAfter time encoded in the leaf certificate");
    } else if life < LIFE_MIN {
        refuse(&CHAIN, &life.as_secs(), "leaf certificate lifetime must be >= 1 hour");
    } else if life.as_secs() > longest {
        let fault = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest})");
        refuse(&CHAIN, &life.as_secs(), &fault);
    } else if refresh.duration_since(begin) < REFRESH_MARGIN {
        refuse(&REFRESH, &refresh, "must be at least 10 minutes after status.notBefore");
    } else if end.duration_since(refresh) < REFRESH_MARGIN {
        refuse(&REFRESH, &refresh, "must be at least 10 minutes before status.notAfter");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind::{Kinds, OptIn};
    use kstore_api::version::Minor;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SerialNumber};
    use serde_json::json;
    use time::{Duration, OffsetDateTime};

    fn row() -> &'static Resource {
        let kinds = Kinds::new(OptIn::version(Minor::V37), &[], &[]);
        kinds.lookup("certificates.k8s.io", "v1", "podcertificaterequests").unwrap()
    }

    fn request(der: &[u8]) -> Value {
        json!({"spec": {"stubPKCS10Request": STANDARD.encode(der), "maxExpirationSeconds": 7200}})
    }

    fn csr(key: &KeyPair) -> Vec<u8> {
        CertificateParams::default().serialize_request(key).unwrap().der().to_vec()
    }

    const NOW: i64 = 1_800_000_000;

    /// An answer with a certificate for the key, which lives for so many seconds.
    fn answer(request: &Value, key: &KeyPair, seconds: i64) -> Value {
        let begin = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
        let mut params = CertificateParams::default();
        (params.not_before, params.not_after) = (begin, begin + Duration::seconds(seconds));
        params.serial_number = Some(SerialNumber::from(1_u64));
        let at = |second: i64| Timestamp::from_second(NOW + second).unwrap().to_string();
        let mut object = request.clone();
        object["status"] = json!({"certificateChain": params.self_signed(key).unwrap().pem(),
            "notBefore": at(0), "notAfter": at(seconds), "beginRefreshAt": at(seconds / 2),
            "conditions": [{"type": "Issued", "status": "True"}]});
        object
    }

    fn texts(errors: &ErrorList) -> String {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn faults(new: &Value, old: &Value) -> String {
        texts(&validate_issued(row(), new, old, Timestamp::from_second(NOW + 60).unwrap()))
    }

    #[test]
    fn a_request_has_a_strong_key_and_its_signature() {
        for algorithm in [&PKCS_ED25519, &PKCS_ECDSA_P256_SHA256] {
            let mut der = csr(&KeyPair::generate_for(algorithm).unwrap());
            assert_eq!(texts(&validate_request(row(), &request(&der))), "");
            *der.last_mut().unwrap() ^= 1;
            assert!(texts(&validate_request(row(), &request(&der))).ends_with("invalid signature"));
        }
        let odd = texts(&validate_request(row(), &request(b"odd")));
        assert!(odd.ends_with("must be a valid PKCS#10 CSR"), "{odd}");
    }

    #[test]
    fn an_answer_has_a_certificate_of_the_requested_key_and_its_times() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let open = request(&csr(&key));
        let good = answer(&open, &key, 7200);
        assert_eq!(faults(&good, &open), "");
        assert_eq!(faults(&answer(&open, &other, 7200), &good), "", "it is issued already");
        for (answer, fault) in [
            (answer(&open, &other, 7200), "leaf certificate was not issued to the requested public key"),
            (answer(&open, &key, 3599), "leaf certificate lifetime must be >= 1 hour"),
            (
                answer(&open, &key, 7201),
                "leaf certificate lifetime must be <= spec.maxExpirationSeconds (7200)",
            ),
        ] {
            assert!(faults(&answer, &open).ends_with(fault), "{}", faults(&answer, &open));
        }
        for (member, value, fault) in [
            ("certificateChain", json!(""), "must contain at least one certificate"),
            (
                "certificateChain",
                json!("-----BEGIN A-----\nAAAA\n-----END A-----\n"),
                "entirely of CERTIFICATE PEM blocks",
            ),
            ("notBefore", Value::Null, "must be present and consistent with the issued certificate"),
            (
                "notAfter",
                json!("2027-01-15T09:00:00Z"),
                "must be set to the NotAfter time encoded in the leaf certificate",
            ),
            (
                "beginRefreshAt",
                good["status"]["notBefore"].clone(),
                "must be at least 10 minutes after status.notBefore",
            ),
            (
                "beginRefreshAt",
                good["status"]["notAfter"].clone(),
                "must be at least 10 minutes before status.notAfter",
            ),
        ] {
            let mut changed = good.clone();
            changed["status"][member] = value;
            assert!(faults(&changed, &open).contains(fault), "{member}: {}", faults(&changed, &open));
        }
        let late = Timestamp::from_second(NOW + 301).unwrap();
        let late = texts(&validate_issued(row(), &good, &open, late));
        assert!(late.ends_with("within 5 minutes of kube-apiserver's current time"), "{late}");
    }
}
