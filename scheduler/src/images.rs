//! [`Images`]: on how many nodes each container image is.

use crate::node::NodeInfo;
use kstore_nondet::HashMap;

/// The number of nodes by name of the image.
#[derive(Debug, Default)]
pub struct Images(HashMap<String, usize>);

impl Images {
    /// Processes a change of a node; `None` if it did not or does not exist.
    pub fn change(&mut self, old: Option<&NodeInfo>, new: Option<&NodeInfo>) {
        if old.map(|node| &node.images) == new.map(|node| &node.images) {
            return;
        }
        for name in new.into_iter().flat_map(|node| node.images.keys()) {
            *self.0.entry(name.clone()).or_default() += 1;
        }
        for name in old.into_iter().flat_map(|node| node.images.keys()) {
            let count = self.0.get_mut(name).expect("the image was counted with its node");
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }

    /// The number of nodes that have the image.
    pub fn nodes_with(&self, image: &str) -> usize {
        self.0.get(image).copied().unwrap_or(0)
    }
}
