//! Service account tokens that must be refused, as a table: each differs in one thing from a token that is accepted.
//! Those of OpenID Connect issuers are in `oidc::tests`.

use super::fuzzing::{NAME, NOW, sign, tokens};
use super::service_account::{TokenAuthenticator, Unknown};
use crate::token::Refused;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use kstore_registry::testing::MapLookup;
use serde_json::{Value, json};
use std::sync::Arc;

const ES256: &str = r#"{"alg":"ES256"}"#;

fn claims() -> Value {
    json!({
        "iss": NAME, "aud": [NAME], "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 60, "jti": "id",
        "sub": "system:serviceaccount:ns:builder",
        "kubernetes.io": {
            "namespace": "ns",
            "serviceaccount": {"name": "builder", "uid": "u1"},
            "pod": {"name": "p", "uid": "u2"},
        },
    })
}

fn object(kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "ns", "name": name, "uid": uid}})
}

fn cluster() -> Vec<Value> {
    vec![object("ServiceAccount", "builder", "u1"), object("Pod", "p", "u2")]
}

fn identity(token: &str, cluster: Vec<Value>) -> Result<String, Unknown> {
    let authenticator = TokenAuthenticator::new(Arc::new(tokens()));
    let now = Timestamp::from_second(NOW).unwrap();
    let found = authenticator.identity(token, &[], &*MapLookup::of(cluster), now);
    found.map(|(user, _)| user.username.clone())
}

/// The accepted token with one member of its claims changed.
fn changed(member: &str, value: Value) -> String {
    let mut claims = claims();
    claims[member] = value;
    sign(ES256, &claims.to_string())
}

#[test]
fn hostile_service_account_tokens_are_refused() {
    let good = sign(ES256, &claims().to_string());
    assert_eq!(identity(&good, cluster()), Ok("system:serviceaccount:ns:builder".to_owned()));
    let parts: Vec<&str> = good.split('.').collect();
    let with_header = |header: &str| sign(header, &claims().to_string());
    let published = tokens().key_set().to_string();
    let secret = EncodingKey::from_secret(published.as_bytes());
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let stranger = EncodingKey::from_ec_der(&key.serialize_der());
    let by =
        |algorithm, key: &EncodingKey| jsonwebtoken::encode(&Header::new(algorithm), &claims(), key).unwrap();
    let admin = claims().to_string().replace("builder", "admin");
    let foreign = Unknown::Refused(Refused::Foreign);
    let table = [
        ("the algorithm is none, with a signature", with_header(r#"{"alg":"none"}"#), foreign),
        ("the algorithm is None", with_header(r#"{"alg":"None"}"#), foreign),
        (
            "the algorithm is none, without a signature",
            format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), parts[1]),
            foreign,
        ),
        ("there is no signature", format!("{}.{}.", parts[0], parts[1]), foreign),
        ("there are two parts", format!("{}.{}", parts[0], parts[1]), foreign),
        ("there are four parts", format!("{good}.x"), foreign),
        ("there is no algorithm", with_header("{}"), foreign),
        ("the header is a list", with_header("[]"), foreign),
        ("the published key is the secret", by(Algorithm::HS256, &secret), foreign),
        ("another key signed it", by(Algorithm::ES256, &stranger), foreign),
        ("the algorithm is of another kind of key", with_header(r#"{"alg":"RS256"}"#), foreign),
        ("the algorithm is of another curve", with_header(r#"{"alg":"ES384"}"#), foreign),
        (
            "the claims are of another token",
            format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(admin), parts[2]),
            foreign,
        ),
        ("it is long and not signed", format!("{good}{}", "A".repeat(1 << 20)), foreign),
        ("the issuer is another one", changed("iss", json!("https://elsewhere")), foreign),
        ("there is no issuer", changed("iss", json!(null)), foreign),
        ("the expiry is a text", changed("exp", json!("later")), foreign),
        ("there is no account", changed("kubernetes.io", json!({"namespace": "ns"})), foreign),
        (
            "the audience is another one",
            changed("aud", json!(["vault"])),
            Unknown::Refused(Refused::Audience),
        ),
        ("there is no audience", changed("aud", json!([])), Unknown::Refused(Refused::Audience)),
        ("it expires now", changed("exp", json!(NOW)), Unknown::Refused(Refused::Expired)),
        ("it expired", changed("exp", json!(-1)), Unknown::Refused(Refused::Expired)),
        ("it is not valid yet", changed("nbf", json!(NOW + 1)), Unknown::Refused(Refused::NotYet)),
    ];
    for (what, token, want) in table {
        assert_eq!(identity(&token, cluster()), Err(want), "{what}");
    }
}

#[test]
fn tokens_of_deleted_objects_are_refused() {
    let good = sign(ES256, &claims().to_string());
    let leaving = |kind: &str, name: &str, uid: &str, at: &str| {
        let mut object = object(kind, name, uid);
        object["metadata"]["deletionTimestamp"] = json!(at);
        object
    };
    let account = || object("ServiceAccount", "builder", "u1");
    let pod = || object("Pod", "p", "u2");
    // NOW is 1970-01-12T13:46:40Z; an object counts as present for a minute after its deletion.
    let (long_ago, just_now) = ("1970-01-12T13:45:40Z", "1970-01-12T13:45:41Z");
    for (what, objects, want) in [
        ("the account is deleted", vec![pod()], Some("the account")),
        (
            "the account is a new one",
            vec![object("ServiceAccount", "builder", "u9"), pod()],
            Some("the account"),
        ),
        (
            "the account is leaving",
            vec![leaving("ServiceAccount", "builder", "u1", long_ago), pod()],
            Some("the account"),
        ),
        ("the pod is deleted", vec![account()], Some("the pod")),
        ("the pod is a new one", vec![account(), object("Pod", "p", "u9")], Some("the pod")),
        ("the pod has another name", vec![account(), object("Pod", "q", "u2")], Some("the pod")),
        ("the pod is leaving", vec![account(), leaving("Pod", "p", "u2", long_ago)], Some("the pod")),
        ("the pod left a moment ago", vec![account(), leaving("Pod", "p", "u2", just_now)], None),
    ] {
        let found = identity(&good, objects).map(drop);
        assert_eq!(found, want.map_or(Ok(()), |object| Err(Unknown::Gone(object))), "{what}");
    }
}
