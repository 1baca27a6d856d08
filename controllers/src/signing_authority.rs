//! [`SigningAuthority`]: issues X.509 certificates for PKCS#10 requests. The subject, its key and its alternative names are taken from
//! the request as they are, byte for byte; usages and validity from the CertificateSigningRequest.

use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use std::sync::Arc;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::FromDer;
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

/// How much earlier than now a certificate begins to be valid, for clients whose clock is behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// A certificate with a shorter life keeps all of it: its end is not moved with its beginning.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// Bytes of a serial number, all random.
pub(crate) const SERIAL_BYTES: usize = 16;

/// The certificate authority that signs approved requests.
#[derive(Clone)]
pub struct SigningAuthority {
    key: Arc<KeyPair>,
    algorithm: Algorithm,
    /// The subject of the authority, in DER.
    subject: Vec<u8>,
    /// The authority's subject key identifier; `None` if its certificate has none.
    key_id: Option<Vec<u8>>,
    not_after: Timestamp,
}

/// Keys do not belong in logs.
impl std::fmt::Debug for SigningAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningAuthority").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// Why an authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SigningAuthorityError {
    /// The certificate cannot be read.
    #[error("the signing certificate is no X.509 certificate in PEM")]
    Certificate,
    /// The key cannot be read.
    #[error("the signing key cannot be used: {0}")]
    Key(#[from] rcgen::Error),
    /// No algorithm is known for it.
    #[error("the signing key must be RSA, ECDSA on P-256 or P-384, or Ed25519")]
    Algorithm,
    /// The two do not belong together.
    #[error("the signing key is not that of the signing certificate")]
    Mismatch,
}

/// Why no certificate was issued.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotIssued {
    /// The request is not signed by the key that it names.
    #[error("unable to verify certificate request signature")]
    Signature,
    /// The authority's certificate is over.
    #[error("the signer has expired: NotAfter={0}")]
    Expired(Timestamp),
    /// A usage that no certificate can say.
    #[error("unrecognized usages: {0:?}")]
    Usage(String),
    /// The key refused.
    #[error("unable to sign: {0}")]
    Key(String),
}

/// Contents of a certificate that do not come from the request for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// `spec.usages`.
    pub usages: &'a [String],
    /// Validity of the certificate.
    pub lifetime: SignedDuration,
    /// Serial number of the certificate.
    pub serial: [u8; SERIAL_BYTES],
}

impl SigningAuthority {
    /// The authority of a certificate and its private key, both PEM.
    ///
    /// # Errors
    /// [`SigningAuthorityError`].
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, SigningAuthorityError> {
        let (_, block) = x509_parser::pem::parse_x509_pem(certificate.as_bytes())
            .map_err(|_| SigningAuthorityError::Certificate)?;
        let parsed = block.parse_x509().map_err(|_| SigningAuthorityError::Certificate)?;
        let key = KeyPair::from_pem(key)?;
        let algorithm = Algorithm::of(&key).ok_or(SigningAuthorityError::Algorithm)?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            return Err(SigningAuthorityError::Mismatch);
        }
        let key_id = parsed.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        });
        let not_after = parsed.validity().not_after.timestamp();
        Ok(Self {
            algorithm,
            subject: parsed.subject().as_raw().to_vec(),
            key_id,
            not_after: Timestamp::from_second(not_after).unwrap_or(Timestamp::MAX),
            key: Arc::new(key),
        })
    }

    /// Issues a certificate, in PEM, for a PKCS#10 request in DER.
    ///
    /// # Errors
    /// [`NotIssued`].
    pub(crate) fn issue(&self, der: &[u8], terms: Terms<'_>, now: Timestamp) -> Result<String, NotIssued> {
        let (_, request) = X509CertificationRequest::from_der(der).map_err(|_| NotIssued::Signature)?;
        request.verify_signature().map_err(|_| NotIssued::Signature)?;
        let usages = Usages::of(terms.usages)?;
        let (from, until) = self.validity(terms.lifetime, now)?;
        let names = alternative_names(&request);
        let info = &request.certification_request_info;
        let body = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&terms.serial, true);
                self.algorithm.write(writer.next());
                writer.next().write_der(&self.subject);
                writer.next().write_sequence(|writer| {
                    write_time(writer.next(), from);
                    write_time(writer.next(), until);
                });
                writer.next().write_der(info.subject.as_raw());
                writer.next().write_der(info.subject_pki.raw);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, &usages, names));
                });
            });
        });
        let signature = self.key.sign(&body).map_err(|error| NotIssued::Key(error.to_string()))?;
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&body);
                self.algorithm.write(writer.next());
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem(&certificate))
    }

    /// From when and until when a certificate is valid, at most as long as the authority itself.
    fn validity(
        &self,
        lifetime: SignedDuration,
        now: Timestamp,
    ) -> Result<(Timestamp, Timestamp), NotIssued> {
        let from = now.saturating_sub(BACKDATE).unwrap_or(Timestamp::MIN);
        if from >= self.not_after {
            return Err(NotIssued::Expired(self.not_after));
        }
        let from_end = if lifetime < SHORT { now } else { from };
        let until = from_end.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        Ok((from, until.min(self.not_after)))
    }

    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, usages: &Usages, names: Option<(bool, &[u8])>) {
        if let Some(bits) = usages.key_bits() {
            extension(writer, &[2, 5, 29, 15], true, &bits);
        }
        if !usages.extended.is_empty() {
            let purposes = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    for oid in &usages.extended {
                        writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
                    }
                });
            });
            extension(writer, &[2, 5, 29, 37], false, &purposes);
        }
        // No authority: an empty sequence.
        extension(
            writer,
            &[2, 5, 29, 19],
            true,
            &yasna::construct_der(|writer| writer.write_sequence(|_| ())),
        );
        if let Some(id) = &self.key_id {
            let id = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(id));
                });
            });
            extension(writer, &[2, 5, 29, 35], false, &id);
        }
        if let Some((is_critical, names)) = names {
            extension(writer, &[2, 5, 29, 17], is_critical, names);
        }
    }
}

