//! Certificates in the projected volumes of pods (`podCertificate`): the key that a kubelet generates, the PodCertificateRequest that it
//! creates, and the signer's answer. Pure, but for the keys on elliptic curves other than Ed25519: the library that generates them takes
//! its randomness from the operating system, whatever the generator of the simulation is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCertificateProjection};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::validate::trust_bundle;
use kstore_nondet::Rng;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Length of a line of base64 in PEM.
const LINE: usize = 64;
/// What precedes the 32 bytes of an Ed25519 key in PKCS#8, version 1 (RFC 8410).
const ED25519_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A private key, and the signing request that proves its possession.
#[derive(Debug)]
pub(crate) struct KeyWithRequest {
    /// The key: a PEM block with PKCS#8.
    pub(crate) key: String,
    /// The signing request (PKCS#10, DER), without a subject or extensions, as a kubelet makes it.
    pub(crate) request: Vec<u8>,
}

/// Generates a key of a type of [`PodCertificateProjection::key_type`], and its signing request.
///
/// # Errors
/// A message for the pod's events, if simulated nodes do not generate keys of this type: RSA and P521.
pub(crate) fn generate(key_type: &str, rng: &Rng) -> Result<KeyWithRequest, String> {
    let key = match key_type {
        "ED25519" => ed25519(rng),
        "ECDSAP256" => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        "ECDSAP384" => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        other => {
            return Err(format!(
                "simulated nodes generate no {other} keys: use ED25519, ECDSAP256 or ECDSAP384"
            ));
        }
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let signed = key.and_then(|key| {
        let request = params.serialize_request(&key)?;
        Ok(KeyWithRequest { key: key.serialize_pem(), request: request.der().to_vec() })
    });
    signed.map_err(|error| format!("generating a {key_type} key: {error}"))
}

/// A key whose bytes all follow from the generator, so that a simulation can be repeated.
pub(crate) fn ed25519(rng: &Rng) -> Result<KeyPair, rcgen::Error> {
    let mut seed = [0; 32];
    rng.fill_secret(&mut seed);
    let der = [&ED25519_PREFIX[..], &seed].concat();
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der), &PKCS_ED25519)
}

/// The uids that a request names beside the pod's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequesterUids<'a> {
    /// That of the pod's service account.
    pub(crate) service_account: &'a str,
    /// That of the pod's node.
    pub(crate) node: &'a str,
}

/// The PodCertificateRequest for a source of a pod's projected volume. The pod owns it.
pub(crate) fn request(
    pod: &Pod,
    source: &PodCertificateProjection,
    uids: RequesterUids<'_>,
    signing_request: &[u8],
) -> Value {
    let (meta, spec) = (&pod.metadata, pod.spec.as_ref());
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid});
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
        "metadata": {"generateName": "req-", "namespace": meta.namespace, "ownerReferences": [owner]},
        "spec": {
            "signerName": source.signer_name,
            "podName": meta.name, "podUID": meta.uid,
            "serviceAccountName": spec.and_then(|spec| spec.service_account_name.as_deref()),
            "serviceAccountUID": uids.service_account,
            "nodeName": spec.and_then(|spec| spec.node_name.as_deref()), "nodeUID": uids.node,
            "maxExpirationSeconds": source.max_expiration_seconds,
            "unverifiedUserAnnotations": source.user_annotations,
            "stubPKCS10Request": STANDARD.encode(signing_request),
        },
    })
}

/// The status of a PodCertificateRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RequestStatus {
    conditions: Vec<RequestCondition>,
    certificate_chain: String,
    begin_refresh_at: Option<Time>,
    not_after: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RequestCondition {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
}

/// The final answer of a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It issued a certificate.
    Issued(IssuedCertificate),
    /// It denied the request, or failed: the pod gets no certificate.
    Refused(RefusedCertificate),
}

/// A certificate with its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IssuedCertificate {
    /// The leaf and the intermediates: PEM blocks without headers, and without text between them.
    pub(crate) chain: String,
    /// When a kubelet begins to request another certificate.
    pub(crate) refresh_at: Timestamp,
    /// When the certificate expires.
    pub(crate) not_after: Timestamp,
}

/// Why a pod gets no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedCertificate {
    /// Type of the condition, `Denied` or `Failed`: the reason of the event.
    pub(crate) kind: String,
    reason: String,
    message: String,
}

impl RefusedCertificate {
    /// The message of the event about the request of this name, in Kubernetes' words.
    pub(crate) fn event(&self, namespace: &str, name: &str) -> String {
        let Self { kind, reason, message } = self;
        let verb = if kind == "Denied" { "was denied" } else { "failed" };
        format!("PodCertificateRequest {namespace}/{name} {verb}, reason={reason:?}, message={message:?}")
    }

    /// Why the volume is not mounted, in Kubernetes' words.
    pub(crate) fn mount_error(&self) -> String {
        let Self { kind, reason, message } = self;
        let verb = kind.to_lowercase();
        format!("PodCertificateRequest was permanently {verb}: reason={reason:?} message={message:?}")
    }
}

impl RequestStatus {
    /// The answer, if there is one.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.conditions.iter().find_map(|condition| match condition.kind.as_str() {
            "Issued" => {
                let (refresh_at, not_after) = (self.begin_refresh_at.as_ref()?.0, self.not_after.as_ref()?.0);
                let certificates = trust_bundle::certificates(&self.certificate_chain);
                let chain = certificates.map(|(_, der)| certificate_pem(&der)).collect();
                Some(Answer::Issued(IssuedCertificate { chain, refresh_at, not_after }))
            }
            "Denied" | "Failed" => Some(Answer::Refused(RefusedCertificate {
                kind: condition.kind.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
            })),
            _ => None,
        })
    }
}

