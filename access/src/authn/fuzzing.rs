//! Fuzz targets for credentials and their configuration: arbitrary bytes as tokens, as client certificates and as
//! an `AuthenticationConfiguration`.

use super::oidc::{ClaimRule, IssuerConfig, Source, fuzzing as oidc};
use super::{AnonymousAccess, AuthenticationFile, x509};
use crate::token::{SigningKey, Tokens};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey};
use kstore_registry::user::AUTHENTICATED;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::OnceLock;

/// A key that protects nothing.
const KEY: &str = include_str!("../../testdata/token-keys/ec.pkcs8.pem");
/// The time at which tokens are checked, in seconds since 1970.
pub(super) const NOW: i64 = 1_000_000;
/// The accepted issuer and audience of service account tokens.
pub(super) const NAME: &str = "https://kubernetes.default.svc";

/// The known key: as it signs, and as an uncompressed public point.
struct KnownKey {
    tokens: Tokens,
    encoding: EncodingKey,
    point: Vec<u8>,
}

/// A cluster's tokens with the known key.
pub(super) fn tokens() -> Tokens {
    let signing = SigningKey::from_pem(KEY.as_bytes()).expect("a key of P-256");
    let public = vec![signing.public().clone()];
    Tokens::with(signing, public, vec![NAME.to_owned()], Vec::new()).expect("there is an issuer")
}

fn known() -> &'static KnownKey {
    static KNOWN: OnceLock<KnownKey> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let tokens = tokens();
        let body: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(body).expect("a PEM block is base64");
        let set = tokens.key_set();
        let coordinate = |name: &str| {
            URL_SAFE_NO_PAD.decode(set["keys"][0][name].as_str().expect("a coordinate")).expect("base64")
        };
        let point = [vec![4], coordinate("x"), coordinate("y")].concat();
        KnownKey { tokens, encoding: EncodingKey::from_ec_der(&der), point }
    })
}

/// A token with this header and these claims, signed by the known key whatever the header says.
pub(super) fn sign(header: &str, claims: &str) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &known().encoding, Algorithm::ES256);
    format!("{message}.{}", signature.expect("the key signs"))
}

/// The known key as a JSON Web Key.
pub(super) fn web_key() -> Value {
    known().tokens.key_set()["keys"][0].clone()
}

/// The claims of a token whose signature `ring` verifies with the known key, and whose header says ES256.
pub(super) fn signed_claims(token: &str) -> Option<Value> {
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
    let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &known().point);
    key.verify(message.as_bytes(), &decode(signature)?).ok()?;
    let claims = serde_json::from_slice(&decode(claims)?).ok()?;
    (header["alg"] == "ES256" && header.is_object()).then_some(claims)
}

/// Checks tokens: the bytes themselves, and their lines as the header and the claims of a token that the known key
/// signs. A token must be accepted only if the known key signed it as it is, for this audience and time.
pub fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    check_token(&text);
    let (header, claims) = text.split_once('\n').unwrap_or(("{\"alg\":\"ES256\"}", &text));
    let token = sign(header, claims);
    check_token(&token);
    // One other character anywhere makes it a token that no key signed.
    let at =
        bytes.iter().fold(bytes.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
            % token.len();
    let other = if token.as_bytes()[at] == b'A' { "B" } else { "A" };
    let altered = [&token[..at], other, &token[at + 1..]].concat();
    assert!(known().tokens.verify(&altered).is_err(), "an altered token: {altered}");
    assert!(oidc::user(&altered).is_err(), "an altered token: {altered}");
}

fn check_token(token: &str) {
    let signed = signed_claims(token);
    if let Ok(claims) = known().tokens.verify(token) {
        let raw = signed.as_ref().expect("an accepted token is signed by a known key");
        assert_eq!(raw["iss"], NAME, "an accepted token is of a known issuer");
        let now = Timestamp::from_second(NOW).expect("a time");
        if claims.accept(&[NAME], now).is_ok() {
            let begins = raw["nbf"].as_i64().expect("a number");
            assert!(begins <= NOW && NOW < raw["exp"].as_i64().expect("a number"), "{raw}");
            let audiences = raw["aud"].as_array().expect("a list");
            assert!(audiences.iter().any(|audience| audience == NAME), "{raw}");
        }
    }
    if let Ok(user) = oidc::user(token) {
        oidc::check(&user, &signed.expect("an accepted token is signed by a known key"));
    }
}

/// Checks that a certificate names a user or none: a user has a name, is in the group of authenticated users once,
/// and carries the digest of exactly these bytes.
pub fn certificate(bytes: &[u8]) {
    let Some(identity) = x509::identity(bytes) else { return };
    let user = &identity.user;
    assert!(!user.username.is_empty(), "a user has a name");
    assert!(user.is_in(AUTHENTICATED));
    let digest = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let shown: Vec<&String> = user.extra.values().flatten().collect();
    assert_eq!(shown, [&format!("X509SHA256={digest}")]);
    let again = x509::identity(bytes).expect("the same bytes");
    assert_eq!((&again.user, again.expires), (user, identity.expires));
    // The name and the groups are texts of the certificate.
    let is_in = |text: &str| bytes.windows(text.len().max(1)).any(|window| window == text.as_bytes());
    assert!(is_in(&user.username), "{}", user.username);
    let groups = user.groups.iter().filter(|group| *group != AUTHENTICATED && !group.is_empty());
    groups.for_each(|group| assert!(is_in(group), "{group}"));
}