fn extension(writer: &mut DERWriterSeq<'_>, oid: &[u64], is_critical: bool, value: &[u8]) {
    writer.next().write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
        if is_critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(value);
    });
}

/// The requested alternative names, in DER, and whether they are critical.
fn alternative_names<'r>(request: &'r X509CertificationRequest<'_>) -> Option<(bool, &'r [u8])> {
    let mut attributes = request.certification_request_info.attributes().iter();
    attributes.find_map(|attribute| match attribute.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(requested) => {
            let mut extensions = requested.extensions.iter();
            extensions
                .find(|extension| extension.oid == OID_X509_EXT_SUBJECT_ALT_NAME)
                .map(|extension| (extension.critical, extension.value))
        }
        _ => None,
    })
}

/// Writes a time as certificates do: two digits of the year until 2049.
fn write_time(writer: DERWriter<'_>, time: Timestamp) {
    let utc = time::OffsetDateTime::from_unix_timestamp(time.as_second())
        .unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    if (1950..2050).contains(&utc.year()) {
        writer.write_utctime(&UTCTime::from_datetime(utc));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(utc));
    }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// The algorithm of a signature: its object identifier, and whether its parameters are NULL.
#[derive(Clone, Copy, Debug)]
struct Algorithm(&'static [u64], bool);

impl Algorithm {
    fn of(key: &KeyPair) -> Option<Self> {
        [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Self(&[1, 2, 840, 10045, 4, 3, 2], false)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Self(&[1, 2, 840, 10045, 4, 3, 3], false)),
            (&rcgen::PKCS_RSA_SHA256, Self(&[1, 2, 840, 113_549, 1, 1, 11], true)),
            (&rcgen::PKCS_ED25519, Self(&[1, 3, 101, 112], false)),
        ]
        .into_iter()
        .find(|(of_key, _)| key.is_compatible(of_key))
        .map(|(_, algorithm)| algorithm)
    }

    fn write(self, writer: DERWriter<'_>) {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(self.0));
            if self.1 {
                writer.next().write_null();
            }
        });
    }
}

/// The usages of a key as a certificate says them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usages {
    /// Numbers of bits of the extension `keyUsage`.
    bits: Vec<u8>,
    /// Object identifiers of the extension `extKeyUsage`.
    extended: Vec<&'static [u64]>,
}

impl Usages {
    /// Parses the key usages in `spec.usages`.
    fn of(words: &[String]) -> Result<Self, NotIssued> {
        let mut usages = Self::default();
        for word in words {
            let bit = match word.as_str() {
                "signing" | "digital signature" => Some(0),
                "content commitment" => Some(1),
                "key encipherment" => Some(2),
                "data encipherment" => Some(3),
                "key agreement" => Some(4),
                "cert sign" => Some(5),
                "crl sign" => Some(6),
                "encipher only" => Some(7),
                "decipher only" => Some(8),
                _ => None,
            };
            let extended: Option<&'static [u64]> = match word.as_str() {
                "any" => Some(&[2, 5, 29, 37, 0]),
                "server auth" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 1]),
                "client auth" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 2]),
                "code signing" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 3]),
                "email protection" | "s/mime" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 4]),
                "ipsec end system" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 5]),
                "ipsec tunnel" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 6]),
                "ipsec user" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 7]),
                "timestamping" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 8]),
                "ocsp signing" => Some(&[1, 3, 6, 1, 5, 5, 7, 3, 9]),
                "microsoft sgc" => Some(&[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
                "netscape sgc" => Some(&[2, 16, 840, 1, 113_730, 4, 1]),
                _ => None,
            };
            match (bit, extended) {
                (Some(bit), _) if !usages.bits.contains(&bit) => usages.bits.push(bit),
                (_, Some(oid)) if !usages.extended.contains(&oid) => usages.extended.push(oid),
                (None, None) => return Err(NotIssued::Usage(word.clone())),
                _ => {}
            }
        }
        Ok(usages)
    }

    /// The extension `keyUsage` in DER; none without a bit. Trailing zeroes are not written, as DER wants of named bits.
    fn key_bits(&self) -> Option<Vec<u8>> {
        let last = *self.bits.iter().max()?;
        let mut bytes = vec![0_u8; usize::from(last) / 8 + 1];
        self.bits.iter().for_each(|bit| bytes[usize::from(*bit) / 8] |= 0x80 >> (bit % 8));
        Some(yasna::construct_der(|writer| writer.write_bitvec_bytes(&bytes, usize::from(last) + 1)))
    }
}
