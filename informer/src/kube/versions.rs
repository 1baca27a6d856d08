//! [`Versions`]: maps a server's `resourceVersion`s to revisions and back. Numeric versions stay unchanged.
//! After the first non-numeric version the source assigns its own numbers and remembers the version of each.

use crate::Revision;
use crate::limits::KUBE_VERSIONS;
use kstore_nondet::HashMap;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first assigned number, above every numeric version that the server may have sent before.
const OWN: u64 = 1 << 62;

/// Mapping between `resourceVersion`s and revisions.
#[derive(Default)]
pub(super) struct Versions {
    opaque: AtomicBool,
    own: Mutex<AssignedVersions>,
}

#[derive(Default)]
struct AssignedVersions {
    /// How many numbers were assigned.
    count: u64,
    numbers: HashMap<Arc<str>, u64>,
    /// The `resourceVersion` of each assigned number, to resume a watch after it.
    texts: BTreeMap<u64, Arc<str>>,
}

impl Versions {
    /// For a server whose versions are known not to be numbers.
    pub(super) fn opaque() -> Self {
        Self { opaque: AtomicBool::new(true), own: Mutex::default() }
    }

    /// Whether revisions are assigned numbers.
    pub(super) fn is_opaque(&self) -> bool {
        self.opaque.load(Ordering::Acquire)
    }

    /// The revision of a version in a watch event, a bookmark or a list's metadata. A new version is newer
    /// than all known ones.
    pub(super) fn position(&self, version: &str) -> Revision {
        match self.parsed(version) {
            Some(revision) => revision,
            None => Revision(self.own.lock().number(version)),
        }
    }

    /// The revision of an object in a list. Lists do not tell in which order their objects changed, so an
    /// unknown version gets the revision of the list.
    pub(super) fn listed(&self, version: &str, list: Revision) -> Revision {
        match self.parsed(version) {
            Some(revision) => revision,
            None => Revision(self.own.lock().known(version, list.0)),
        }
    }

    /// The `resourceVersion` of a revision, to resume after it; `None` if it is forgotten.
    pub(super) fn version(&self, revision: Revision) -> Option<String> {
        match self.is_opaque() {
            true => self.own.lock().texts.get(&revision.0).map(|text| text.to_string()),
            false => Some(revision.to_string()),
        }
    }

    fn parsed(&self, version: &str) -> Option<Revision> {
        if version.is_empty() {
            return Some(Revision(0));
        }
        if self.is_opaque() {
            return None;
        }
        let parsed = version.parse().ok().map(Revision);
        if parsed.is_none() {
            tracing::info!(version, "resourceVersion is not a number; assigning revisions locally");
            self.opaque.store(true, Ordering::Release);
        }
        parsed
    }
}

impl AssignedVersions {
    fn number(&mut self, version: &str) -> u64 {
        if let Some(number) = self.numbers.get(version).filter(|number| self.texts.contains_key(number)) {
            return *number;
        }
        self.count += 1;
        let (number, text): (u64, Arc<str>) = (OWN + self.count, version.into());
        self.texts.insert(number, text.clone());
        self.numbers.insert(text, number);
        self.bound();
        number
    }

    fn known(&mut self, version: &str, list: u64) -> u64 {
        if let Some(number) = self.numbers.get(version) {
            return *number;
        }
        self.numbers.insert(version.into(), list);
        self.bound();
        list
    }

    /// Forgets the oldest entries beyond the bound.
    fn bound(&mut self) {
        while self.texts.len() > KUBE_VERSIONS {
            self.texts.pop_first();
        }
        if self.numbers.len() > 2 * KUBE_VERSIONS {
            let mut all: Vec<u64> = self.numbers.values().copied().collect();
            all.sort_unstable();
            let least = all[all.len() / 2];
            self.numbers.retain(|_, number| *number > least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_versions_stay_unchanged() {
        let versions = Versions::default();
        assert_eq!(versions.position("41"), Revision(41));
        assert_eq!(versions.listed("7", Revision(41)), Revision(7));
        assert_eq!(versions.version(Revision(41)).as_deref(), Some("41"));
        assert_eq!(versions.position(""), Revision(0));
        assert!(!versions.is_opaque());
    }

    #[test]
    fn opaque_versions_are_numbered_in_order_of_arrival() {
        let versions = Versions::default();
        let first = versions.position("12");
        let (b, a) = (versions.position("b"), versions.position("a"));
        assert!(versions.is_opaque() && first < b && b < a);
        assert_eq!(versions.position("b"), b, "a repetition is the same position");
        assert_eq!(versions.version(a).as_deref(), Some("a"));
        assert_eq!(versions.version(Revision(5)), None);
    }

    /// R7: a list that is read again has the same revisions.
    #[test]
    fn an_unchanged_listed_object_keeps_its_revision() {
        let versions = Versions::opaque();
        let list = versions.position("l1");
        let object = versions.listed("o1", list);
        assert_eq!(object, list);
        let changed = versions.position("o2");
        let again = versions.position("l2");
        assert!(list < changed && changed < again);
        assert_eq!(versions.listed("o1", again), object);
        assert_eq!(versions.listed("o2", again), changed);
        assert_eq!(versions.listed("o3", again), again);
    }

    #[test]
    fn remembered_versions_are_bounded() {
        let versions = Versions::opaque();
        let first = versions.position("first");
        for i in 0..3 * KUBE_VERSIONS {
            versions.position(&i.to_string());
        }
        let own = versions.own.lock();
        assert!(own.texts.len() <= KUBE_VERSIONS && own.numbers.len() <= 2 * KUBE_VERSIONS + 1);
        drop(own);
        assert_eq!(versions.version(first), None);
        assert!(versions.position("first") > first, "it is a new position");
    }
}
