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

    /// The work that the component has not done yet; `None` if it has done all, or does no work that ends.
    fn pending(&self) -> Option<PendingWork> {
        None
    }
}

/// What a component still has to do, with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PendingWork {
    /// A cache that has not synced.
    Filling {
        /// The name of the informer.
        cache: Arc<str>,
    },
    /// A cache with changes that its subscribers have not taken.
    Changes {
        /// The name of the informer.
        cache: Arc<str>,
        /// The number of changes, counted once per subscriber.
        changes: usize,
    },
    /// A work queue with keys that are ready to run.
    Ready {
        /// The name of the queue.
        queue: Arc<str>,
        /// The number of keys.
        keys: usize,
    },
    /// A controller with active runs.
    Runs {
        /// The name of the controller.
        controller: Arc<str>,
        /// The number of runs.
        active: usize,
    },
}

impl fmt::Display for PendingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filling { cache } => write!(f, "cache {cache} is being filled"),
            Self::Changes { cache, changes } => write!(f, "cache {cache}: {changes} changes wait"),
            Self::Ready { queue, keys } => write!(f, "workqueue {queue}: {keys} ready keys"),
            Self::Runs { controller, active } => write!(f, "controller {controller}: {active} active runs"),
        }
    }
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

    /// What the live collectors have not done yet, one entry for each that has pending work.
    pub fn pending(&self) -> Vec<PendingWork> {
        self.parts().iter().filter_map(|part| part.pending()).collect()
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
