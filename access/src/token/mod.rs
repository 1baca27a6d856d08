//! Service account tokens: JSON web tokens that name an account, audiences, an expiration and a bound object.
//! [`Tokens`] signs and verifies them; `request` answers TokenRequests; [`crate::authn::service_account`]
//! looks up the account of a valid token. These tokens are not stored: a token is revoked by deleting its
//! account or its bound object. `legacy` has the claims of tokens without expiration, which Secrets hold.

mod claims;
mod der;
mod keys;
mod legacy;
pub mod request;

use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
pub use claims::{Bound, Claims, Cluster};
use jsonwebtoken::Validation;
pub use keys::{KeyError, PublicKey, SigningKey};
pub use legacy::{LEGACY_ISSUER, LegacyClaims};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The issuer of tokens, and their default audience: the name of the API inside a cluster.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// The cluster's keys, issuers and audiences of service account tokens.
#[derive(Debug)]
pub struct Tokens {
    signing: SigningKey,
    /// Public keys that verify tokens.
    public: Vec<PublicKey>,
    /// Accepted issuers; signed tokens name the first one.
    issuers: Vec<String>,
    /// The names of this API as an audience. Tokens for one of them are accepted; a token requested without
    /// audiences is for all of them.
    audiences: Vec<String>,
}

/// A text is not a valid token of this cluster: the reason. The existence of the token's account is checked
/// elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text is not a token, or is not signed with a key of this cluster.
    #[error("invalid bearer token")]
    Foreign,
    /// The token has expired.
    #[error("invalid bearer token, service account token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("invalid bearer token, service account token is not valid yet")]
    NotYet,
    /// The token is for other audiences.
    #[error("invalid bearer token, token audiences are not among those of this server")]
    Audience,
}

impl Tokens {
    /// Keys from a P-256 key in PKCS#8 (DER), which signs and verifies alone, with the issuer [`ISSUER`].
    ///
    /// # Errors
    /// If the bytes are not such a key.
    pub fn new(private: &[u8]) -> Result<Self, KeyError> {
        let signing = SigningKey::pkcs8(private)?;
        let public = vec![signing.public().clone()];
        let names = || vec![ISSUER.to_owned()];
        Ok(Self { signing, public, issuers: names(), audiences: names() })
    }

    /// Keys and names as configured. The first of `issuers` is in signed tokens; `audiences` are the names of
    /// this API (empty: the issuers). `None` without issuers.
    pub fn with(
        signing: SigningKey,
        public: Vec<PublicKey>,
        issuers: Vec<String>,
        audiences: Vec<String>,
    ) -> Option<Self> {
        let audiences = if audiences.is_empty() { issuers.clone() } else { audiences };
        (!issuers.is_empty()).then_some(Self { signing, public, issuers, audiences })
    }

    /// The issuer of signed tokens.
    pub fn issuer(&self) -> &str {
        &self.issuers[0]
    }

    /// The names of this API as an audience.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs claims as a token.
    ///
    /// # Errors
    /// The private key cannot sign.
    pub fn sign(&self, claims: &Claims) -> Result<String, jsonwebtoken::errors::Error> {
        self.signing.sign(claims)
    }

    /// Signs the claims of a token for a Secret.
    ///
    /// # Errors
    /// The private key cannot sign.
    pub fn sign_legacy(&self, claims: &LegacyClaims) -> Result<String, jsonwebtoken::errors::Error> {
        self.signing.sign_legacy(claims)
    }

    /// Verifies the signature and issuer of a token, and returns its claims. [`Claims::accept`] checks their
    /// times and audiences.
    ///
    /// # Errors
    /// [`Refused::Foreign`].
    pub fn verify(&self, token: &str) -> Result<Claims, Refused> {
        self.verify_issued(token, &self.issuers)
    }

    /// Verifies the signature, issuer and completeness of a token that a Secret holds, and returns its claims.
    /// The Secret and the account are checked elsewhere.
    ///
    /// # Errors
    /// [`Refused::Foreign`].
    pub fn verify_legacy(&self, token: &str) -> Result<LegacyClaims, Refused> {
        let claims: LegacyClaims = self.verify_issued(token, &[LEGACY_ISSUER])?;
        claims.is_complete().then_some(claims).ok_or(Refused::Foreign)
    }

