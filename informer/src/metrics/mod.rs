//! [`Registry`]: metrics in the Prometheus text format: those of this crate, under the names of client-go and
//! controller-runtime, and those of the components that use it. The registry stores no values: each collector keeps
//! its own, writes them to the page on request, and disappears when it is dropped.

mod histogram;
mod page;
#[cfg(test)]
mod tests;

pub use histogram::Histogram;
pub use page::{Labels, Metric, Page};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};

/// A component with metrics.
pub trait Collect: Send + Sync {
    /// Writes the metrics to the page. The registry holds no lock during the call; the collector may take its
    /// own.
    fn collect(&self, into: &mut Page);
}

/// Collectors whose metrics form one page. Clones are the same registry.
///
/// The registry keeps no collector alive: metrics are on the page only while their collector exists. Values
/// with the same name and labels are added up, so two informers of one name form one series.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Vec<Weak<dyn Collect>>>>);

impl Registry {
    /// A registry without collectors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a collector until it is dropped.
    pub fn add(&self, part: Weak<dyn Collect>) {
        let mut parts = self.0.lock();
        // Cleans up here, so that dropped collectors do not pile up in a process that never renders the page.
        parts.retain(|part| part.strong_count() > 0);
        parts.push(part);
    }

    /// Appends the page to `out`, in the text format 0.0.4. Collectors are called one by one.
    pub fn render(&self, out: &mut String) {
        let mut page = Page::default();
        for part in self.parts() {
            part.collect(&mut page);
        }
        page.write(out);
    }

    /// Number of live collectors.
    pub fn len(&self) -> usize {
        self.parts().len()
    }

    /// Whether the registry has no live collectors.
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
