//! [`Inventory`]: what a decision reads besides nodes and the pods on them.

use crate::budgets::Budgets;
use crate::devices::Devices;
use crate::images::Images;
use crate::nominations::Nominations;
use crate::pod_groups::PodGroups;
use crate::storage::Storage;
use crate::tally::Tallies;
use crate::workloads::Workloads;

/// Storage objects, devices, PodGroups, workloads, budgets, nominations, and what was counted over nodes and pods.
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
    /// PodGroups and their pods.
    pub pod_groups: PodGroups,
    /// Services and controllers of pods.
    pub workloads: Workloads,
    /// The spread of container images.
    pub images: Images,
    /// Counted pods of recent selectors.
    pub tallies: Tallies,
}
