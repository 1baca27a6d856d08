//! One row of the table.

use std::fmt;

/// The table's first lines.
pub(crate) const HEAD: &str = "| what | bound | measured |\n|---|---|---|";

/// One figure.
pub(crate) struct Figure {
    what: String,
    bound: &'static str,
    measured: String,
}

impl Figure {
    /// A figure that is held to a bound; `""` if there is none.
    pub(crate) fn new(what: impl Into<String>, bound: &'static str, measured: impl Into<String>) -> Self {
        Self { what: what.into(), bound, measured: measured.into() }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} | {} |", self.what, self.bound, self.measured)
    }
}
