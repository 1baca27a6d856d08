//! Tokens of real issuers, valid and forged.

use super::*;
use crate::token::Tokens;
use jsonwebtoken::{EncodingKey, Header};
use kstore_registry::outbound::test_server::{Reply, TestServer};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::{AtomicU16, Ordering};

const NOW: i64 = 1_000_000;

/// An issuer on loopback, with its signing key.
struct Provider {
    server: TestServer,
    keys: Arc<Mutex<Value>>,
    key: EncodingKey,
    kid: String,
}

fn key() -> (EncodingKey, Value) {
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let der = pair.serialize_der();
    (EncodingKey::from_ec_der(&der), Tokens::new(&der).unwrap().key_set())
}

async fn provider() -> Provider {
    let (key, set) = key();
    let (port, keys) = (Arc::new(AtomicU16::new(0)), Arc::new(Mutex::new(set.clone())));
    let server = TestServer::start({
        let (port, keys) = (port.clone(), keys.clone());
        move |received| {
            let issuer = format!("https://127.0.0.1:{}", port.load(Ordering::Relaxed));
            if received.head.starts_with("GET /.well-known/openid-configuration ") {
                Reply::json(&json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}))
            } else if received.head.starts_with("GET /keys ") {
                Reply::json(&keys.lock())
            } else {
                Reply::Answer(404, String::new())
            }
        }
    })
    .await;
    port.store(server.port, Ordering::Relaxed);
    let kid = set["keys"][0]["kid"].as_str().unwrap().to_owned();
    Provider { server, keys, key, kid }
}

impl Provider {
    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.server.port)
    }

    fn config(&self) -> IssuerConfig {
        IssuerConfig {
            url: self.url(),
            discovery_url: None,
            authorities: self.server.authority.clone().into(),
            audiences: vec!["kube".to_owned()],
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
            mapping: MappingConfig {
                username: Source::Claim { claim: "sub".to_owned(), prefix: "p:".to_owned() },
                groups: None,
                uid: None,
                extra: vec![],
                claim_rules: vec![],
                user_rules: vec![],
            },
        }
    }

    fn claims(&self) -> Value {
        json!({"iss": self.url(), "aud": "kube", "sub": "ann", "exp": NOW + 60})
    }

    fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.kid.clone()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

async fn name(issuers: &Issuers, token: &str) -> Result<Option<String>, String> {
    let now = Timestamp::from_second(NOW).unwrap();
    Ok(issuers.identity(token, now).await?.map(|user| user.username.clone()))
}

#[tokio::test]
async fn a_valid_token_authenticates_its_user_and_keys_are_fetched_once() {
    let provider = provider().await;
    let issuers = Issuers::new(vec![provider.config()]).unwrap();
    let token = provider.sign(&provider.claims());
    for _ in 0..3 {
        assert_eq!(name(&issuers, &token).await, Ok(Some("p:ann".to_owned())));
    }
    assert_eq!(provider.server.count(), 2, "the configuration and the keys");
    assert_eq!(issuers.expires(&token), Timestamp::from_second(NOW + 60).ok());
    let mut several = provider.claims();
    several["aud"] = json!(["other", "kube"]);
    assert!(name(&issuers, &provider.sign(&several)).await.unwrap().is_some());
}

#[tokio::test]
async fn forged_and_invalid_tokens_are_refused() {
    let provider = provider().await;
    let issuers = Issuers::new(vec![provider.config()]).unwrap();
    let good = provider.sign(&provider.claims());
    let changed = |field: &str, value: Value| {
        let mut claims = provider.claims();
        claims[field] = value;
        provider.sign(&claims)
    };
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let parts: Vec<&str> = good.split('.').collect();
    let none = format!("{}.{}.", part(&json!({"alg": "none", "typ": "JWT"})), parts[1]);
    let unsigned = format!("{}.{}.", parts[0], parts[1]);
    let public = EncodingKey::from_secret(provider.keys.lock().to_string().as_bytes());
    let confused = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &provider.claims(), &public).unwrap();
    let mut other = provider.claims();
    other["sub"] = json!("root");
    let exchanged = format!("{}.{}.{}", parts[0], part(&other), parts[2]);
    let (foreign, _) = key();
    let foreign = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &provider.claims(), &foreign).unwrap();
    let as_p384 =
        format!("{}.{}.{}", part(&json!({"alg": "ES384", "kid": provider.kid})), parts[1], parts[2]);
    let header = part(&json!({"alg": "ES256", "kid": provider.kid, "crit": ["b64"], "b64": false}));
    let signed = format!("{header}.{}", parts[1]);
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &provider.key, Algorithm::ES256).unwrap();
    let extended = format!("{signed}.{signature}");
    let as_rsa = format!("{}.{}.{}", part(&json!({"alg": "RS256", "kid": provider.kid})), parts[1], parts[2]);
    for (token, want) in [
        (changed("aud", json!("other")), "expected an audience"),
        (changed("aud", json!(null)), "expected an audience"),
        (changed("exp", json!(NOW)), "token is expired"),
        (changed("exp", json!(null)), "the token has no expiry"),
        (changed("exp", json!("later")), "the token has no expiry"),
        (changed("nbf", json!(NOW + 301)), "not valid yet"),
        (none, "invalid header"),
        (unsigned, "no key of the issuer"),
        (confused, "which is not allowed"),
        (exchanged, "no key of the issuer"),
        (foreign, "no key of the issuer"),
        (as_rsa, "no key of the issuer"),
        (as_p384, "no key of the issuer"),
        (extended, "unsupported crit header"),
    ] {
        let refused = name(&issuers, &token).await.unwrap_err();
        assert!(refused.contains(want), "{want}: {refused}");
    }
    for stranger in [
        changed("iss", json!("https://elsewhere")),
        "a.b.c".to_owned(),
        String::new(),
        "x".repeat(1 << 20),
        format!("{good}.x"),
    ] {
        assert_eq!(name(&issuers, &stranger).await, Ok(None));
    }
    let huge = changed("padding", json!("x".repeat(limits::OIDC_TOKEN_BYTES)));
    assert_eq!(name(&issuers, &huge).await, Ok(None), "too long to be decoded");
    assert!(provider.server.count() <= 4, "tokens cannot make the server fetch again and again");
}

