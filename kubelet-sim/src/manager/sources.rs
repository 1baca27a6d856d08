//! References of pods to ConfigMaps, Secrets and claims, and the state of these in the API. A pod without
//! references costs nothing here. Synchronous; `follow` watches the objects, and `secrets` polls Secrets.

use super::Manager;
use super::pods::PodEntry;
use crate::pod::Input;
use crate::pod_object::needs;
use crate::pod_object::source::{SourceKey, SourceKind, SourceState, Sources};
use jiff::Timestamp;
use kstore_informer::Key;
use std::collections::{BTreeMap, BTreeSet};

/// A change in how a referenced object is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceOrder {
    /// The first pod refers to the object: watch or poll it.
    Follow(SourceKey),
    /// Another pod refers to a Secret and must not start with an old state of it: poll it now.
    Refresh(SourceKey),
    /// No pod refers to the object any more: stop.
    Leave(SourceKey),
}

/// Referenced objects with the pods that refer to them.
#[derive(Default)]
pub(super) struct References {
    pub(super) sources: Sources,
    pods: BTreeMap<SourceKey, BTreeSet<Key>>,
    orders: Vec<SourceOrder>,
}

impl References {
    /// The pods that refer to an object.
    pub(super) fn pods_of(&self, source: &SourceKey) -> impl Iterator<Item = &Key> {
        self.pods.get(source).into_iter().flatten()
    }

    /// Changes the references of a pod from `before` to `after`.
    fn change(&mut self, pod: &Key, before: &BTreeSet<SourceKey>, after: &BTreeSet<SourceKey>) {
        for key in after.difference(before) {
            let pods = self.pods.entry(key.clone()).or_default();
            if pods.is_empty() {
                self.orders.push(SourceOrder::Follow(key.clone()));
            } else if key.kind == SourceKind::Secret {
                self.sources.remove(key);
                self.orders.push(SourceOrder::Refresh(key.clone()));
            }
            pods.insert(pod.clone());
        }
        for key in before.difference(after) {
            let Some(pods) = self.pods.get_mut(key) else { continue };
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(key);
                self.sources.remove(key);
                self.orders.push(SourceOrder::Leave(key.clone()));
            }
        }
    }
}

impl Manager {
    /// Updates the references from the pod's newest object; a pod that has ended has none.
    pub(super) fn record_references(&mut self, key: &Key) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let after =
            if entry.object().terminal() { BTreeSet::new() } else { needs::references(entry.object()) };
        if after != entry.references {
            let before = std::mem::replace(&mut entry.references, after);
            self.references.change(key, &before, &entry.references);
        }
    }

    /// Removes the references of a pod that is about to be forgotten.
    pub(super) fn drop_references(&mut self, key: &Key) {
        if let Some(entry) = self.pods.get_mut(key) {
            let before = std::mem::take(&mut entry.references);
            self.references.change(key, &before, &BTreeSet::new());
        }
    }

    /// Takes the state of an object, and steps the pods that refer to it if it has changed. True if one of
    /// them may still wait for it.
    pub(crate) fn observe_source(&mut self, source: SourceKey, state: SourceState, now: Timestamp) -> bool {
        let Some(pods) = self.references.pods.get(&source).cloned() else { return false };
        // Values may have changed, which the state does not have.
        let shown = pods.iter().filter(|key| self.pods.get(key).is_some_and(PodEntry::shows_objects));
        self.refreshes.extend(shown.cloned());
        if self.references.sources.set(source, state) {
            for key in &pods {
                let node = self.pods.get(key).and_then(|entry| self.nodes.get(entry.node()));
                if node.is_some_and(|node| !node.stopped()) {
                    self.step_pod(key, Input::Observed, now);
                }
            }
        }
        pods.iter().filter_map(|key| self.pods.get(key)).any(PodEntry::awaits_sources)
    }

    /// The changes of watches since the last call.
    pub(crate) fn take_source_orders(&mut self) -> Vec<SourceOrder> {
        std::mem::take(&mut self.references.orders)
    }
}