/// Checks that a text is a configuration or refused with a reason, and that it is the same after being printed and
/// parsed. Its expressions are compiled and evaluated; a user that they make has a name and is authenticated.
pub fn authentication_config(bytes: &[u8]) {
    let file = match AuthenticationFile::parse(bytes) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    let printed = printed(&file).to_string();
    assert_eq!(AuthenticationFile::parse(printed.as_bytes()).as_ref(), Ok(&file), "{printed}");
    for issuer in file.issuers.iter().take(4) {
        assert!(issuer.url.starts_with("https://") && !issuer.audiences.is_empty(), "{issuer:?}");
        oidc::map_claims(issuer);
    }
}

/// A file with this content.
fn printed(file: &AuthenticationFile) -> Value {
    let mut document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": file.issuers.iter().map(printed_issuer).collect::<Vec<_>>(),
    });
    if let Some(anonymous) = &file.anonymous {
        document["anonymous"] = match anonymous {
            AnonymousAccess::Everywhere => json!({"enabled": true}),
            AnonymousAccess::Nowhere => json!({"enabled": false}),
            AnonymousAccess::Paths(paths) => {
                let conditions: Vec<Value> = paths.iter().map(|path| json!({"path": path})).collect();
                json!({"enabled": true, "conditions": conditions})
            }
        };
    }
    document
}

fn printed_issuer(issuer: &IssuerConfig) -> Value {
    let source = |source: &Source, has_prefix: bool| match source {
        Source::Expression(expression) => json!({"expression": expression}),
        Source::Claim { claim, prefix } if has_prefix => json!({"claim": claim, "prefix": prefix}),
        Source::Claim { claim, .. } => json!({"claim": claim}),
    };
    let of = &issuer.mapping;
    let mut mappings = json!({"username": source(&of.username, true)});
    if let Some(groups) = &of.groups {
        mappings["groups"] = source(groups, true);
    }
    if let Some(uid) = &of.uid {
        mappings["uid"] = source(uid, false);
    }
    mappings["extra"] =
        of.extra.iter().map(|(key, text)| json!({"key": key, "valueExpression": text})).collect();
    let claim_rule = |rule: &ClaimRule| match rule {
        ClaimRule::Required { claim, value } => json!({"claim": claim, "requiredValue": value}),
        ClaimRule::Expression { expression, message } => {
            json!({"expression": expression, "message": message})
        }
    };
    let user_rules =
        of.user_rules.iter().map(|rule| json!({"expression": rule.expression, "message": rule.message}));
    let mut written = json!({
        "url": issuer.url, "audiences": issuer.audiences, "audienceMatchPolicy": "MatchAny",
        "certificateAuthority": String::from_utf8_lossy(&issuer.authorities),
    });
    if let Some(url) = &issuer.discovery_url {
        written["discoveryURL"] = json!(url);
    }
    json!({
        "issuer": written,
        "claimMappings": mappings,
        "claimValidationRules": of.claim_rules.iter().map(claim_rule).collect::<Vec<_>>(),
        "userValidationRules": user_rules.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn corpus(target: &str, name: &str) -> Vec<u8> {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
        fs::read(folder.join(target).join(name)).unwrap()
    }

    fn signed(name: &str) -> String {
        let text = String::from_utf8(corpus("token", name)).unwrap();
        let (header, claims) = text.split_once('\n').unwrap();
        sign(header, claims)
    }

    /// The fuzzer starts with tokens and certificates that are accepted, and with some that are nearly.
    #[test]
    fn the_corpus_has_accepted_and_refused_credentials() {
        let now = Timestamp::from_second(NOW).unwrap();
        let account = |name: &str| {
            tokens().verify(&signed(name)).is_ok_and(|claims| claims.accept(&[NAME], now).is_ok())
        };
        assert!(account("account"));
        for refused in ["account_expired", "account_early", "account_audience", "none", "issuer"] {
            assert!(!account(refused), "{refused}");
        }
        for accepted in ["issuer", "issuer_audiences"] {
            assert_eq!(
                oidc::user(&signed(accepted)).map(|user| user.username),
                Ok("a@b".to_owned()),
                "{accepted}"
            );
        }
        for refused in [
            "issuer_unverified",
            "issuer_null",
            "issuer_early",
            "secret",
            "other_kind",
            "critical",
            "account",
        ] {
            assert!(oidc::user(&signed(refused)).is_err(), "{refused}");
        }
        let name = |name: &str| {
            x509::identity(&corpus("certificate", name)).map(|found| found.user.username.clone())
        };
        let found = ["user", "two", "ed", "utf8", "nameless"].map(name);
        let want = [Some("ann"), Some("last"), Some("system:node:a"), Some("ünïcode"), None];
        assert_eq!(found, want.map(|name| name.map(str::to_owned)));
        for name in ["claims", "expressions", "email", "anonymous", "off", "json", "unverified", "broken"] {
            let parsed = AuthenticationFile::parse(&corpus("authentication_config", name));
            assert!(parsed.is_ok(), "{name}: {parsed:?}");
        }
    }
}
