//! [`Row`]: one row of the table, made of samples.

use crate::spread::{Short, Spread};
use std::fmt;

/// The table's header.
pub(super) const HEAD: &str = "| what | etcd | ours | ratio | target | CPU per operation, etcd → ours | p50 / p99 etcd | p50 / p99 ours |\n|---|---|---|---|---|---|---|---|";

/// The result of one run of a load.
pub(super) struct Sample {
    /// Operations per second.
    pub(super) rate: f64,
    /// The server's CPU time per operation, in microseconds.
    pub(super) processor: f64,
    /// Latencies of calls; `None` where they are meaningless.
    pub(super) latency: Option<Spread>,
}

impl Sample {
    fn latencies(&self) -> String {
        let quantiles =
            |spread: &Spread| format!("{} / {}", Short(spread.quantile(0.5)), Short(spread.quantile(0.99)));
        self.latency.as_ref().map_or_else(String::new, quantiles)
    }
}

/// The sample with the median rate; `None` for no samples.
pub(super) fn median(mut samples: Vec<Sample>) -> Option<Sample> {
    samples.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let middle = samples.len() / 2;
    (!samples.is_empty()).then(|| samples.swap_remove(middle))
}

/// One row.
#[derive(Default)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) etcd: String,
    pub(super) ours: String,
    pub(super) ratio: String,
    pub(super) target: &'static str,
    pub(super) processor: String,
    pub(super) latency: (String, String),
}

impl Row {
    /// A row of rates, where more is better.
    pub(super) fn rates(what: String, target: &'static str, etcd: Option<&Sample>, ours: &Sample) -> Self {
        let rate = |sample: &Sample| format!("{:.0}/s", sample.rate);
        let processor = |sample: &Sample| format!("{:.1} µs", sample.processor);
        Self {
            what,
            etcd: etcd.map(rate).unwrap_or_default(),
            ours: rate(ours),
            ratio: etcd.map(|etcd| ratio(ours.rate, etcd.rate)).unwrap_or_default(),
            target,
            processor: format!("{} → {}", etcd.map(processor).unwrap_or_default(), processor(ours)),
            latency: (etcd.map(Sample::latencies).unwrap_or_default(), ours.latencies()),
        }
    }
}

/// A ratio as the table shows it.
pub(super) fn ratio(ours: f64, etcd: f64) -> String {
    format!("{:.2}×", ours / etcd)
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, etcd, ours, ratio, target, processor, latency: (p_etcd, p_ours) } = self;
        write!(f, "| {what} | {etcd} | {ours} | {ratio} | {target} | {processor} | {p_etcd} | {p_ours} |")
    }
}
