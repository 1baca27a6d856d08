//! Keys of service account tokens, read from PEM: RSA (RS256) and the curve P-256 (ES256). A key may be in a
//! certificate, a public key (PKIX) or a private key (PKCS#1, SEC1, PKCS#8), as in kube-apiserver.
//! [`super::Tokens`] signs and verifies tokens.

use super::der::{self, Element, Reader};
use super::{BASE64, LegacyClaims};
use base64::Engine as _;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use rustls::pki_types::pem::{PemObject as _, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Object identifier id-ecPublicKey (RFC 5480), DER content.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// Object identifier of the curve P-256.
const P_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// Object identifier rsaEncryption (RFC 8017).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
/// Bytes of an uncompressed point of P-256: a prefix and two coordinates.
const POINT: usize = 65;
const COORDINATE: usize = 32;

/// A text has no usable key: the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text has no key.
    #[error("no certificate, public key or private key in PEM")]
    NoKey,
    /// The contents of a PEM block cannot be decoded.
    #[error("a PEM block cannot be decoded")]
    Malformed,
    /// The key is for another algorithm.
    #[error("keys of service account tokens are RSA (RS256) or of the curve P-256 (ES256)")]
    Algorithm,
    /// The private key cannot sign.
    #[error("the private key cannot sign tokens")]
    CannotSign,
}

/// A private key that signs tokens, with its public key. `Debug` shows no secret.
pub struct SigningKey {
    private: EncodingKey,
    public: PublicKey,
}

/// A public key that verifies tokens.
#[derive(Clone)]
pub struct PublicKey {
    decoding: DecodingKey,
    algorithm: Algorithm,
    /// The hash of the SubjectPublicKeyInfo, Kubernetes' key identifier.
    id: String,
    /// The members of the JSON Web Key that depend on the algorithm.
    parameters: Value,
}

