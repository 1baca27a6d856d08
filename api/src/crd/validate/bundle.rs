//! Check of CA bundles: a certificate must be well-formed DER; its contents are not parsed.

use crate::limits::PEM_BROKEN_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Whether a bundle, base64 of PEM text, has at least one certificate.
pub(in crate::crd) fn is_certificate_bundle(bundle: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(bundle) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    text.split(BEGIN).skip(1).take(PEM_BROKEN_MAX).any(|rest| {
        let Some(end) = rest.find(END) else { return false };
        let contents: String = rest[..end].split_whitespace().collect();
        STANDARD.decode(contents).is_ok_and(|der| is_sequence(&der))
    })
}

/// Whether bytes are exactly one DER sequence.
fn is_sequence(der: &[u8]) -> bool {
    let [0x30, first, rest @ ..] = der else { return false };
    let short = usize::from(*first);
    if short < 0x80 {
        return rest.len() == short;
    }
    let digits = short & 0x7f;
    if digits == 0 || digits > 4 || rest.len() < digits {
        return false;
    }
    let length = rest[..digits].iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    rest.len() - digits == length
}