#[tokio::test]
async fn rotated_keys_of_an_issuer_are_fetched() {
    let mut provider = provider().await;
    let issuers = Issuers::new(vec![provider.config()]).unwrap();
    assert!(name(&issuers, &provider.sign(&provider.claims())).await.is_ok());
    let (next, set) = key();
    (provider.key, provider.kid) = (next, set["keys"][0]["kid"].as_str().unwrap().to_owned());
    *provider.keys.lock() = set;
    let token = provider.sign(&provider.claims());
    assert!(name(&issuers, &token).await.is_err(), "they were fetched a moment ago");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_millis(5100)).await;
    tokio::time::resume();
    assert_eq!(name(&issuers, &token).await, Ok(Some("p:ann".to_owned())));
}

#[tokio::test]
async fn an_issuer_must_be_reachable_and_name_itself_in_its_configuration() {
    let provider = provider().await;
    let token = provider.sign(&provider.claims());
    let other = TestServer::start(|_| Reply::Hangup).await;
    let untrusted = IssuerConfig { authorities: other.authority.into(), ..provider.config() };
    let refused = name(&Issuers::new(vec![untrusted]).unwrap(), &token).await.unwrap_err();
    assert!(refused.contains("certificate signed by unknown authority"), "{refused}");
    let liar = TestServer::start(|_| {
        Reply::json(&json!({"issuer": "https://liar", "jwks_uri": "https://liar/keys"}))
    })
    .await;
    let discovery_url = Some(format!("https://127.0.0.1:{}/found", liar.port));
    let lying =
        IssuerConfig { discovery_url, authorities: liar.authority.clone().into(), ..provider.config() };
    let refused = name(&Issuers::new(vec![lying]).unwrap(), &token).await.unwrap_err();
    assert_eq!(refused, "the configuration document names the issuer \"https://liar\"");
    for (algorithms, url) in [
        (vec!["HS256".to_owned()], provider.url()),
        (vec!["none".to_owned()], provider.url()),
        (vec![], "http://plain".to_owned()),
    ] {
        assert!(Issuers::new(vec![IssuerConfig { algorithms, url, ..provider.config() }]).is_err());
    }
}

#[tokio::test]
async fn an_issuer_that_a_change_of_the_configuration_leaves_as_it_is_keeps_its_keys_and_counters() {
    let (kept, other) = (provider().await, provider().await);
    let first = Issuers::new(vec![kept.config(), other.config()]).unwrap();
    let token = kept.sign(&kept.claims());
    assert_eq!(name(&first, &token).await, Ok(Some("p:ann".to_owned())));
    let changed = IssuerConfig { audiences: vec!["other".to_owned()], ..other.config() };
    let second = first.replaced(vec![changed, kept.config()]).unwrap();
    // A new issuer would have to ask for the key set, which is empty now.
    *kept.keys.lock() = json!({"keys": []});
    assert_eq!(name(&second, &token).await, Ok(Some("p:ann".to_owned())));
    let refused = name(&second, &other.sign(&other.claims())).await.unwrap_err();
    assert!(refused.contains("expected an audience"), "{refused}");
    let third = second.replaced(vec![]).unwrap();
    assert_eq!(name(&third, &token).await, Ok(None));
    let mut page = String::new();
    third.render_metrics(&mut Page::new(&mut page));
    assert!(page.contains("result=\"success\"} 2\n"), "{page}");
}