impl SigningKey {
    /// Parses the first private key of a PEM text.
    ///
    /// # Errors
    /// If there is none, or it cannot sign tokens.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, bytes) = section.map_err(|_| KeyError::Malformed)?;
            match kind {
                SectionKind::RsaPrivateKey => return Self::rsa(&bytes),
                SectionKind::EcPrivateKey => return Self::sec1(&bytes),
                SectionKind::PrivateKey => return Self::pkcs8(&bytes),
                _ => {}
            }
        }
        Err(KeyError::NoKey)
    }

    /// Parses a private key in PKCS#8 (DER).
    pub(super) fn pkcs8(bytes: &[u8]) -> Result<Self, KeyError> {
        let (algorithm, key) = pkcs8(bytes)?;
        match algorithm {
            KeyAlgorithm::Rsa => Self::rsa(key),
            KeyAlgorithm::P256 => Self::sec1(key),
        }
    }

    fn rsa(pkcs1: &[u8]) -> Result<Self, KeyError> {
        Self::new(EncodingKey::from_rsa_der(pkcs1), public_of_rsa(pkcs1)?)
    }

    fn sec1(bytes: &[u8]) -> Result<Self, KeyError> {
        let public = public_of_sec1(bytes)?;
        let algorithm = der::sequence(&[der::oid(EC_PUBLIC_KEY), der::oid(P_256)].concat());
        let parts = [der::integer(0), algorithm, der::octets(bytes)];
        Self::new(EncodingKey::from_ec_der(&der::sequence(&parts.concat())), public)
    }

    /// Signs once, so that an unusable key is found at the start.
    fn new(private: EncodingKey, public: PublicKey) -> Result<Self, KeyError> {
        let key = Self { private, public };
        key.sign(&json!({})).map_err(|_| KeyError::CannotSign)?;
        Ok(key)
    }

    pub(super) fn sign(&self, claims: &impl serde::Serialize) -> Result<String, jsonwebtoken::errors::Error> {
        let header =
            Header { kid: Some(self.public.id.clone()), typ: None, ..Header::new(self.public.algorithm) };
        jsonwebtoken::encode(&header, claims, &self.private)
    }

    /// Signs the claims of a token for a Secret.
    ///
    /// # Errors
    /// The private key cannot sign.
    pub fn sign_legacy(&self, claims: &LegacyClaims) -> Result<String, jsonwebtoken::errors::Error> {
        self.sign(claims)
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl PublicKey {
    /// Parses every key of a PEM text; private keys yield their public keys.
    ///
    /// # Errors
    /// If there is none, or one cannot be used.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
            let (kind, bytes) = section.map_err(|_| KeyError::Malformed)?;
            keys.push(match kind {
                SectionKind::Certificate => {
                    let (_, certificate) =
                        X509Certificate::from_der(&bytes).map_err(|_| KeyError::Malformed)?;
                    Self::from_spki(certificate.public_key().raw)?
                }
                SectionKind::PublicKey => Self::from_spki(&bytes)?,
                SectionKind::RsaPrivateKey => public_of_rsa(&bytes)?,
                SectionKind::EcPrivateKey => public_of_sec1(&bytes)?,
                SectionKind::PrivateKey => match pkcs8(&bytes)? {
                    (KeyAlgorithm::Rsa, key) => public_of_rsa(key)?,
                    (KeyAlgorithm::P256, key) => public_of_sec1(key)?,
                },
                _ => continue,
            });
        }
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(keys) }
    }

    /// Parses a SubjectPublicKeyInfo (DER).
    fn from_spki(bytes: &[u8]) -> Result<Self, KeyError> {
        let mut info = Reader::new(bytes).sequence()?;
        let algorithm = KeyAlgorithm::read(info.sequence()?)?;
        let bits = info.take(der::BIT_STRING)?;
        // The first byte is the number of unused bits, which must be zero.
        let key = bits.split_first().filter(|(unused, _)| **unused == 0).ok_or(KeyError::Malformed)?.1;
        let id = BASE64.encode(Sha256::digest(bytes));
        match algorithm {
            KeyAlgorithm::P256 if key.len() == POINT && key[0] == 4 => {
                let (x, y) = key[1..].split_at(COORDINATE);
                let parameters = json!({"kty": "EC", "alg": "ES256", "crv": "P-256",
                    "x": BASE64.encode(x), "y": BASE64.encode(y)});
                let decoding = DecodingKey::from_ec_der(key);
                Ok(Self { decoding, algorithm: Algorithm::ES256, id, parameters })
            }
            KeyAlgorithm::P256 => Err(KeyError::Malformed),
            KeyAlgorithm::Rsa => {
                let mut numbers = Reader::new(key).sequence()?;
                let (n, e) = (numbers.unsigned()?, numbers.unsigned()?);
                let parameters = json!({"kty": "RSA", "alg": "RS256",
                    "n": BASE64.encode(n), "e": BASE64.encode(e)});
                let decoding = DecodingKey::from_rsa_der(key);
                Ok(Self { decoding, algorithm: Algorithm::RS256, id, parameters })
            }
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The name of the algorithm in JSON Web Keys.
    pub(super) fn algorithm_name(&self) -> &Value {
        &self.parameters["alg"]
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }

    /// The key as a JSON Web Key.
    pub(super) fn web_key(&self) -> Value {
        let mut key = self.parameters.clone();
        key["use"] = json!("sig");
        key["kid"] = json!(self.id);
        key
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAlgorithm {
    Rsa,
    P256,
}

impl KeyAlgorithm {
    /// Parses an AlgorithmIdentifier.
    fn read(mut identifier: Reader<'_>) -> Result<Self, KeyError> {
        match identifier.take(der::OID)? {
            RSA => Ok(Self::Rsa),
            EC_PUBLIC_KEY if identifier.take(der::OID)? == P_256 => Ok(Self::P256),
            _ => Err(KeyError::Algorithm),
        }
    }
}

/// The algorithm and key in a PrivateKeyInfo (RFC 5958).
fn pkcs8(bytes: &[u8]) -> Result<(KeyAlgorithm, &[u8]), KeyError> {
    let mut info = Reader::new(bytes).sequence()?;
    info.unsigned()?;
    let algorithm = KeyAlgorithm::read(info.sequence()?)?;
    Ok((algorithm, info.take(der::OCTET_STRING)?))
}

/// The public key of an RSAPrivateKey (RFC 8017): modulus and exponent are its second and third integer.
fn public_of_rsa(bytes: &[u8]) -> Result<PublicKey, KeyError> {
    let mut key = Reader::new(bytes).sequence()?;
    key.unsigned()?;
    let (n, e) = (key.take(der::INTEGER)?, key.take(der::INTEGER)?);
    let numbers = der::sequence(&[der::element(der::INTEGER, n), der::element(der::INTEGER, e)].concat());
    let algorithm = der::sequence(&[der::oid(RSA), der::element(der::NULL, &[])].concat());
    PublicKey::from_spki(&der::sequence(&[algorithm, der::bits(&numbers)].concat()))
}

/// The public key of an ECPrivateKey (RFC 5915), which has the point at its end.
fn public_of_sec1(bytes: &[u8]) -> Result<PublicKey, KeyError> {
    let mut key = Reader::new(bytes).sequence()?;
    key.unsigned()?;
    key.take(der::OCTET_STRING)?;
    while let Some(Element { tag, content }) = key.next()? {
        match tag {
            der::CONTEXT_0 if Reader::new(content).take(der::OID)? != P_256 => {
                return Err(KeyError::Algorithm);
            }
            der::CONTEXT_1 => {
                let algorithm = der::sequence(&[der::oid(EC_PUBLIC_KEY), der::oid(P_256)].concat());
                return PublicKey::from_spki(&der::sequence(&[&algorithm, content].concat()));
            }
            _ => {}
        }
    }
    Err(KeyError::Malformed)
}

#[cfg(test)]
mod tests;
