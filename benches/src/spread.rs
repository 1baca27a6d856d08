//! [`Spread`]: median, quantiles and extremes of durations. Pure.

use std::fmt;
use std::time::Duration;

/// Sorted durations; never empty.
pub(crate) struct Spread(Vec<Duration>);

impl Spread {
    /// Sorts at least one duration.
    pub(crate) fn of(mut durations: Vec<Duration>) -> Self {
        assert!(!durations.is_empty(), "a spread is of something");
        durations.sort_unstable();
        Self(durations)
    }

    /// The quantile `part`, between 0 and 1.
    pub(crate) fn quantile(&self, part: f64) -> Duration {
        let last = self.0.len() - 1;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "part is between 0 and 1"
        )]
        self.0[((last as f64 * part).round() as usize).min(last)]
    }

    /// Median and 99th percentile, for many durations.
    pub(crate) fn latency(&self) -> String {
        format!("{} median, {} p99", Short(self.quantile(0.5)), Short(self.quantile(0.99)))
    }
}

/// Median and maximum, for few durations.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} median, {} worst of {}",
            Short(self.quantile(0.5)),
            Short(self.quantile(1.0)),
            self.0.len()
        )
    }
}

/// A duration displayed in a suitable unit.
pub(crate) struct Short(pub(crate) Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            0..1_000 => write!(f, "{micros} µs"),
            1_000..10_000 => write!(f, "{:.2} ms", self.0.as_secs_f64() * 1e3),
            10_000..1_000_000 => write!(f, "{:.0} ms", self.0.as_secs_f64() * 1e3),
            _ => write!(f, "{:.2} s", self.0.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members() {
        let spread = Spread::of([5, 1, 3, 2, 4].map(Duration::from_millis).to_vec());
        assert_eq!(spread.quantile(0.0), Duration::from_millis(1));
        assert_eq!(spread.quantile(0.5), Duration::from_millis(3));
        assert_eq!(spread.quantile(1.0), Duration::from_millis(5));
        assert_eq!(spread.to_string(), "3.00 ms median, 5.00 ms worst of 5");
    }

    #[test]
    fn every_quantile_of_one_duration_is_that_duration() {
        let spread = Spread::of(vec![Duration::from_micros(7)]);
        assert_eq!(spread.latency(), "7 µs median, 7 µs p99");
    }

    #[test]
    fn durations_are_displayed_in_a_suitable_unit() {
        for (micros, expected) in
            [(999, "999 µs"), (1_500, "1.50 ms"), (12_345, "12 ms"), (1_234_567, "1.23 s")]
        {
            assert_eq!(Short(Duration::from_micros(micros)).to_string(), expected);
        }
    }
}
