//! JSON Web Signatures with a detached payload (RFC 7515, appendix F) and HMAC SHA-256, as `kubeadm join`
//! verifies them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::json;

/// The signature of `content` with the secret of the token with this identifier: `HEADER..SIGNATURE`.
pub(super) fn detached(content: &str, id: &str, secret: &str) -> String {
    // The members of a `Value` are in alphabetical order, as other implementations write them.
    let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "HS256", "kid": id }).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), signed.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature))
}
