//! [`ContainerRequests`]: the resources that devices may satisfy, by the containers that request them.

use crate::resources::is_of_devices;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The resources of one container that devices may satisfy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRequests {
    /// The position among the init containers and then the containers.
    pub index: usize,
    /// The name of the container.
    pub name: String,
    /// Whether the container ends before the pod's containers start: an init container that is no sidecar.
    pub is_short_lived: bool,
    /// The requests, by name.
    pub resources: Vec<ResourceRequest>,
}

/// A request of a container for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// The name of the resource.
    pub resource: Arc<str>,
    /// The position among all requests of the container, by name.
    pub index: usize,
    /// The requested number, above zero.
    pub count: i64,
}

/// The requests of a container with these `amounts` by name; `None` if devices satisfy none of them.
pub(super) fn of_container(
    (index, name, is_short_lived): (usize, &str, bool),
    amounts: &BTreeMap<String, crate::quantity::Amount>,
) -> Option<ContainerRequests> {
    let own = amounts
        .iter()
        .enumerate()
        .filter(|(_, (resource, amount))| is_of_devices(resource) && amount.whole > 0);
    let resources: Vec<ResourceRequest> = own
        .map(|(index, (resource, amount))| ResourceRequest {
            resource: resource.as_str().into(),
            index,
            count: amount.whole,
        })
        .collect();
    let name = name.to_owned();
    (!resources.is_empty()).then_some(ContainerRequests { index, name, is_short_lived, resources })
}
