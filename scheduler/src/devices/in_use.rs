//! Devices that claims have, with what they consume of devices that several claims share.

use super::DeviceId;
use super::capacity::Amounts;
use super::claim::Allocation;
use kstore_nondet::HashMap;

/// The devices in use. Administrative access uses no device.
#[derive(Debug, Default)]
pub(super) struct InUse {
    /// The number of claims that have a device alone. More than one only by a mistake of other writers.
    exclusive: HashMap<DeviceId, usize>,
    /// What each claim consumes of a shared device.
    shared: HashMap<DeviceId, Vec<Amounts>>,
}

impl InUse {
    pub(super) fn add(&mut self, allocation: &Allocation) {
        for device in allocation.devices.iter().filter(|device| !device.is_admin) {
            match &device.consumed {
                None => *self.exclusive.entry(device.id.clone()).or_default() += 1,
                Some(amounts) => self.shared.entry(device.id.clone()).or_default().push(amounts.clone()),
            }
        }
    }

    /// Reverts [`add`](Self::add).
    pub(super) fn remove(&mut self, allocation: &Allocation) {
        for device in allocation.devices.iter().filter(|device| !device.is_admin) {
            match &device.consumed {
                None => {
                    let count = self.exclusive.get_mut(&device.id).expect("an allocation was added before");
                    *count -= 1;
                    if *count == 0 {
                        self.exclusive.remove(&device.id);
                    }
                }
                Some(amounts) => {
                    let users = self.shared.get_mut(&device.id).expect("an allocation was added before");
                    let at = users.iter().position(|user| user == amounts);
                    users.swap_remove(at.expect("an allocation was added before"));
                    if users.is_empty() {
                        self.shared.remove(&device.id);
                    }
                }
            }
        }
    }

    /// Whether a claim has the device alone.
    pub(super) fn is_taken(&self, device: &DeviceId) -> bool {
        self.exclusive.contains_key(device)
    }

    /// What each claim that shares the device consumes of it.
    pub(super) fn users(&self, device: &DeviceId) -> &[Amounts] {
        self.shared.get(device).map_or(&[], Vec::as_slice)
    }

    /// Whether any claim has the device.
    pub(super) fn is_used(&self, device: &DeviceId) -> bool {
        self.is_taken(device) || self.shared.contains_key(device)
    }
}
