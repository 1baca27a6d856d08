//! Faults of devices: the taints and the absence by which each driver shows them.

use super::spec::Profile;
use crate::image::hash;
use k8s_openapi::api::resource::v1::{Device, DeviceTaint};

/// Codes of XID errors that an application causes: the GPU stays usable.
const OF_APPLICATIONS: [u32; 6] = [13, 31, 43, 45, 68, 109];

/// What is wrong with a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DeviceProblem {
    /// The driver finds it unhealthy.
    Unhealthy,
    /// A GPU reported this XID error.
    Xid(u32),
    /// A GPU fell off its bus.
    Lost,
}

/// A fault of one device of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceFault {
    /// The device; `None`: one of the node's is drawn.
    pub(crate) device: Option<String>,
    pub(crate) problem: DeviceProblem,
}

/// Shows the faults in the devices of a driver on a node.
pub(super) fn afflict(devices: &mut Vec<Device>, profile: Profile, node: &str, faults: &[DeviceFault]) {
    for fault in faults {
        let is_here = match fault.problem {
            DeviceProblem::Unhealthy => true,
            DeviceProblem::Xid(_) | DeviceProblem::Lost => matches!(profile, Profile::Nvidia { .. }),
        };
        if !is_here || devices.is_empty() {
            continue;
        }
        let at = match &fault.device {
            Some(name) => devices.iter().position(|device| device.name == *name),
            None => {
                usize::try_from(hash(0, &[node, profile.driver()])).ok().map(|drawn| drawn % devices.len())
            }
        };
        let Some(at) = at else { continue };
        match (fault.problem, profile) {
            (DeviceProblem::Unhealthy, Profile::Tpu { .. }) => drop(devices.remove(at)),
            (problem, _) => taint(&mut devices[at], profile.driver(), problem),
        }
    }
}

/// Adds the taint of a problem. Of several XID errors the last one counts.
fn taint(device: &mut Device, driver: &str, problem: DeviceProblem) {
    let (name, value, is_usable) = match problem {
        DeviceProblem::Unhealthy => ("unhealthy", None, false),
        DeviceProblem::Xid(code) => ("xid", Some(code.to_string()), OF_APPLICATIONS.contains(&code)),
        DeviceProblem::Lost => ("gpu-lost", None, false),
    };
    let key = format!("{driver}/{name}");
    let effect = if is_usable { "None" } else { "NoSchedule" }.to_owned();
    let taints = device.taints.get_or_insert_default();
    taints.retain(|taint| taint.key != key);
    taints.push(DeviceTaint { key, value, effect, time_added: None });
}
