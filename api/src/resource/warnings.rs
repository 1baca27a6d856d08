//! [`Warnings`]: what validation collects for the `Warning` headers of an answer.

use crate::limits::WARNINGS_MAX;

/// Warnings collected so far; those beyond [`WARNINGS_MAX`] are dropped.
#[derive(Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Whether further warnings are dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= WARNINGS_MAX
    }

    /// Adds a warning.
    pub(crate) fn push(&mut self, warning: String) {
        if !self.is_full() {
            self.0.push(warning);
        }
    }

    /// Adds several warnings.
    pub(crate) fn extend(&mut self, warnings: impl IntoIterator<Item = String>) {
        warnings.into_iter().for_each(|warning| self.push(warning));
    }

    /// The collected warnings.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
