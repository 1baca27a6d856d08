//! [`Inventory`]: the objects besides nodes and pods that a decision reads.

use crate::devices::Devices;
use crate::storage::Storage;

/// Storage objects and devices.
#[derive(Default)]
pub struct Inventory {
    /// Claims, volumes and classes of storage.
    pub storage: Storage,
    /// Resource claims, device classes and resource slices.
    pub devices: Devices,
}
