//! NaCl's secretbox, XSalsa20-Poly1305: a random nonce of 24 bytes, the tag, then the ciphertext. The storage
//! key is not authenticated.

use super::open_error::OpenError;
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};
use kstore_nondet::Rng;

const NONCE: usize = 24;
const TAG: usize = 16;
const KEY_SIZE: &str = "the configuration has keys of 32 bytes only";

/// Encrypts a value.
pub(super) fn seal(key: &[u8], plain: &[u8], rng: &Rng) -> Vec<u8> {
    let mut nonce = [0; NONCE];
    rng.fill_secret(&mut nonce);
    let cipher = XSalsa20Poly1305::new_from_slice(key).expect(KEY_SIZE);
    let body = cipher.encrypt(Nonce::from_slice(&nonce), plain).expect("memory holds the ciphertext");
    [&nonce[..], &body].concat()
}

/// Decrypts a value that [`seal`] or a kube-apiserver made.
pub(super) fn open(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    if sealed.len() < NONCE + TAG {
        return Err(OpenError::TooShort);
    }
    let (nonce, body) = sealed.split_at(NONCE);
    let cipher = XSalsa20Poly1305::new_from_slice(key).expect(KEY_SIZE);
    cipher.decrypt(Nonce::from_slice(nonce), body).map_err(|_| OpenError::Secretbox)
}
