//! [`Inventory`]: what a decision reads besides nodes and the pods on them.

use crate::devices::Devices;
use crate::preemption::budgets::Budgets;
use crate::preemption::nominations::Nominations;
use crate::storage::Storage;

/// Storage objects, devices, disruption budgets and nominations of waiting pods.
#[derive(Default)]
pub struct Inventory {
    /// Claims, volumes and classes of storage.
    pub storage: Storage,
    /// Resource claims, device classes and resource slices.
    pub devices: Devices,
    /// PodDisruptionBudgets.
    pub budgets: Budgets,
    /// Waiting pods with the nodes for which they are nominated.
    pub nominations: Nominations,
}
