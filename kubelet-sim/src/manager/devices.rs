//! The devices of one node in the manager: which pools its drivers publish, and whether they are to be written. Synchronous.

use super::nodes::NodeEntry;
use super::write::{DevicePools, Write};
use crate::device::class::classes;
use crate::device::pool::pools;
use crate::device::spec::DeviceSpec;
use crate::fault::effect::Effects;
use kstore_informer::Object as _;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The devices of a node.
#[derive(Default)]
pub(super) struct DeviceState {
    /// Those that the node has.
    specs: Arc<[DeviceSpec]>,
    /// The number of changes of what is published.
    version: u64,
    /// The version whose slices are in the API.
    written: u64,
}

impl DeviceState {
    /// The devices of a new node. Those that an earlier process published are compared with them.
    pub(super) fn new(specs: Arc<[DeviceSpec]>) -> Self {
        let version = u64::from(specs.iter().any(DeviceSpec::has_slices));
        Self { specs, version, written: 0 }
    }

    /// Compares the effects of faults: if those on devices differ, the pools are published again.
    pub(super) fn take_faults(&mut self, before: &Effects, now: &Effects) {
        let is_same = before.devices == now.devices && before.drivers_away == now.drivers_away;
        if !is_same && self.specs.iter().any(DeviceSpec::has_slices) {
            self.version += 1;
        }
    }

    /// Takes the success of the write of a version.
    pub(super) fn written(&mut self, version: u64) {
        self.written = self.written.max(version);
    }
}

impl NodeEntry {
    /// The write of the node's device pools, if one is due. `known` are the DeviceClasses that exist. Slices name the Node as their owner,
    /// so they wait until the informer shows it.
    pub(super) fn device_write(&self, known: &BTreeSet<String>) -> Option<Write> {
        let DeviceState { specs, version, written } = &self.devices;
        let record = self.record.as_ref().filter(|_| version != written && !self.stopped())?;
        let node = &self.identity.name;
        let Effects { devices, drivers_away, .. } = &self.faults.effects;
        let is_new = |name: &Option<String>| name.as_ref().is_some_and(|name| !known.contains(name));
        let pools = DevicePools {
            uid: record.uid().to_owned(),
            classes: classes(specs).into_iter().filter(|class| is_new(&class.metadata.name)).collect(),
            pools: pools(specs, node, devices, drivers_away),
        };
        Some(Write::Devices { node: node.clone(), version: *version, pools: Box::new(pools) })
    }
}