    /// The claims of a token from one of `issuers` with a valid signature.
    fn verify_issued<C: DeserializeOwned>(
        &self,
        token: &str,
        issuers: &[impl AsRef<str>],
    ) -> Result<C, Refused> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| Refused::Foreign)?;
        let is_named = |key: &&PublicKey| header.kid.as_deref() == Some(key.id());
        // The key with the token's key identifier is tried first; other signers may use other identifiers for
        // the same key.
        let named = self.public.iter().filter(is_named);
        let others = self.public.iter().filter(|key| !is_named(key));
        let keys = named.chain(others).filter(|key| key.algorithm() == header.alg);
        keys.into_iter().find_map(|key| claims_by(key, token, issuers)).ok_or(Refused::Foreign)
    }

    /// The public keys as a JSON Web Key Set, for verification outside the cluster.
    pub fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.public.iter().map(PublicKey::web_key).collect();
        json!({ "keys": keys })
    }

    /// The OpenID Connect discovery document, by which verifiers outside the cluster find the keys.
    pub fn configuration(&self, address: &str) -> Value {
        let mut algorithms: Vec<&Value> = self.public.iter().map(PublicKey::algorithm_name).collect();
        algorithms.dedup();
        json!({
            "issuer": self.issuer(),
            "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }
}

/// The claims of a token that this key signed for one of `issuers`.
fn claims_by<C: DeserializeOwned>(key: &PublicKey, token: &str, issuers: &[impl AsRef<str>]) -> Option<C> {
    let mut validation = Validation::new(key.algorithm());
    // `Claims::accept` checks times, by the cluster's clock, and audiences.
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    let issuers: Vec<&str> = issuers.iter().map(AsRef::as_ref).collect();
    validation.set_issuer(&issuers);
    let decoded = jsonwebtoken::decode::<C>(token, key.decoding(), &validation);
    decoded.ok().map(|decoded| decoded.claims)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use base64::Engine as _;
    use jiff::Timestamp;

    /// Keys like those that a server generates.
    pub(crate) fn tokens() -> Tokens {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        Tokens::new(&key.serialize_der()).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn claims() -> Claims {
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        Claims::new(("ns", &account), &["a".to_owned(), ISSUER.to_owned()], at(1000), 600, "id".into())
    }

    #[test]
    fn tokens_are_valid_for_their_audiences_until_they_expire() {
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
    fn tokens_of_other_keys_and_altered_tokens_are_refused() {
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
    fn the_published_key_verifies_tokens() {
        let tokens = tokens();
        let set = tokens.key_set();
        let part = |name: &str| set["keys"][0][name].as_str().unwrap().to_owned();
        let public = jsonwebtoken::DecodingKey::from_ec_components(&part("x"), &part("y")).unwrap();
        let mut validation = Validation::new(jsonwebtoken::Algorithm::ES256);
        (validation.validate_exp, validation.validate_aud) = (false, false);
        let token = tokens.sign(&claims()).unwrap();
        let decoded = jsonwebtoken::decode::<Claims>(&token, &public, &validation).unwrap();
        assert_eq!(decoded.header.kid, Some(part("kid")));
    }

    #[test]
    fn tokens_of_secrets_have_their_own_issuer_and_complete_claims() {
        let tokens = tokens();
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        let claims = LegacyClaims::new("ns", "builder-token", &account);
        let token = tokens.sign_legacy(&claims).unwrap();
        assert_eq!(tokens.verify_legacy(&token), Ok(claims.clone()));
        assert_eq!(tokens.verify(&token), Err(Refused::Foreign));
        let payload = BASE64.decode(token.split('.').nth(1).unwrap()).unwrap();
        let payload: Value = serde_json::from_slice(&payload).unwrap();
        let expected = json!({
            "iss": "kubernetes/serviceaccount",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "builder-token",
            "kubernetes.io/serviceaccount/service-account.name": "builder",
            "kubernetes.io/serviceaccount/service-account.uid": "u1",
            "sub": "system:serviceaccount:ns:builder",
        });
        assert_eq!(payload, expected);
        let bound = tokens.sign(&self::claims()).unwrap();
        assert_eq!(tokens.verify_legacy(&bound), Err(Refused::Foreign));
        for bad in [
            LegacyClaims { sub: "system:serviceaccount:ns:other".into(), ..claims.clone() },
            LegacyClaims { secret: String::new(), ..claims.clone() },
            LegacyClaims { iss: "kubernetes".into(), ..claims },
        ] {
            let token = tokens.sign_legacy(&bad).unwrap();
            assert_eq!(tokens.verify_legacy(&token), Err(Refused::Foreign), "{bad:?}");
        }
    }
}
