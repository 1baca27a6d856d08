//! What is going on in this crate, as a page in the Prometheus text format under the names that client-go and
//! controller-runtime use: [`Registry`]. It counts nothing itself and exports nothing: each part keeps its own figures, is asked
//! for them when somebody wants the page, and is forgotten when it is dropped.

mod histogram;
mod page;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

pub use histogram::Histogram;
pub(crate) use page::{Metric, Page};

/// A part that has figures.
pub(crate) trait Collect: Send + Sync {
    /// Writes them to the page. Called under no lock of the registry; it may take the part's own.
    fn collect(&self, into: &mut Page);
}

/// The parts whose figures make one page. Clones are the same registry.
///
/// It holds nothing alive: the figures of a part are on the page as long as the part exists, and no longer. Figures of the same
/// name and labels are added up, so two informers of one name are one series.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Vec<Weak<dyn Collect>>>>);

impl Registry {
    /// A registry without parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks `part` for its figures from now on, until it is dropped.
    pub(crate) fn add(&self, part: Weak<dyn Collect>) {
        let mut parts = self.0.lock();
        // Here, so that a process which makes and drops parts but never asks for the page keeps no dead ones.
        parts.retain(|part| part.strong_count() > 0);
        parts.push(part);
    }

    /// Appends the page to `out`, in the text format 0.0.4. Costs what the parts have to say; parts are locked one by one.
    pub fn render(&self, out: &mut String) {
        let mut page = Page::default();
        for part in self.parts() {
            part.collect(&mut page);
        }
        page.write(out);
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.parts().len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn parts(&self) -> Vec<Arc<dyn Collect>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("parts", &self.len()).finish()
    }
}
