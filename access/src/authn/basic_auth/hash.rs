//! [`PasswordHash`]: hashes of passwords as text: argon2 (`$argon2id$v=19$m=…,t=…,p=…$salt$hash`) and bcrypt
//! (`$2y$10$…`). Hashes that would take too long or too much memory are refused. Pure.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::alphabet::{BCRYPT, STANDARD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use kstore_storage::limits::{
    BASIC_AUTH_ARGON2_KIB, BASIC_AUTH_ARGON2_LANES, BASIC_AUTH_ARGON2_PASSES, BASIC_AUTH_BCRYPT_COST,
};
use std::fmt;

/// Bytes of a bcrypt hash that its text has; the last one of the function is left out by convention.
const BCRYPT_BYTES: usize = 23;
/// Bytes of a password that bcrypt uses. Longer passwords are refused: the rest of them would not matter.
const BCRYPT_PASSWORD_BYTES: usize = 72;
/// The lowest cost of bcrypt.
const BCRYPT_COST_MIN: u32 = 4;
/// Bytes of a new hash.
const NEW_BYTES: usize = 32;

/// Base64 without padding. The last character of a bcrypt salt may have bits that are not used.
const UNPADDED: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_encode_padding(false)
    .with_decode_padding_mode(DecodePaddingMode::RequireNone)
    .with_decode_allow_trailing_bits(true);
const PHC: GeneralPurpose = GeneralPurpose::new(&STANDARD, UNPADDED);
const BCRYPT64: GeneralPurpose = GeneralPurpose::new(&BCRYPT, UNPADDED);

/// The hash of a password, with all that a check needs.
pub(super) enum PasswordHash {
    Argon2 { algorithm: Algorithm, version: Version, params: Params, salt: Vec<u8>, hash: Vec<u8> },
    Bcrypt { cost: u32, salt: [u8; 16], hash: [u8; BCRYPT_BYTES] },
}

/// Why a text is no usable hash. Shows nothing of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// The text is of no known kind.
    #[error(
        "expected a hash of argon2 ($argon2id$…) or bcrypt ($2y$…, htpasswd -B); plain passwords are not accepted"
    )]
    Kind,
    /// The text begins like a known kind.
    #[error("the {0} hash is malformed")]
    Malformed(&'static str),
    /// A check would take too long or too much memory.
    #[error("the {0} hash costs too much: at most {1}")]
    Cost(&'static str, String),
}

impl PasswordHash {
    /// Parses a text.
    ///
    /// # Errors
    /// The text is no hash, or one that costs too much.
    pub(super) fn parse(text: &str) -> Result<Self, HashError> {
        match text.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
            Some(("argon2id", rest)) => argon2(Algorithm::Argon2id, rest),
            Some(("argon2i", rest)) => argon2(Algorithm::Argon2i, rest),
            Some(("argon2d", rest)) => argon2(Algorithm::Argon2d, rest),
            Some(("2a" | "2b" | "2y", rest)) => bcrypt(rest),
            _ => Err(HashError::Kind),
        }
    }

    /// Hashes a password with argon2id, at the cost that its authors and OWASP recommend as the least.
    pub(super) fn argon2id(password: &[u8], salt: &[u8; 16]) -> Self {
        let (algorithm, version, params) = (Algorithm::Argon2id, Version::V0x13, Params::default());
        let mut hash = vec![0; NEW_BYTES];
        Argon2::new(algorithm, version, params.clone())
            .hash_password_into(password, salt, &mut hash)
            .expect("the default parameters are valid");
        Self::Argon2 { algorithm, version, params, salt: salt.to_vec(), hash }
    }

    /// Whether this is the hash of the password. Takes the same time for each password.
    pub(super) fn verify(&self, password: &[u8]) -> bool {
        match self {
            Self::Argon2 { algorithm, version, params, salt, hash } => {
                let mut computed = vec![0; hash.len()];
                let argon2 = Argon2::new(*algorithm, *version, params.clone());
                argon2.hash_password_into(password, salt, &mut computed).is_ok() && is_equal(&computed, hash)
            }
            Self::Bcrypt { cost, salt, hash } => {
                // A password ends with a zero byte, unless it has all bytes that count.
                let mut counted: Vec<u8> = password.iter().copied().take(BCRYPT_PASSWORD_BYTES).collect();
                if counted.len() < BCRYPT_PASSWORD_BYTES {
                    counted.push(0);
                }
                let computed = ::bcrypt::bcrypt(*cost, *salt, &counted);
                let is_whole = password.len() <= BCRYPT_PASSWORD_BYTES;
                is_equal(&computed[..BCRYPT_BYTES], hash) && is_whole
            }
        }
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argon2 { algorithm, version, params, salt, hash } => {
                let (m, t, p) = (params.m_cost(), params.t_cost(), params.p_cost());
                write!(f, "${algorithm}$v={}$m={m},t={t},p={p}", *version as u32)?;
                write!(f, "${}${}", PHC.encode(salt), PHC.encode(hash))
            }
            Self::Bcrypt { cost, salt, hash } => {
                write!(f, "$2y${cost:02}${}{}", BCRYPT64.encode(salt), BCRYPT64.encode(hash))
            }
        }
    }
}

