//! AES-CBC with PKCS #7 padding: a random initialization vector of 16 bytes, then the ciphertext. It has no
//! authentication, so that tampering is noticed only if it breaks the padding or the JSON.

use super::open_error::OpenError;
use aes::cipher::block_padding::{NoPadding, Pkcs7};
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use aes::{Aes128, Aes192, Aes256};
use kstore_nondet::Rng;

/// Size of a block, and of the initialization vector.
const BLOCK: usize = 16;
const KEY_SIZE: &str = "the configuration has keys of 16, 24 or 32 bytes only";

/// Encrypts a value.
pub(super) fn seal(key: &[u8], plain: &[u8], rng: &Rng) -> Vec<u8> {
    let mut iv = [0; BLOCK];
    rng.fill_secret(&mut iv);
    let body = match key.len() {
        16 => encrypt::<cbc::Encryptor<Aes128>>(key, &iv, plain),
        24 => encrypt::<cbc::Encryptor<Aes192>>(key, &iv, plain),
        _ => encrypt::<cbc::Encryptor<Aes256>>(key, &iv, plain),
    };
    [&iv[..], &body].concat()
}

/// Decrypts a value that [`seal`] or a kube-apiserver made.
pub(super) fn open(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (iv, body) = sealed.split_at_checked(BLOCK).ok_or(OpenError::TooShort)?;
    if !body.len().is_multiple_of(BLOCK) {
        return Err(OpenError::BlockSize);
    }
    let mut padded = match key.len() {
        16 => decrypt::<cbc::Decryptor<Aes128>>(key, iv, body),
        24 => decrypt::<cbc::Decryptor<Aes192>>(key, iv, body),
        _ => decrypt::<cbc::Decryptor<Aes256>>(key, iv, body),
    };
    let padding = padded.last().copied().map_or(0, usize::from);
    if padding == 0 || padding > padded.len() {
        return Err(OpenError::NoPadding);
    }
    let plain = padded.len() - padding;
    if padded[plain..].iter().any(|byte| usize::from(*byte) != padding) {
        return Err(OpenError::Padding);
    }
    padded.truncate(plain);
    Ok(padded)
}

fn encrypt<C: KeyIvInit + BlockEncryptMut>(key: &[u8], iv: &[u8], plain: &[u8]) -> Vec<u8> {
    C::new_from_slices(key, iv).expect(KEY_SIZE).encrypt_padded_vec_mut::<Pkcs7>(plain)
}

/// The decrypted blocks, with their padding: its errors have Kubernetes' texts.
fn decrypt<C: KeyIvInit + BlockDecryptMut>(key: &[u8], iv: &[u8], body: &[u8]) -> Vec<u8> {
    let blocks = C::new_from_slices(key, iv).expect(KEY_SIZE).decrypt_padded_vec_mut::<NoPadding>(body);
    blocks.expect("the body is a multiple of the block size")
}
