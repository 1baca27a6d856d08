//! A quantity in a decoded object, read once as integers.

use kstore_api::quantity::Quantity;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// An amount in thousandths and in whole units, each rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) milli: i64,
    pub(crate) whole: i64,
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text)
    }
}

/// Visits a quantity. The API uses strings; the visitor accepts bare numbers, which users write, with the
/// same meaning.
struct Text;

impl Visitor<'_> for Text {
    type Value = Amount;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        let quantity = Quantity::parse(text).map_err(E::custom)?;
        Ok(Amount { milli: quantity.milli(), whole: quantity.units() })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_decoded_from_strings_and_numbers() {
        let cases = [
            (r#""100m""#, Some((100, 1))),
            (r#""2Gi""#, Some((2_147_483_648_000, 2_147_483_648))),
            ("3", Some((3000, 3))),
            ("0.5", Some((500, 1))),
            (r#""much""#, None),
        ];
        for (json, expected) in cases {
            let amount = serde_json::from_str::<Amount>(json).ok();
            assert_eq!(amount.map(|a| (a.milli, a.whole)), expected, "{json}");
        }
    }
}
