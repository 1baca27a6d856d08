//! Costs of instances: exact sums in millionths, as decimal texts in the API. Pure.

use jiff::Timestamp;
use kstore_container_sim::time::between;

/// Millionths of a unit of money.
const UNIT: u128 = 1_000_000;
/// Nanoseconds of an hour.
const HOUR: u128 = 3_600_000_000_000;

/// A decimal amount in millionths; `None` if it is no such number, is negative, or has more than six decimals.
pub(crate) fn micros(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || fraction.len() > 6 || (text.contains('.') && !digits(fraction)) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = format!("{fraction:0<6}").parse().ok()?;
    whole.checked_mul(UNIT as u64)?.checked_add(fraction)
}

/// An amount of millionths as a decimal text with at least two decimals.
pub(crate) fn text(micros: u128) -> String {
    let fraction = format!("{:06}", micros % UNIT);
    let shown = fraction.trim_end_matches('0').len().max(2);
    format!("{}.{}", micros / UNIT, &fraction[..shown])
}

/// What the instances of a group have cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    /// In millionths times nanoseconds of an hour, so that no fraction is lost.
    exact: u128,
    since: Timestamp,
}

impl Spent {
    /// The amount up to `since`, as an earlier process wrote it.
    pub(crate) fn restored(text: &str, since: Timestamp) -> Self {
        Self { exact: u128::from(micros(text).unwrap_or(0)) * HOUR, since }
    }

    /// Counts the time up to `now`, in which `instances` existed at this price an hour.
    pub(crate) fn advance(&mut self, now: Timestamp, instances: usize, micros_per_hour: u64) {
        let passed = between(self.since, now);
        self.exact += passed.as_nanos() * u128::from(micros_per_hour) * instances as u128;
        self.since = self.since.max(now);
    }

    /// The amount in millionths.
    pub(crate) fn micros(&self) -> u128 {
        self.exact / HOUR
    }

    /// Up to which time the amount counts.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_decimal_texts_of_at_most_six_decimals() {
        for (written, amount, shown) in [
            ("0.192", 192_000, "0.192"),
            ("3", 3_000_000, "3.00"),
            ("0.000001", 1, "0.000001"),
            ("12.50", 12_500_000, "12.50"),
        ] {
            assert_eq!(micros(written), Some(amount), "{written}");
            assert_eq!(text(amount.into()), shown);
        }
        for wrong in ["", ".5", "1.", "-1", "1e3", "0.1234567", "a", "99999999999999999999"] {
            assert_eq!(micros(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_spent_equals_a_plain_recount_in_any_steps() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut spent = Spent::restored("1.5", at(0));
        // Seconds up to which so many instances existed.
        for (until, instances) in [(7, 3), (7, 9), (100, 2), (3600, 0), (7201, 1)] {
            spent.advance(at(until), instances, 192_000);
        }
        let seconds = 7 * 3 + 93 * 2 + 3601;
        assert_eq!(spent.micros(), 1_500_000 + seconds * 192_000 / 3600);
        assert_eq!(spent.since(), at(7201));
    }
}
