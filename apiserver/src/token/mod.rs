//! Tokens of service accounts: signed statements (JWT) of who somebody is, for which audience, until when, and bound to which object.
//! [`Tokens`] signs and checks; `request` decides what a TokenRequest gets; who a good token speaks for is
//! [`crate::authn::service_account`]'s. Nothing is stored: what revokes a token is the end of an object it is bound to.

mod claims;
pub(crate) mod request;

pub use claims::{Bound, Claims, Cluster};
pub(crate) use request::core;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;

/// Who signs, and for whom by default: the name that a cluster's own workloads know the API by.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// An uncompressed point of P-256: one byte, then two coordinates.
const POINT: usize = 65;
const COORDINATE: usize = 32;
/// What precedes such a point in a SubjectPublicKeyInfo (RFC 5480: id-ecPublicKey, prime256v1).
const SPKI_P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The key of the cluster for tokens. Keys do not belong in logs: `Debug` shows the key's name only.
pub struct Tokens {
    private: EncodingKey,
    public: DecodingKey,
    point: Vec<u8>,
    key_id: String,
}

/// Why a text is not a token of this cluster. Says nothing about whether its account still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is no token, or somebody else signed it.
    #[error("invalid bearer token")]
    Foreign,
    /// Its time is over.
    #[error("invalid bearer token, service account token has expired")]
    Expired,
    /// Its time has not come.
    #[error("invalid bearer token, service account token is not valid yet")]
    NotYet,
    /// It is meant for somebody else.
    #[error("invalid bearer token, token audiences are not among those of this server")]
    Audience,
}

impl Tokens {
    /// With a key of the curve P-256: the private key as PKCS#8 (DER), the public one as an uncompressed point. `None` if the
    /// point is none.
    pub fn new(private: &[u8], point: &[u8]) -> Option<Self> {
        if point.len() != POINT || point[0] != 4 {
            return None;
        }
        let spki = [&SPKI_P256[..], point].concat();
        Some(Self {
            private: EncodingKey::from_ec_der(private),
            public: DecodingKey::from_ec_der(point),
            point: point.to_vec(),
            key_id: BASE64.encode(Sha256::digest(spki)),
        })
    }

    /// A signed token that makes these claims.
    ///
    /// # Errors
    /// The private key cannot sign: it is no key of the curve.
    pub fn sign(&self, claims: &Claims) -> Result<String, jsonwebtoken::errors::Error> {
        let header = Header { kid: Some(self.key_id.clone()), typ: None, ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.private)
    }

    /// What a token with a good signature of this cluster claims. Whether its time has come and for whom it is meant
    /// [`Claims::accept`] tells.
    ///
    /// # Errors
    /// [`Refused::Foreign`].
    pub fn verify(&self, token: &str) -> Result<Claims, Refused> {
        let mut validation = Validation::new(Algorithm::ES256);
        // `Claims::accept` judges times, by the cluster's clock, and audiences.
        (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
        validation.required_spec_claims.clear();
        validation.set_issuer(&[ISSUER]);
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.public, &validation);
        Ok(decoded.map_err(|_| Refused::Foreign)?.claims)
    }

    /// The public key as a JSON Web Key Set, for those who check tokens elsewhere.
    pub fn key_set(&self) -> Value {
        let (x, y) = self.point[1..].split_at(COORDINATE);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.key_id, "alg": "ES256", "crv": "P-256",
            "x": BASE64.encode(x), "y": BASE64.encode(y)}]})
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// How those who check tokens elsewhere find the keys (OpenID Connect discovery).
pub fn configuration(address: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("https://{address}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use jiff::Timestamp;

    /// A key like the one that a server makes.
    pub(crate) fn tokens() -> Tokens {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        Tokens::new(&key.serialize_der(), key.public_key_raw()).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn claims() -> Claims {
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        Claims::new(("ns", &account), &["a".to_owned(), ISSUER.to_owned()], at(1000), 600, "id".into())
    }

    #[test]
    fn a_token_says_what_was_signed_to_whom_it_is_meant_for_while_its_time_lasts() {
        let tokens = tokens();
        let token = tokens.sign(&claims()).unwrap();
        let found = tokens.verify(&token).unwrap();
        assert_eq!(found, claims());
        assert_eq!(found.accept(&[ISSUER], at(1000)), Ok(vec![ISSUER.to_owned()]));
        assert_eq!(found.accept(&["b"], at(1000)), Err(Refused::Audience));
        assert_eq!(found.accept(&["a"], at(1600)), Err(Refused::Expired));
        assert_eq!(found.accept(&["a"], at(999)), Err(Refused::NotYet));
    }

    #[test]
    fn what_another_key_signed_or_somebody_changed_is_foreign() {
        let (ours, other) = (tokens(), tokens());
        let token = other.sign(&claims()).unwrap();
        assert_eq!(ours.verify(&token), Err(Refused::Foreign));
        let good = ours.sign(&claims()).unwrap();
        let mut parts: Vec<&str> = good.split('.').collect();
        let forged = BASE64.encode(serde_json::to_vec(&Claims { sub: "admin".into(), ..claims() }).unwrap());
        parts[1] = &forged;
        for bad in [parts.join("."), String::new(), "a.b.c".to_owned(), good[..good.len() - 1].to_owned()] {
            assert_eq!(ours.verify(&bad), Err(Refused::Foreign), "{bad}");
        }
        let unsigned = format!("{}.{}.", BASE64.encode(r#"{"alg":"none"}"#), forged);
        assert_eq!(ours.verify(&unsigned), Err(Refused::Foreign));
    }

    #[test]
    fn the_published_key_is_the_one_that_signs() {
        let tokens = tokens();
        let set = tokens.key_set();
        let part = |name: &str| set["keys"][0][name].as_str().unwrap().to_owned();
        let public = DecodingKey::from_ec_components(&part("x"), &part("y")).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        (validation.validate_exp, validation.validate_aud) = (false, false);
        let token = tokens.sign(&claims()).unwrap();
        let decoded = jsonwebtoken::decode::<Claims>(&token, &public, &validation).unwrap();
        assert_eq!(decoded.header.kid, Some(part("kid")));
    }
}
