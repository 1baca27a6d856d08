//! Permissions beyond Kubernetes' default roles, as data: those of kstore's own components, each a ClusterRole and the
//! ClusterRoleBinding of the same name, and the role of users who see the history.

use super::{Binding, Grant, On, Paths, READ, RECORD_EVENTS, Role};
use serde_json::Value;

const ROLES: &[(Role, &[(&str, &str)])] = &[
    (
        Role { name: "system:kstore:kubelet-sim", part_of: &[], rules: KUBELET_SIM },
        &[("User", "system:kstore:kubelet-sim")],
    ),
    (
        Role { name: "system:kstore:metrics-server", part_of: &[], rules: METRICS_SERVER },
        &[("User", "system:kstore:metrics-server")],
    ),
    (
        Role { name: "system:kstore:ipallocator-repair-controller", part_of: &[], rules: ADDRESS_REPAIR },
        &[("ServiceAccount", "ipallocator-repair-controller")],
    ),
    (
        Role { name: "system:kstore:volume-provisioner", part_of: &[], rules: VOLUME_PROVISIONER },
        &[("ServiceAccount", "volume-provisioner")],
    ),
    (
        Role { name: "system:kstore:fenced-controllers", part_of: &[], rules: FENCED },
        &[("Group", "system:serviceaccounts:kube-system")],
    ),
];

/// The role of users who may read the history: revisions, who wrote what and because of what, and attempts to place pods. It is bound to
/// nobody. The server shows an object in these answers only to a user who may read that object, too.
const SEE: Role = Role { name: "kstore:see", part_of: &[], rules: &[Paths("get", "/kstore/v1/*")] };

/// Rules of controllers whose writes are fenced by the Lease of their program: a fence requires reading the Lease.
const FENCED: &[Grant] = &[On("get", "coordination.k8s.io", "leases")];

/// The rules of `system:persistent-volume-provisioner`, those of a resizer, and the creation of the default
/// StorageClass, which distributions of Kubernetes install.
const VOLUME_PROVISIONER: &[Grant] = &[
    On("create delete update", "-", "persistentvolumes"),
    On("update", "-", "persistentvolumeclaims/status"),
    On("create", "storage.k8s.io", "storageclasses"),
    RECORD_EVENTS,
];

/// Rules for the repair of allocated addresses. In Kubernetes, kube-apiserver does it and needs no role.
const ADDRESS_REPAIR: &[Grant] = &[On("create delete", "networking.k8s.io", "ipaddresses"), RECORD_EVENTS];

/// Rules of the built-in metrics server: it reads kubelets' summaries and the labels of nodes and pods.
const METRICS_SERVER: &[Grant] = &[On("get list", "-", "nodes pods"), On("get", "-", "nodes/proxy")];

/// Rules of a kubelet, for all simulated nodes together, which are one user. It can read Secrets by name, but
/// not list or watch them. Restricting it to Secrets that its pods refer to would need a user for each node
/// and the Node mode.
const KUBELET_SIM: &[Grant] = &[
    On("create delete get list patch update watch", "-", "nodes"),
    On("get patch update", "-", "nodes/status pods/status"),
    On("create", "-", "nodes/tunnel serviceaccounts/token"),
    On("delete get list watch", "-", "pods"),
    On("create patch update", "- events.k8s.io", "events"),
    On(READ, "-", "configmaps persistentvolumeclaims persistentvolumes serviceaccounts services"),
    On("get", "-", "namespaces secrets"),
    On("create delete get list patch update watch", "coordination.k8s.io", "leases"),
    On("create delete get patch update", "storage.k8s.io", "csinodes"),
    On(READ, "discovery.k8s.io", "endpointslices"),
    On(READ, "networking.k8s.io", "networkpolicies"),
    On(READ, "node.k8s.io", "runtimeclasses"),
    On(READ, "resource.k8s.io", "resourceclaims"),
];

/// The roles of components, each followed by its binding, and that of users.
pub(super) fn objects() -> impl Iterator<Item = Value> {
    let bound = ROLES.iter().flat_map(|(role, subjects)| {
        [role.to_value(), Binding { name: role.name, role: role.name, subjects }.to_value()]
    });
    bound.chain([SEE.to_value()])
}
