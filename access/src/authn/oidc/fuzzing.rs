//! The parts of fuzz targets that see the inside of issuers: an issuer with a known key and without a network.

use super::keys::Key;
use super::mapping::{Mapping, MappingConfig, Source};
use super::{ALGORITHMS, Issuer, IssuerConfig, seconds, verified_by};
use crate::authn::fuzzing::{NOW, web_key};
use jiff::Timestamp;
use jsonwebtoken::DecodingKey;
use kstore_registry::user::{AUTHENTICATED, UserInfo};
use serde_json::{Value, json};
use std::sync::OnceLock;

const URL: &str = "https://issuer.example";
const AUDIENCE: &str = "kube";

/// An issuer whose users are named by their addresses, with its public key.
fn issuer() -> &'static (Issuer, [Key; 1]) {
    static ISSUER: OnceLock<(Issuer, [Key; 1])> = OnceLock::new();
    ISSUER.get_or_init(|| {
        let config = IssuerConfig {
            url: URL.to_owned(),
            discovery_url: None,
            authorities: Vec::new(),
            audiences: vec![AUDIENCE.to_owned()],
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
            mapping: MappingConfig {
                username: Source::Claim { claim: "email".to_owned(), prefix: String::new() },
                groups: Some(Source::Claim { claim: "groups".to_owned(), prefix: "g:".to_owned() }),
                uid: None,
                extra: Vec::new(),
                claim_rules: Vec::new(),
                user_rules: Vec::new(),
            },
        };
        let key = web_key();
        let part = |name: &str| key[name].as_str().expect("a coordinate");
        let decoding = DecodingKey::from_ec_components(part("x"), part("y")).expect("a key of P-256");
        let key = Key { id: Some("known".to_owned()), decoding };
        (Issuer::new(config).expect("the configuration is valid"), [key])
    })
}

/// The user of a token of the issuer.
pub(in crate::authn) fn user(token: &str) -> Result<UserInfo, String> {
    let (issuer, keys) = issuer();
    let header = issuer.header(token)?;
    let claims = verified_by(token, &header, keys).ok_or("no key verifies the signature")?;
    issuer.accept(&claims, Timestamp::from_second(NOW).expect("a time"))
}

/// Checks a user against the claims of its token.
pub(in crate::authn) fn check(user: &UserInfo, claims: &Value) {
    assert_eq!(claims["iss"], URL);
    let audiences = if claims["aud"].is_array() { claims["aud"].clone() } else { json!([claims["aud"]]) };
    assert!(audiences.as_array().is_some_and(|list| list.contains(&json!(AUDIENCE))), "{claims}");
    assert!(seconds(&claims["exp"]).is_some_and(|end| NOW < end), "{claims}");
    assert!(seconds(&claims["nbf"]).is_none_or(|begin| begin <= NOW + 300), "{claims}");
    assert!(claims.get("email_verified").is_none_or(|verified| *verified == true), "{claims}");
    assert!(!user.username.is_empty() && claims["email"] == user.username.as_str(), "{claims}");
    let others = user.groups.iter().filter(|group| *group != AUTHENTICATED);
    others.for_each(|group| assert!(group.starts_with("g:"), "{group}"));
}

/// Compiles the mapping of an issuer, and maps some claims.
pub(in crate::authn) fn map_claims(issuer: &IssuerConfig) {
    let mapping = match Mapping::compile(&issuer.mapping) {
        Ok(mapping) => mapping,
        Err(error) => {
            assert!(!error.reason.is_empty() && !error.field.is_empty(), "a refusal says where and why");
            return;
        }
    };
    let claims = json!({
        "iss": issuer.url, "aud": issuer.audiences, "sub": "7", "email": "a@b", "email_verified": false, "hd": "example.com",
        "groups": ["x", "y"], "roles": "z", "nested": {"id": 3}, "exp": NOW + 60,
    });
    let is_email = matches!(&issuer.mapping.username, Source::Claim { claim, .. } if claim == "email");
    match mapping.user(&claims) {
        Ok(user) => {
            assert!(!user.username.is_empty() && user.is_in(AUTHENTICATED), "{user:?}");
            assert!(!is_email, "the address is not verified");
        }
        Err(why) => assert!(!why.is_empty(), "a refusal says why"),
    }
}
