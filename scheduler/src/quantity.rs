//! Reads Kubernetes quantities ("100m", "2Gi", "1e3") as integers. Not a general decimal: it rounds up to thousandths.

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// An amount in thousandths and in whole units, each rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) milli: i64,
    pub(crate) whole: i64,
}

/// The amount that `text` states, or `None` if it is no quantity.
pub(crate) fn parse(text: &str) -> Option<Amount> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let nano = scale(decimal_nano(number)?, suffix)?;
    Some(Amount { milli: round_up(nano, 1_000_000), whole: round_up(nano, 1_000_000_000) })
}

/// `digits[.digits]` in billionths; finer digits are cut, rounding away from zero.
fn decimal_nano(number: &str) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 18 {
        return None;
    }
    let kept = &fraction[..fraction.len().min(9)];
    if !whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit()) {
        return None;
    }
    let mut nano = whole.parse::<i128>().unwrap_or(0) * 1_000_000_000;
    nano += kept.parse::<i128>().unwrap_or(0) * 10i128.pow(9 - kept.len() as u32);
    nano += i128::from(fraction.len() > 9 && fraction[9..].contains(|c| c != '0'));
    Some(if negative { -nano } else { nano })
}

fn scale(nano: i128, suffix: &str) -> Option<i128> {
    let binary = |power: u32| nano.checked_mul(1i128 << (10 * power));
    let decimal = |power: i32| match power {
        0.. => nano.checked_mul(10i128.checked_pow(power.unsigned_abs())?),
        ..0 => Some(div_up(nano, 10i128.checked_pow(power.unsigned_abs())?)),
    };
    match suffix {
        "" => Some(nano),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|p: &i32| (-18..=18).contains(p))?),
    }
}

fn div_up(value: i128, by: i128) -> i128 {
    value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0)
}

fn round_up(nano: i128, unit: i128) -> i64 {
    i64::try_from(div_up(nano, unit)).unwrap_or(if nano < 0 { i64::MIN } else { i64::MAX })
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Amount;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
                parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
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
        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_and_rounded_up() {
        let cases: [(&str, Option<(i64, i64)>); 16] = [
            ("0", Some((0, 0))),
            ("1", Some((1000, 1))),
            ("100m", Some((100, 1))),
            ("1500m", Some((1500, 2))),
            ("0.1", Some((100, 1))),
            (".5", Some((500, 1))),
            ("1n", Some((1, 1))),
            ("2Gi", Some((2_147_483_648_000, 2_147_483_648))),
            ("500Mi", Some((524_288_000_000, 524_288_000))),
            ("1k", Some((1_000_000, 1000))),
            ("1e3", Some((1_000_000, 1000))),
            ("16E", Some((i64::MAX, i64::MAX))),
            ("-1", Some((-1000, -1))),
            ("", None),
            ("1.5x", None),
            ("Gi", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).map(|a| (a.milli, a.whole)), expected, "{text}");
        }
    }
}
