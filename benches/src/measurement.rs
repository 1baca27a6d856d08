//! [`Measurement`]: one row of the table.

use std::fmt;

/// The table's header.
pub(crate) const HEAD: &str = "| what | bound | measured |\n|---|---|---|";

/// One result with its bound.
pub(crate) struct Measurement {
    what: String,
    bound: &'static str,
    measured: String,
}

impl Measurement {
    /// A result with a bound; `""` for none.
    pub(crate) fn new(what: impl Into<String>, bound: &'static str, measured: impl Into<String>) -> Self {
        Self { what: what.into(), bound, measured: measured.into() }
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | {} |", self.what, self.bound, self.measured)
    }
}
