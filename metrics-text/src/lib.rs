//! The text formats of Prometheus: a writer of pages, histograms, and the translation into OpenMetrics. This crate knows the formats, not
//! the metrics.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod histogram;
mod open_metrics;
mod page;

pub use histogram::{AtomicHistogram, Histogram};
pub use open_metrics::{OPEN_METRICS, open_metrics};
pub use page::{Label, LabelText, Page, TEXT};