/// The key and the certificates that a volume shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CredentialBundle {
    /// The private key (PEM).
    pub(crate) key: String,
    /// The leaf and the intermediates (PEM).
    pub(crate) chain: String,
}

impl CredentialBundle {
    /// The files of a source, as paths and contents: the key with the chain, the key, the chain, as far as the source names paths.
    pub(crate) fn files<'s>(&self, source: &'s PodCertificateProjection) -> Vec<(&'s str, String)> {
        let Self { key, chain } = self;
        let all = [
            (&source.credential_bundle_path, format!("{key}{chain}")),
            (&source.key_path, key.clone()),
            (&source.certificate_chain_path, chain.clone()),
        ];
        let named = all.into_iter().filter_map(|(path, text)| Some((path.as_deref()?, text)));
        named.filter(|(path, _)| !path.is_empty()).collect()
    }
}

/// A certificate (DER) as a PEM block.
pub(crate) fn certificate_pem(der: &[u8]) -> String {
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let text = STANDARD.encode(der);
    for start in (0..text.len()).step_by(LINE) {
        let line = &text[start..text.len().min(start + LINE)];
        writeln!(pem, "{line}").expect("writing to a String does not fail");
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateSigningRequestParams, PublicKeyData as _};

    #[test]
    fn each_supported_key_comes_with_a_request_that_it_signed() {
        let rng = Rng::seeded(7);
        for key_type in ["ED25519", "ECDSAP256", "ECDSAP384"] {
            let made = generate(key_type, &rng).unwrap();
            let key = KeyPair::from_pem(&made.key).unwrap();
            let request = CertificateSigningRequestParams::from_der(&made.request.as_slice().into()).unwrap();
            assert_eq!(request.public_key.der_bytes(), key.der_bytes(), "{key_type}");
            assert!(made.key.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{key_type}");
        }
        for key_type in ["RSA3072", "RSA4096", "ECDSAP521"] {
            let refusal = generate(key_type, &rng).unwrap_err();
            assert!(
                refusal.starts_with(&format!("simulated nodes generate no {key_type} keys")),
                "{refusal}"
            );
        }
    }

    #[test]
    fn an_ed25519_key_follows_from_the_seed() {
        let of = |seed| generate("ED25519", &Rng::seeded(seed)).unwrap();
        let (one, again, other) = (of(1), of(1), of(2));
        assert_eq!((&one.key, &one.request), (&again.key, &again.request));
        assert_ne!(one.key, other.key);
    }

    #[test]
    fn a_request_names_pod_account_and_node_with_their_uids() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "pod-uid"},
            "spec": {"containers": [], "nodeName": "n", "serviceAccountName": "a"},
        }))
        .unwrap();
        let source: PodCertificateProjection = serde_json::from_value(
            json!({"signerName": "example.com/s", "keyType": "ED25519", "userAnnotations": {"a/b": "c"}}),
        )
        .unwrap();
        let uids = RequesterUids { service_account: "account-uid", node: "node-uid" };
        let made = request(&pod, &source, uids, b"csr");
        assert_eq!(made["metadata"]["generateName"], "req-");
        assert_eq!(
            made["metadata"]["ownerReferences"],
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-uid"}])
        );
        assert_eq!(
            made["spec"],
            json!({"signerName": "example.com/s", "podName": "p", "podUID": "pod-uid", "nodeName": "n", "nodeUID": "node-uid",
                "serviceAccountName": "a", "serviceAccountUID": "account-uid", "maxExpirationSeconds": null,
                "unverifiedUserAnnotations": {"a/b": "c"}, "stubPKCS10Request": "Y3Ny"})
        );
    }

    fn answer(status: Value) -> Option<Answer> {
        serde_json::from_value::<RequestStatus>(status).unwrap().answer()
    }

    #[test]
    fn an_answer_is_a_clean_chain_with_its_times_or_a_refusal() {
        assert_eq!(answer(json!({})), None);
        let block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let issued = answer(json!({
            "conditions": [{"type": "Issued", "status": "True", "reason": "R", "message": ""}],
            "certificateChain": format!("leaf:\n{block}{block}"),
            "beginRefreshAt": "2026-01-01T12:00:00Z", "notAfter": "2026-01-02T00:00:00Z",
        }));
        let Some(Answer::Issued(issued)) = issued else { panic!("{issued:?}") };
        assert_eq!(issued.chain, format!("{block}{block}"), "in the signer's order, each block kept");
        assert!(issued.refresh_at < issued.not_after);
        let denied =
            answer(json!({"conditions": [{"type": "Denied", "reason": "No", "message": "not \"you\""}]}));
        let Some(Answer::Refused(denied)) = denied else { panic!("{denied:?}") };
        assert_eq!(
            denied.event("ns", "req-a"),
            "PodCertificateRequest ns/req-a was denied, reason=\"No\", message=\"not \\\"you\\\"\""
        );
        assert_eq!(
            denied.mount_error(),
            "PodCertificateRequest was permanently denied: reason=\"No\" message=\"not \\\"you\\\"\""
        );
    }

    #[test]
    fn a_source_shows_the_files_that_it_names() {
        let bundle = CredentialBundle { key: "K\n".to_owned(), chain: "C\n".to_owned() };
        let of = |source: Value| -> Vec<(String, String)> {
            let mut source = source;
            source["signerName"] = json!("s");
            source["keyType"] = json!("ED25519");
            let source = serde_json::from_value(source).unwrap();
            bundle.files(&source).into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
        };
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        assert_eq!(of(json!({"credentialBundlePath": "b", "keyPath": ""})), [file("b", "K\nC\n")]);
        assert_eq!(
            of(json!({"keyPath": "k", "certificateChainPath": "c"})),
            [file("k", "K\n"), file("c", "C\n")]
        );
    }
}
