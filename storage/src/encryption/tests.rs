//! Tests of the ciphers against published and independently made vectors, of rotation, and of the storage.

use super::config::Configuration;
use super::keyring::Cipher;
use super::live::Encryption;
use super::open_error::OpenError;
use super::transformer::{OpenFailure, Opened, Transformers};
use super::{aescbc, aesgcm, secretbox};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kstore_nondet::Rng;
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};

const KEY: &str = "/registry/secrets/ns/s";
const PLAIN: &[u8] = br#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"ns"}}"#;

fn hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A configuration of secrets with these providers, as YAML in one line.
fn config(providers: &str) -> Configuration {
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{{resources: [secrets], providers: [{providers}]}}]}}"
    );
    Configuration::parse(text.as_bytes(), "f").unwrap()
}

/// A provider with keys. The bytes of a key all equal the first byte of its name.
fn provider(cipher: &str, names: &[&str]) -> String {
    let key = |name: &&str| {
        let secret = STANDARD.encode([name.as_bytes()[0]; 32]);
        format!("{{name: {name:?}, secret: {secret}}}")
    };
    let keys: Vec<_> = names.iter().map(key).collect();
    format!("{cipher}: {{keys: [{}]}}", keys.join(", "))
}

fn providers(list: &[(&str, &[&str])]) -> String {
    let each = list.iter().map(|(cipher, names)| match *cipher {
        "identity" => "{identity: {}}".to_owned(),
        cipher => format!("{{{}}}", provider(cipher, names)),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn transformers(list: &[(&str, &[&str])]) -> Transformers {
    Transformers::of(&config(&providers(list)), &Rng::seeded(1))
}

fn seal(by: &Transformers) -> Bytes {
    by.of_key(KEY).unwrap().seal(&PLAIN.into(), KEY.as_bytes(), &Rng::seeded(1)).unwrap()
}

fn open(by: &Transformers, stored: &Bytes) -> Result<Opened, OpenError> {
    by.of_key(KEY).unwrap().open(stored, KEY.as_bytes()).map_err(error_of)
}

fn error_of(failure: OpenFailure) -> OpenError {
    match failure {
        OpenFailure::Error(error) => error,
        OpenFailure::NeedsSeed(..) => panic!("there is no service"),
    }
}

/// Values of `openssl` by way of Python's `cryptography`: key 00 01 02 …, fixed nonces, the storage key as
/// associated data.
#[test]
fn values_of_another_implementation_are_decrypted() {
    let key: Vec<u8> = (0..32).collect();
    for (cipher, size, value) in [
        (
            Cipher::AesCbc,
            16,
            "ZGVmZ2hpamtsbW5vcHFyc4Ta5k9vNkIdCCjIo9IMTyc7GtrsMUSXV66cdiU0M9Yr7Wvl6DLh6rnO3tQUEsHf5LG4lyGutBj9kebYnXAp9viUEnUKRnLYpImSJuuwMMwd",
        ),
        (
            Cipher::AesCbc,
            24,
            "ZGVmZ2hpamtsbW5vcHFyc1Lvwm52f02IUjafZeutxoxLRRDO05fTk+IK5NmwKRDxVUH2BrM6YpOTggd1Kl7dhk9CNytuAx6w0iFOwB8oYpaeDVIXkU4yeAtJ/gLnXhMr",
        ),
        (
            Cipher::AesCbc,
            32,
            "ZGVmZ2hpamtsbW5vcHFyc0QoOoqApFy6KZZrYKXFvasp35TE4haRLi3SFEIHB78Ntsmdtx9k+K2Ao4Uxa0t+fHWYyxnWmizde7RVIBcOdH6dmXhUVcESVXrfSC2ns9Ys",
        ),
        (
            Cipher::AesGcm,
            16,
            "MjM0NTY3ODk6Ozw9yhxko9KWYFALX/RpumJoWuwh32Mdv7eMs223wLajFIOrmmNUKUg996R+jrvKyMcPU3vE1NAyFQcv5jWnqVGxXP9/2P6GEoaCjRmnqsy2k9yKZ1nZnPJjoMll3mI=",
        ),
        (
            Cipher::AesGcm,
            24,
            "MjM0NTY3ODk6Ozw9HSuMRbKHT6Hxyg7HoOqqi9OvIo+CAvq8klMDd9J+sSKOsEWfbL8JJ65I+2IqMdw4G2IBErvtbqIWX7IlnETe2kcMxbS7aMBPTlCxNnH/qDcpa59WHyMBbLoOras=",
        ),
        (
            Cipher::AesGcm,
            32,
            "MjM0NTY3ODk6Ozw9vXmEqatYo9lPVI/lKYiL2kqRevHgG8KZonNk9pUJuQQSIuZpeoZzz/VtDr6GXJjPkZWKiPD2cka4d5M8LknrUrrVuZsEUd5NqnAySCD+ZeRmEUbwJd0ytc6yzvg=",
        ),
    ] {
        let sealed = STANDARD.decode(value).unwrap();
        let key = &key[..size];
        let opened = match cipher {
            Cipher::AesCbc => aescbc::open(key, &sealed),
            Cipher::AesGcm | Cipher::Secretbox => aesgcm::open(key, &sealed, KEY.as_bytes()),
        };
        assert_eq!(opened.unwrap(), PLAIN, "{cipher:?} {size}");
    }
}

/// Test case 4 of McGrew and Viega's specification of GCM; the example of NaCl's documentation of secretbox.
#[test]
fn published_vectors_are_decrypted() {
    let gcm = "cafebabefacedbaddecaf88842831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
        21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47";
    let opened = aesgcm::open(
        &hex("feffe9928665731c6d6a8f9467308308"),
        &hex(gcm),
        &hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
    );
    let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    assert_eq!(opened.unwrap(), hex(plain));

    let nacl = "69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37\
        f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a\
        c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae\
        90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74e355a5";
    let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
    let plain = "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c6129\
        6cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde\
        048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705";
    assert_eq!(secretbox::open(&key, &hex(nacl)).unwrap(), hex(plain));
}

#[test]
fn stored_values_begin_with_the_cipher_and_the_name_of_the_key() {
    for (cipher, prefix) in [
        ("aescbc", "k8s:enc:aescbc:v1:a:"),
        ("aesgcm", "k8s:enc:aesgcm:v1:a:"),
        ("secretbox", "k8s:enc:secretbox:v1:a:"),
    ] {
        let by = transformers(&[(cipher, &["a", "b"])]);
        let stored = seal(&by);
        assert!(stored.starts_with(prefix.as_bytes()), "{stored:?}");
        assert_eq!(open(&by, &stored).unwrap(), Opened { plain: PLAIN.into(), stale: false });
    }
    let plain = transformers(&[("identity", &[]), ("aescbc", &["a"])]);
    assert_eq!(seal(&plain), PLAIN);
}

#[test]
fn values_of_other_providers_and_keys_than_the_first_are_stale() {
    let old = seal(&transformers(&[("aescbc", &["a"])]));
    let stale = |list: &[(&str, &[&str])], stored: &Bytes| open(&transformers(list), stored).map(|o| o.stale);
    assert_eq!(stale(&[("aescbc", &["a", "b"])], &old), Ok(false));
    assert_eq!(stale(&[("aescbc", &["b", "a"])], &old), Ok(true));
    assert_eq!(stale(&[("aesgcm", &["a"]), ("aescbc", &["a"])], &old), Ok(true));
    // Two providers of one cipher: the first one's failure does not keep the second from trying.
    assert_eq!(stale(&[("aescbc", &["b"]), ("aescbc", &["a"])], &old), Ok(true));
    // Away from encryption.
    assert_eq!(stale(&[("identity", &[]), ("aescbc", &["a"])], &old), Ok(true));
    let plain = Bytes::from_static(PLAIN);
    assert_eq!(stale(&[("aescbc", &["a"]), ("identity", &[])], &plain), Ok(true));
    assert_eq!(stale(&[("identity", &[]), ("aescbc", &["a"])], &plain), Ok(false));
}

#[test]
fn values_that_cannot_be_decrypted_have_the_errors_of_kubernetes() {
    let by = |cipher: &str| transformers(&[(cipher, &["a"])]);
    let error = |cipher: &str, stored: &[u8]| {
        open(&by(cipher), &Bytes::copy_from_slice(stored)).unwrap_err().to_string()
    };
    let short = "the stored data was shorter than the required size";
    let foreign_key = |cipher: &str| error(cipher, &seal(&transformers(&[(cipher, &["b"])])));
    assert_eq!(foreign_key("aescbc"), "no matching key was found for the provided AES transformer");
    assert_eq!(foreign_key("secretbox"), "no matching key was found for the provided Secretbox transformer");
    assert_eq!(error("aescbc", PLAIN), "no matching prefix found");
    assert_eq!(error("aescbc", b"k8s:enc:kms:v1:x:"), "no matching prefix found");
    for cipher in ["aescbc", "aesgcm", "secretbox"] {
        assert_eq!(error(cipher, format!("k8s:enc:{cipher}:v1:a:1234").as_bytes()), short);
        // A key of the same name with other bytes.
        let mut other = config(&providers(&[(cipher, &["b"])]));
        let super::config::ProviderConfig::Local(keyring) = &mut other.rules[0].providers[0] else {
            panic!()
        };
        keyring.keys[0].name = "a".to_owned();
        let text = error(cipher, &seal(&Transformers::of(&other, &Rng::seeded(1))));
        let want = match cipher {
            "aescbc" => ["invalid padding on input", "invalid PKCS7 data (empty or not padded)"],
            "aesgcm" => ["cipher: message authentication failed"; 2],
            _ => ["output array was not large enough for encryption"; 2],
        };
        assert!(want.contains(&text.as_str()), "{cipher}: {text}");
    }
    let body = |length: usize| [b"k8s:enc:aescbc:v1:a:".to_vec(), vec![0; length]].concat();
    assert_eq!(error("aescbc", &body(20)), "the stored data is not a multiple of the block size");
    assert_eq!(error("aescbc", &body(16)), "invalid PKCS7 data (empty or not padded)");
    let moved = by("aesgcm").of_key(KEY).unwrap().open(&seal(&by("aesgcm")), b"/registry/secrets/ns/other");
    assert_eq!(
        moved.map_err(error_of).unwrap_err(),
        OpenError::Authentication,
        "a value is bound to its key"
    );
}

#[test]
fn a_name_takes_precedence_over_its_group_and_a_group_over_everything() {
    let entry = |resources: &str, key: &str| {
        format!("{{resources: [{resources}], providers: [{}]}}", providers(&[("aescbc", &[key])]))
    };
    let text = format!(
        "{{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{}, {}, {}, {}]}}",
        entry("secrets, widgets.example.com", "named"),
        entry("'*.'", "core"),
        entry("'*.apps'", "apps"),
        entry("'*.*'", "rest"),
    );
    let by = Transformers::of(&Configuration::parse(text.as_bytes(), "f").unwrap(), &Rng::seeded(1));
    for (key, want) in [
        ("/registry/secrets/ns/s", Some("named")),
        ("/registry/example.com/widgets/ns/w", Some("named")),
        ("/registry/configmaps/ns/c", Some("core")),
        ("/registry/services/specs/ns/c", Some("core")),
        ("/registry/events/ns/e", Some("core")),
        ("/registry/deployments/ns/d", Some("apps")),
        ("/registry/example.com/gadgets/ns/w", Some("rest")),
        ("/registry/leases/ns/l", Some("rest")),
        ("/registry/unknown", None),
        ("/elsewhere", None),
    ] {
        let stored =
            by.of_key(key).map(|by| by.seal(&PLAIN.into(), key.as_bytes(), &Rng::seeded(1)).unwrap());
        let name = stored.as_deref().map(|stored| {
            let text = String::from_utf8_lossy(stored).into_owned();
            text.split(':').nth(4).unwrap().to_owned()
        });
        assert_eq!(name.as_deref(), want, "{key}");
    }
}

#[test]
fn the_prefix_of_the_storage_replaces_that_of_keys() {
    for (root, want) in [("/registry", KEY), ("registry/", KEY), ("/clusters/a", "/clusters/a/secrets/ns/s")]
    {
        let encryption = Encryption::of(&config("{identity: {}}"), root, Rng::seeded(1));
        assert_eq!(encryption.stored_key(KEY), want.as_bytes());
    }
}

fn any_keyring() -> impl Strategy<Value = (&'static str, Vec<&'static str>)> {
    let names = prop::sample::subsequence(vec!["a", "b", "c", "d:e", "f"], 1..4);
    let cipher = prop::sample::select(vec!["aescbc", "aesgcm", "secretbox", "identity"]);
    (cipher, names)
}

proptest! {
    /// A value written under any configuration is readable as long as a later one lists its key.
    #[test]
    fn rotations_keep_every_value_readable_while_its_key_is_listed(
        steps in prop::collection::vec(prop::collection::vec(any_keyring(), 1..4), 1..6),
    ) {
        let mut written: Vec<(Bytes, (&str, &str))> = Vec::new();
        for step in &steps {
            let list: Vec<_> = step.iter().map(|(cipher, names)| (*cipher, &names[..])).collect();
            let by = transformers(&list);
            let first = (step[0].0, step[0].1[0]);
            written.push((seal(&by), first));
            for (stored, (cipher, name)) in &written {
                let listed = |(other, names): &&(&str, Vec<&str>)| {
                    other == cipher && (*cipher == "identity" || names.contains(name))
                };
                let opened = open(&by, stored);
                prop_assert_eq!(opened.is_ok(), step.iter().any(|entry| listed(&entry)));
                if let Ok(opened) = opened {
                    prop_assert_eq!(&opened.plain[..], PLAIN);
                    let is_first = *cipher == first.0 && (*cipher == "identity" || *name == first.1);
                    prop_assert_eq!(opened.stale, !is_first);
                }
            }
        }
    }

    /// No bytes make the decoders panic, and a changed byte is never taken for the value by an authenticated
    /// cipher.
    #[test]
    fn tampered_values_are_refused(
        cipher in prop::sample::select(vec!["aescbc", "aesgcm", "secretbox"]),
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
        tail in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let by = transformers(&[(cipher, &["a"])]);
        let mut stored = seal(&by).to_vec();
        let at = at.index(stored.len());
        stored[at] ^= 1 << bit;
        let opened = open(&by, &stored.into());
        prop_assert!(cipher == "aescbc" || opened.is_err());
        let _ = open(&by, &[format!("k8s:enc:{cipher}:v1:a:").as_bytes(), &tail].concat().into());
    }
}

#[test]
fn a_keyring_debugs_without_its_keys() {
    let config = config(&providers(&[("aescbc", &["a"])]));
    let shown = format!("{:?} {config:?}", Transformers::of(&config, &Rng::seeded(1)));
    assert!(shown.contains("32 bytes") && !shown.contains("97"), "{shown}");
}