/// Compares in a time that depends on the lengths only.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Parses `v=19$m=65536,t=3,p=4$salt$hash`; without `v=` the version is the first one.
fn argon2(algorithm: Algorithm, text: &str) -> Result<PasswordHash, HashError> {
    const MALFORMED: HashError = HashError::Malformed("argon2");
    let (version, rest) = match text.strip_prefix("v=") {
        None => (Version::V0x10, text),
        Some(rest) => match rest.split_once('$').ok_or(MALFORMED)? {
            ("16", rest) => (Version::V0x10, rest),
            ("19", rest) => (Version::V0x13, rest),
            _ => return Err(MALFORMED),
        },
    };
    let [costs, salt, hash] = rest.split('$').collect::<Vec<_>>()[..] else { return Err(MALFORMED) };
    let [m, t, p] = costs.split(',').collect::<Vec<_>>()[..] else { return Err(MALFORMED) };
    let cost = |text: &str, name: &str| {
        text.strip_prefix(name).and_then(|number| number.parse::<u32>().ok()).ok_or(MALFORMED)
    };
    let (m, t, p) = (cost(m, "m=")?, cost(t, "t=")?, cost(p, "p=")?);
    if m > BASIC_AUTH_ARGON2_KIB || t > BASIC_AUTH_ARGON2_PASSES || p > BASIC_AUTH_ARGON2_LANES {
        let most =
            format!("m={BASIC_AUTH_ARGON2_KIB},t={BASIC_AUTH_ARGON2_PASSES},p={BASIC_AUTH_ARGON2_LANES}");
        return Err(HashError::Cost("argon2", most));
    }
    let bytes = |text: &str| PHC.decode(text).map_err(|_| MALFORMED);
    let (salt, hash) = (bytes(salt)?, bytes(hash)?);
    // Shorter ones would be guessed; RFC 9106 recommends 16 bytes of each.
    let is_long = (8..=64).contains(&salt.len()) && (16..=64).contains(&hash.len());
    let params = Params::new(m, t, p, Some(hash.len())).ok().filter(|_| is_long).ok_or(MALFORMED)?;
    Ok(PasswordHash::Argon2 { algorithm, version, params, salt, hash })
}

