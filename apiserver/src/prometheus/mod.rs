//! Metrics in the Prometheus text format: counters, histograms and families of them, and the page that they are written to.

pub mod page;
mod series;

pub use page::Page;
pub use series::{Counter, Family, Histogram};
