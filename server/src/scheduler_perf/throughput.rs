//! [`Throughput`]: how many pods a second got a node, from samples. Pure.

use std::time::Duration;

/// The interval of samples, as in scheduler_perf.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// The samples of a measurement under way.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Pods a second of each interval.
    rates: Vec<f64>,
    /// Pods and time of all samples.
    pods: u64,
    elapsed: Duration,
}

/// Pods a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Throughput {
    /// All pods by all of the time.
    pub(super) average: f64,
    /// Percentiles of the samples: 50, 90, 95, 99.
    pub(super) percentiles: [f64; 4],
    /// Pods that were scheduled during the measurement.
    pub(super) pods: u64,
}

/// The percentiles in [`Throughput`].
pub(super) const PERCENTILES: [usize; 4] = [50, 90, 95, 99];

impl Samples {
    /// Adds the pods that got a node in an interval.
    pub(super) fn add(&mut self, pods: u64, elapsed: Duration) {
        if elapsed.is_zero() {
            return;
        }
        self.rates.push(rate(pods, elapsed));
        self.pods += pods;
        self.elapsed += elapsed;
    }

    /// The result; zero without a sample.
    pub(super) fn throughput(&self) -> Throughput {
        let mut sorted = self.rates.clone();
        sorted.sort_by(f64::total_cmp);
        // The nearest rank.
        let percentile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            sorted.get(rank - 1).copied().unwrap_or_default()
        };
        let average = if self.elapsed.is_zero() { 0.0 } else { rate(self.pods, self.elapsed) };
        Throughput { average, percentiles: PERCENTILES.map(percentile), pods: self.pods }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is a float; counts are far below 2^53")]
fn rate(pods: u64, elapsed: Duration) -> f64 {
    pods as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_weighs_intervals_by_their_length_and_percentiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.throughput().average, 0.0);
        for pods in [100, 300, 200] {
            samples.add(pods, INTERVAL);
        }
        samples.add(0, Duration::ZERO);
        samples.add(100, Duration::from_millis(500));
        let expected = Throughput { average: 200.0, percentiles: [200.0, 300.0, 300.0, 300.0], pods: 700 };
        assert_eq!(samples.throughput(), expected);
    }
}
