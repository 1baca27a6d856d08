//! Fuzz target for encryption at rest: arbitrary text is parsed as a configuration, and decrypted as a value.

use super::config::Configuration;
use super::live::Encryption;
use kstore_nondet::Rng;

/// A configuration with every local provider.
const LOCAL: &str = r#"{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [
    {"resources": ["secrets"], "providers": [
        {"aescbc": {"keys": [{"name": "a", "secret": "MDEyMzQ1Njc4OWFiY2RlZg=="}]}},
        {"aesgcm": {"keys": [{"name": "a", "secret": "MDEyMzQ1Njc4OWFiY2RlZg=="}]}},
        {"secretbox": {"keys": [{"name": "a", "secret": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}}]}]}"#;
const KEY: &str = "/registry/secrets/ns/s";

/// Checks that every text is a configuration or refused with a reason, that no value makes the ciphers panic,
/// and that every value is decrypted to what was encrypted.
pub fn encryption(bytes: &[u8]) {
    if let Err(error) = Configuration::parse(bytes, "f") {
        assert!(!error.to_string().is_empty(), "a refusal says why");
    }
    let _ = super::kms::decodes(bytes);
    let local = Configuration::parse(LOCAL.as_bytes(), "f").expect("the configuration above is valid");
    let encryption = Encryption::of(&local, "/registry", Rng::seeded(1));
    let transformers = encryption.transformers();
    let providers = transformers.of_key(KEY).expect("Secrets are encrypted");
    let key = encryption.stored_key(KEY);
    for prefix in ["", "k8s:enc:aescbc:v1:a:", "k8s:enc:aesgcm:v1:a:", "k8s:enc:secretbox:v1:a:"] {
        let _ = providers.open(&[prefix.as_bytes(), bytes].concat().into(), &key);
    }
    let plain = bytes::Bytes::copy_from_slice(bytes);
    let sealed = providers.seal(&plain, &key, &encryption.rng).expect("a local provider encrypts");
    let opened = providers.open(&sealed, &key).expect("the key is listed");
    assert_eq!(opened.plain, plain);
}
