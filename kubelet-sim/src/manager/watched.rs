//! What streams see of the manager's pods: the newest state of each pod that one of them follows.

use super::Manager;
use crate::runtime::Runtime as _;
use crate::stream::{Exit, Feed, Latest};
use jiff::Timestamp;
use kstore_client::StreamRequest;
use kstore_informer::Key;
use std::sync::Arc;

impl Manager {
    /// The nodes that answer.
    pub(crate) fn serving(&self) -> Vec<String> {
        let answering = self.nodes.iter().filter(|(_, node)| !node.stopped());
        answering.map(|(name, _)| name.clone()).collect()
    }

    /// The pod that a stream is about, now and later; `None` if it is not here.
    pub(crate) fn watch(&mut self, request: &StreamRequest) -> Option<Feed> {
        let key = Key::new(&request.namespace, &request.pod);
        let entry = self.pods.get(&key)?;
        if *entry.uid != *request.uid || entry.node() != request.node {
            return None;
        }
        let reachable = self.nodes.get(entry.node()).is_some_and(|node| !node.stopped());
        let feed = || Arc::new(Latest::new(entry.snapshot(reachable, false)));
        Some(self.watched.entry(Arc::clone(&entry.uid)).or_insert_with(feed).clone())
    }

    /// What ran in a container has ended by itself. Nothing happens if another run is under way.
    pub(crate) fn exited(&mut self, exit: &Exit, now: Timestamp) {
        let key = Key::new(&exit.request.namespace, &exit.request.pod);
        let Some(entry) = self.pods.get(&key).filter(|entry| *entry.uid == *exit.request.uid) else { return };
        let place = entry.object().containers().position(|spec| spec.name == exit.request.container);
        if let Some(index) = place.filter(|index| entry.runs(*index, &exit.run)) {
            let object = entry.object().clone();
            self.runtime.exit(&object, index, exit.code.into(), now);
        }
    }

    /// Shows the pod's newest state to the streams that follow it; forgets that they did when they are gone.
    pub(super) fn show(&mut self, key: &Key) {
        if self.watched.is_empty() {
            return;
        }
        let Some(entry) = self.pods.get(key) else { return };
        let Some(feed) = self.watched.get(&entry.uid) else { return };
        if Arc::strong_count(feed) == 1 {
            self.watched.remove(&entry.uid);
            return;
        }
        let reachable = self.nodes.get(entry.node()).is_some_and(|node| !node.stopped());
        feed.set(entry.snapshot(reachable, false));
    }

    /// The last that the streams of a pod see of it.
    pub(super) fn show_gone(&mut self, key: &Key) {
        let Some(entry) = self.pods.get(key) else { return };
        if let Some(feed) = self.watched.remove(&entry.uid) {
            feed.set(entry.snapshot(true, true));
        }
    }
}
