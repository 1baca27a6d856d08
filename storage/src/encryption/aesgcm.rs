//! AES-GCM: a random nonce of 12 bytes, then the ciphertext with its tag. The storage key is authenticated
//! with the value, so that a value under another key cannot be decrypted.

use super::open_error::OpenError;
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Nonce, Payload};
use aes_gcm::aes::Aes192;
use aes_gcm::{Aes128Gcm, Aes256Gcm, AesGcm};
use kstore_nondet::Rng;

const NONCE: usize = 12;
const KEY_SIZE: &str = "AES keys have 16, 24 or 32 bytes";

/// Encrypts a value that will be stored under a storage key.
pub(super) fn seal(key: &[u8], plain: &[u8], storage_key: &[u8], rng: &Rng) -> Vec<u8> {
    let mut nonce = [0; NONCE];
    rng.fill_secret(&mut nonce);
    let payload = Payload { msg: plain, aad: storage_key };
    let body = match key.len() {
        16 => encrypt::<Aes128Gcm>(key, &nonce, payload),
        24 => encrypt::<AesGcm<Aes192, U12>>(key, &nonce, payload),
        _ => encrypt::<Aes256Gcm>(key, &nonce, payload),
    };
    [&nonce[..], &body].concat()
}

/// Decrypts a value that [`seal`] or a kube-apiserver made.
pub(super) fn open(key: &[u8], sealed: &[u8], storage_key: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (nonce, body) = sealed.split_at_checked(NONCE).ok_or(OpenError::TooShort)?;
    let payload = Payload { msg: body, aad: storage_key };
    match key.len() {
        16 => decrypt::<Aes128Gcm>(key, nonce, payload),
        24 => decrypt::<AesGcm<Aes192, U12>>(key, nonce, payload),
        _ => decrypt::<Aes256Gcm>(key, nonce, payload),
    }
}

fn encrypt<C: KeyInit + Aead>(key: &[u8], nonce: &[u8], payload: Payload<'_, '_>) -> Vec<u8> {
    let cipher = C::new_from_slice(key).expect(KEY_SIZE);
    cipher.encrypt(Nonce::<C>::from_slice(nonce), payload).expect("stored values are far below 64 GiB")
}

fn decrypt<C: KeyInit + Aead>(
    key: &[u8],
    nonce: &[u8],
    payload: Payload<'_, '_>,
) -> Result<Vec<u8>, OpenError> {
    let cipher = C::new_from_slice(key).expect(KEY_SIZE);
    cipher.decrypt(Nonce::<C>::from_slice(nonce), payload).map_err(|_| OpenError::Authentication)
}