/// Parses `10$` with 22 characters of salt and 31 of hash.
fn bcrypt(text: &str) -> Result<PasswordHash, HashError> {
    const MALFORMED: HashError = HashError::Malformed("bcrypt");
    let (cost, rest) = text.split_once('$').filter(|(cost, _)| cost.len() == 2).ok_or(MALFORMED)?;
    let cost: u32 = cost.parse().ok().filter(|cost| *cost >= BCRYPT_COST_MIN).ok_or(MALFORMED)?;
    if cost > BASIC_AUTH_BCRYPT_COST {
        return Err(HashError::Cost("bcrypt", BASIC_AUTH_BCRYPT_COST.to_string()));
    }
    let (salt, hash) = rest.split_at_checked(22).ok_or(MALFORMED)?;
    let bytes = |text: &str| BCRYPT64.decode(text).map_err(|_| MALFORMED);
    let salt = bytes(salt)?.try_into().map_err(|_| MALFORMED)?;
    let hash = bytes(hash)?.try_into().map_err(|_| MALFORMED)?;
    Ok(PasswordHash::Bcrypt { cost, salt, hash })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes that other programs made: libxcrypt (bcrypt) and the reference implementation (argon2).
    const KNOWN: [(&str, &str); 7] = [
        ("$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a", "secret"),
        ("$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe", "a"),
        ("$2b$04$abcdefghijklmnopqrstuuyx2n0Zzopyr9QuYTMCfOJJOj526QVoC", "pässwörd"),
        ("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "password"),
        ("$argon2id$v=19$m=256,t=2,p=2$c29tZXNhbHQ$bQk8UB/VmZZF4Oo79iDXuL5/0ttZwg2f/5U52iv1cDc", "password"),
        ("$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8", "password"),
        ("$argon2i$m=256,t=2,p=1$c29tZXNhbHQ$/U3YPXYsSb3q9XxHvc0MLxur+GP960kN9j7emXX8zwY", "password"),
    ];

    fn verify(hash: &str, password: &str) -> bool {
        PasswordHash::parse(hash).unwrap().verify(password.as_bytes())
    }

    #[test]
    fn hashes_of_other_programs_are_verified() {
        for (hash, password) in KNOWN {
            assert!(verify(hash, password), "{hash}");
            assert!(!verify(hash, "another"), "{hash}");
            assert!(!verify(hash, &format!("{password} ")), "{hash}");
            assert!(!verify(hash, ""), "{hash}");
            let printed = PasswordHash::parse(hash).unwrap().to_string();
            assert!(verify(&printed, password), "{hash} {printed}");
        }
    }

    #[test]
    fn a_new_hash_is_verified_by_its_password_only() {
        let text = PasswordHash::argon2id(b"secret", &[7; 16]).to_string();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        assert!(verify(&text, "secret") && !verify(&text, "Secret"));
    }

    #[test]
    fn passwords_beyond_what_bcrypt_uses_are_refused() {
        let longest = "p".repeat(BCRYPT_PASSWORD_BYTES);
        // Of libxcrypt.
        let hash = PasswordHash::parse("$2y$04$YWFhYWFhYWFhYWFhYWFhYOBCzbBBbqqFEb96S4jYsvViKju/c0tO6");
        let hash = hash.unwrap();
        assert!(hash.verify(longest.as_bytes()));
        assert!(!hash.verify(format!("{longest}p").as_bytes()));
        assert!(!hash.verify(&longest.as_bytes()[1..]));
    }

    #[test]
    fn malformed_and_expensive_hashes_are_refused() {
        let refused =
            |text: &str| PasswordHash::parse(text).err().unwrap_or_else(|| panic!("{text} is parsed"));
        for text in ["", "secret", "$1$a$b", "$apr1$x$y", "{SHA}x", "$5$a$b", "$2x$04$", "$argon2id", "$2y"] {
            assert_eq!(refused(text), HashError::Kind, "{text}");
        }
        let tail = "$AQEBAQEBAQEBAQEBAQEBAQ$AQEBAQEBAQEBAQEBAQEBAQ";
        for costs in [
            "",
            "v=19",
            "v=18$m=8,t=1,p=1",
            "v=19$m=8,t=1",
            "v=19$t=1,m=8,p=1",
            "v=19$m=8,t=1,p=x",
            "v=19$m=1,t=1,p=1",
        ] {
            let text = format!("$argon2id${costs}{tail}");
            assert_eq!(refused(&text), HashError::Malformed("argon2"), "{text}");
        }
        for end in [
            "$$",
            "$AQEB$AQEBAQEBAQEBAQEBAQEBAQ",
            "$AQEBAQEBAQEBAQEBAQEBAQ$AQEB",
            "$!$!",
            &format!("{tail}$"),
        ] {
            let text = format!("$argon2id$v=19$m=8,t=1,p=1{end}");
            assert_eq!(refused(&text), HashError::Malformed("argon2"), "{text}");
        }
        for costs in ["m=4294967295,t=1,p=1", "m=8,t=1000000,p=1", "m=8,t=1,p=1000"] {
            let text = format!("$argon2id$v=19${costs}{tail}");
            assert!(matches!(refused(&text), HashError::Cost("argon2", _)), "{text}");
        }
        let known = KNOWN[0].0;
        for text in [
            "$2y$03$",
            "$2y$4$",
            "$2y$04$short",
            &known[..known.len() - 1],
            &format!("{known}a"),
            &known.replace("$2y$05$", "$2y$xx$"),
        ] {
            assert_eq!(refused(text), HashError::Malformed("bcrypt"), "{text}");
        }
        let costly = known.replace("$2y$05$", "$2y$31$");
        assert!(matches!(refused(&costly), HashError::Cost("bcrypt", _)), "{costly}");
    }
}
