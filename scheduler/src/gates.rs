//! [`Gates`]: the feature gates of kube-scheduler that change what this scheduler does.

/// Feature gates. The default has those of kube-scheduler 1.36; a program asks [`Self::of`] with the gates of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `SchedulerPopFromBackoffQ`: pods in back-off after a refusal are tried as soon as no other pod is ready.
    pub pop_from_backoff: bool,
    /// `NominatedNodeNameForExpectation`: a pod that waits for its volumes shows its node in `status.nominatedNodeName`.
    pub nominates_expected_node: bool,
    /// `DRASchedulerFilterTimeout`: the search for devices on a node is bounded.
    pub bounds_device_search: bool,
    /// `DRADeviceBindingConditions`: devices that must be prepared before a pod is bound are allocated, and the pod waits for them.
    pub prepares_devices: bool,
    /// `StorageCapacityScoring`: nodes are scored by the share of their storage that the pod's claims would use.
    pub scores_storage_capacity: bool,
    /// `NodeDeclaredFeatures`: pods that need a feature of kubelets run only on nodes that declare it.
    pub matches_declared_features: bool,
    /// `GangScheduling`: the pods of a gang get their nodes together or not at all.
    pub schedules_gangs: bool,
    /// `DRAExtendedResource`: devices of a DeviceClass satisfy requests for the class's extended resource.
    pub extends_resources: bool,
    /// `VolumeLimitScaling`: a pod whose volumes a CSI driver serves runs only on nodes that have the driver, if the CSIDriver asks for it.
    pub requires_csi_drivers: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            pop_from_backoff: true,
            nominates_expected_node: true,
            bounds_device_search: true,
            prepares_devices: true,
            scores_storage_capacity: false,
            matches_declared_features: true,
            schedules_gangs: false,
            extends_resources: true,
            requires_csi_drivers: false,
        }
    }
}

impl Gates {
    /// The names of the gates.
    pub const NAMES: [&str; 9] = [
        "SchedulerPopFromBackoffQ",
        "NominatedNodeNameForExpectation",
        "DRASchedulerFilterTimeout",
        "DRADeviceBindingConditions",
        "StorageCapacityScoring",
        "NodeDeclaredFeatures",
        "GangScheduling",
        "DRAExtendedResource",
        "VolumeLimitScaling",
    ];

    /// Whether the gate of this name is on. A name that is not in [`Gates::NAMES`] is off.
    pub fn is_on(&self, name: &str) -> bool {
        let Self {
            pop_from_backoff,
            nominates_expected_node,
            bounds_device_search,
            prepares_devices,
            scores_storage_capacity,
            matches_declared_features,
            schedules_gangs,
            extends_resources,
            requires_csi_drivers,
        } = *self;
        let values = [
            pop_from_backoff,
            nominates_expected_node,
            bounds_device_search,
            prepares_devices,
            scores_storage_capacity,
            matches_declared_features,
            schedules_gangs,
            extends_resources,
            requires_csi_drivers,
        ];
        Self::NAMES.iter().zip(values).any(|(own, is_on)| *own == name && is_on)
    }

    /// The gates for which `is_on`, a function of the name, says yes.
    pub fn of(is_on: impl Fn(&str) -> bool) -> Self {
        let [
            pop_from_backoff,
            nominates_expected_node,
            bounds_device_search,
            prepares_devices,
            scores_storage_capacity,
            matches_declared_features,
            schedules_gangs,
            extends_resources,
            requires_csi_drivers,
        ] = Self::NAMES.map(is_on);
        Self {
            pop_from_backoff,
            nominates_expected_node,
            bounds_device_search,
            prepares_devices,
            scores_storage_capacity,
            matches_declared_features,
            schedules_gangs,
            extends_resources,
            requires_csi_drivers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_on_by_its_own_name_only() {
        for name in Gates::NAMES {
            let gates = Gates::of(|other| other == name);
            let on: Vec<_> = Gates::NAMES.into_iter().filter(|other| gates.is_on(other)).collect();
            assert_eq!(on, [name]);
        }
        assert!(!Gates::of(|_| true).is_on("NoSuchGate"));
    }
}
