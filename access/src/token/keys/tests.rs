//! Tests that all encodings of a key yield the same key, and that tokens of both algorithms are verified.

use super::*;
use crate::token::{Bound, Claims, Refused, Tokens};
use jiff::Timestamp;

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../../testdata/token-keys/", $name, ".pem")).as_slice()
    };
}

const EC: [&[u8]; 4] = [pem!("ec.sec1"), pem!("ec.pkcs8"), pem!("ec.pub"), pem!("ec.crt")];
const RSA_KEYS: [&[u8]; 4] = [pem!("rsa.pkcs1"), pem!("rsa.pkcs8"), pem!("rsa.pub"), pem!("rsa.crt")];

fn claims() -> Claims {
    let account = Bound { name: "builder".into(), uid: "u1".into() };
    Claims::new(("ns", &account), &["a".to_owned()], Timestamp::UNIX_EPOCH, 600, "id".into())
}

#[test]
fn all_encodings_of_a_key_yield_the_same_key() {
    for (forms, algorithm) in [(EC, "ES256"), (RSA_KEYS, "RS256")] {
        let keys: Vec<PublicKey> =
            forms.iter().flat_map(|pem| PublicKey::all_from_pem(pem).unwrap()).collect();
        assert_eq!(keys.len(), forms.len());
        assert!(keys.iter().all(|key| key.id() == keys[0].id()), "{keys:?}");
        assert_eq!(keys[0].algorithm_name(), algorithm);
        for private in &forms[..2] {
            assert_eq!(SigningKey::from_pem(private).unwrap().public().id(), keys[0].id());
        }
        for public in &forms[2..] {
            assert!(matches!(SigningKey::from_pem(public), Err(KeyError::NoKey)));
        }
    }
}

#[test]
fn only_tokens_of_listed_keys_are_accepted() {
    let issuers = || vec!["https://127.0.0.1:8/".to_owned(), "a/path".to_owned()];
    let public: Vec<PublicKey> =
        [EC[3], RSA_KEYS[2]].iter().flat_map(|pem| PublicKey::all_from_pem(pem).unwrap()).collect();
    let tokens = |signing: &[u8], public: &[PublicKey]| {
        let signing = SigningKey::from_pem(signing).unwrap();
        Tokens::with(signing, public.to_vec(), issuers(), Vec::new()).unwrap()
    };
    for signing in [EC[0], EC[1], RSA_KEYS[0], RSA_KEYS[1]] {
        let tokens = tokens(signing, &public);
        assert_eq!((tokens.issuer(), tokens.audiences()), ("https://127.0.0.1:8/", &issuers()[..]));
        for issuer in issuers() {
            let token = tokens.sign(&Claims { iss: issuer, ..claims() }).unwrap();
            assert_eq!(tokens.verify(&token).unwrap().sub, "system:serviceaccount:ns:builder");
        }
        let foreign = tokens.sign(&Claims { iss: "https://other".into(), ..claims() }).unwrap();
        assert_eq!(tokens.verify(&foreign), Err(Refused::Foreign), "another issuer");
        assert_eq!(tokens.key_set()["keys"].as_array().unwrap().len(), 2);
    }
    let unlisted = tokens(EC[0], &PublicKey::all_from_pem(RSA_KEYS[2]).unwrap());
    let token = unlisted.sign(&Claims { iss: issuers().remove(0), ..claims() }).unwrap();
    assert_eq!(unlisted.verify(&token), Err(Refused::Foreign), "the key that signs is not listed");
}

#[test]
fn unsupported_keys_are_refused() {
    assert!(matches!(SigningKey::from_pem(pem!("p384")), Err(KeyError::Algorithm)));
    assert!(matches!(PublicKey::all_from_pem(pem!("p384")), Err(KeyError::Algorithm)));
    assert!(matches!(PublicKey::all_from_pem(b"nothing"), Err(KeyError::NoKey)));
    for cut in [0, 1, 10, 40, 100] {
        let bytes = [&[0x30, 0x81][..], &vec![0x7f; cut]].concat();
        assert!(SigningKey::pkcs8(&bytes).is_err(), "{cut} bytes");
    }
}
