//! [`Selection`]: which of the tests run again, all of them or an eighth.

use std::env::{VarError, var};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// Environment variable with the selection: `all`, also if it is not set, or `K/8` with K from 0 to 7.
const VARIABLE: &str = "KSTORE_RERUN";

/// Number of parts that all tests are divided into.
const PARTS: u64 = 8;

/// The tests to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// Every test.
    All,
    /// The tests whose [`hash`] modulo [`PARTS`] is this number.
    Part(u64),
}

impl Selection {
    /// The selection of the environment variable.
    ///
    /// # Panics
    ///
    /// The variable has a value that is no selection.
    pub(super) fn from_environment() -> Self {
        match var(VARIABLE) {
            Err(VarError::NotPresent) => Self::All,
            Err(error) => panic!("{VARIABLE}: {error}"),
            Ok(text) => text.parse().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// Whether the test of this full name, such as `api::lists::pages_are_consistent`, is selected.
    pub(super) fn includes(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Part(part) => hash(name) % PARTS == part,
        }
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let parts: [_; PARTS as usize] = std::array::from_fn(|part| Self::Part(part as u64));
        let selection = parts.into_iter().find(|selection| selection.to_string() == text);
        selection.ok_or_else(|| {
            let last = PARTS - 1;
            format!("{VARIABLE}={text:?}: the value is `all`, or `K/{PARTS}` with K from 0 to {last}")
        })
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Part(part) => write!(f, "{part}/{PARTS}"),
        }
    }
}

/// FNV-1a with 64 bits. The hash of a name never changes, so equal values of the variable select equal tests.
pub(crate) fn hash(name: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    name.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_all_or_an_eighth_and_other_values_are_refused() {
        assert_eq!("all".parse(), Ok(Selection::All));
        assert_eq!("0/8".parse(), Ok(Selection::Part(0)));
        assert_eq!("7/8".parse(), Ok(Selection::Part(7)));
        for wrong in ["", "8/8", "-1/8", "+1/8", "01/8", "1/4", "1", "/8", "All", " all", "1/8 "] {
            let error = wrong.parse::<Selection>().unwrap_err();
            assert_eq!(
                error,
                format!("KSTORE_RERUN={wrong:?}: the value is `all`, or `K/8` with K from 0 to 7")
            );
        }
    }

    /// The test vectors of the hash's authors.
    #[test]
    fn the_hash_of_a_name_is_fnv_1a() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
