//! Grants for optional kinds, as data: they exist only on servers that serve the kind, as in Kubernetes with the
//! feature gate.

use super::{Grant, Named, On, READ, RECORD_EVENTS, Role, WRITE, controllers};
use kstore_api::kind::OptIn;
use serde_json::Value;

/// Grants for one optional kind.
struct OptionalGrants {
    /// Group and plural of the kind.
    kind: (&'static str, &'static str),
    /// ClusterRoles that no binding refers to.
    roles: &'static [Role],
    /// Rules that existing ClusterRoles have in addition.
    additions: &'static [(&'static str, Grant)],
    /// Service account of the kind's controller, and the rules of its role; `None` if no controller works for the kind alone.
    controller: Option<(&'static str, &'static [Grant])>,
}

const READ_BUNDLES: Grant = On(READ, "certificates.k8s.io", "clustertrustbundles");

/// Rules of kubelets, which request certificates for their pods and wait for them.
const REQUEST_CERTIFICATES: Grant =
    On("create get list watch", "certificates.k8s.io", "podcertificaterequests");

/// The rules of devices' taints, for the scheduler and the controller that evicts pods.
const READ_TAINT_RULES: Grant = On(READ, "resource.k8s.io", "devicetaintrules");

/// Rules of editors and readers for gangs.
const WRITE_GROUPS: Grant = On(WRITE, "scheduling.k8s.io", "podgroups");
const READ_GROUPS: Grant = On(READ, "scheduling.k8s.io", "podgroups podgroups/status");
const WRITE_WORKLOADS: Grant = On(WRITE, "scheduling.k8s.io", "workloads");
const READ_WORKLOADS: Grant = On(READ, "scheduling.k8s.io", "workloads");

/// Role of the controller that evicts pods from devices with taints.
const TAINT_EVICTION: &str = "system:controller:device-taint-eviction-controller";

const OPTIONAL: &[OptionalGrants] = &[
    OptionalGrants {
        kind: ("certificates.k8s.io", "clustertrustbundles"),
        roles: &[Role {
            name: "system:cluster-trust-bundle-discovery",
            part_of: &[],
            rules: &[READ_BUNDLES],
        }],
        additions: &[("system:node", READ_BUNDLES), ("system:kstore:kubelet-sim", READ_BUNDLES)],
        controller: Some((
            "kube-apiserver-serving-clustertrustbundle-publisher",
            &[
                Named("attest", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-serving"),
                On("create delete list update watch", "certificates.k8s.io", "clustertrustbundles"),
                RECORD_EVENTS,
            ],
        )),
    },
    OptionalGrants {
        kind: ("certificates.k8s.io", "podcertificaterequests"),
        roles: &[],
        additions: &[
            ("system:node", REQUEST_CERTIFICATES),
            ("system:kstore:kubelet-sim", REQUEST_CERTIFICATES),
        ],
        controller: Some((
            "podcertificaterequestcleaner",
            &[On("delete get list watch", "certificates.k8s.io", "podcertificaterequests"), RECORD_EVENTS],
        )),
    },
    OptionalGrants {
        kind: ("resource.k8s.io", "devicetaintrules"),
        roles: &[],
        additions: &[
            ("system:kube-scheduler", READ_TAINT_RULES),
            (TAINT_EVICTION, READ_TAINT_RULES),
            (TAINT_EVICTION, On("patch update", "resource.k8s.io", "devicetaintrules/status")),
        ],
        controller: None,
    },
    OptionalGrants {
        kind: ("scheduling.k8s.io", "podgroups"),
        roles: &[],
        additions: &[
            ("system:aggregate-to-edit", WRITE_GROUPS),
            ("system:aggregate-to-view", READ_GROUPS),
            // The aggregated roles have them before their controller runs.
            ("admin", WRITE_GROUPS),
            ("admin", READ_GROUPS),
            ("edit", WRITE_GROUPS),
            ("edit", READ_GROUPS),
            ("view", READ_GROUPS),
            ("system:kube-scheduler", On(READ, "scheduling.k8s.io", "podgroups")),
            ("system:kube-scheduler", On("patch update", "scheduling.k8s.io", "podgroups/status")),
        ],
        controller: Some((
            "podgroup-protection-controller",
            &[
                On("get list update watch", "scheduling.k8s.io", "podgroups"),
                On(READ, "-", "pods"),
                RECORD_EVENTS,
            ],
        )),
    },
    OptionalGrants {
        kind: ("scheduling.k8s.io", "workloads"),
        roles: &[],
        additions: &[
            ("system:aggregate-to-edit", WRITE_WORKLOADS),
            ("system:aggregate-to-view", READ_WORKLOADS),
            ("admin", WRITE_WORKLOADS),
            ("admin", READ_WORKLOADS),
            ("edit", WRITE_WORKLOADS),
            ("edit", READ_WORKLOADS),
            ("view", READ_WORKLOADS),
        ],
        controller: None,
    },
    OptionalGrants {
        kind: ("storagemigration.k8s.io", "storageversionmigrations"),
        roles: &[],
        additions: &[],
        controller: Some((
            "storage-version-migrator-controller",
            &[
                // An applied patch of a deleted object counts as its creation, which its UID then refuses.
                On("create list patch", "*", "*"),
                On("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
            ],
        )),
    },
];

/// Adds the grants for the optional kinds of a server to its default roles and bindings.
pub(super) fn add(objects: &mut Vec<Value>, opt_in: &OptIn) {
    for grants in OPTIONAL.iter().filter(|grants| opt_in.has(grants.kind.0, grants.kind.1)) {
        for (name, rule) in grants.additions {
            let is_role =
                |object: &&mut Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == *name;
            let rules = objects.iter_mut().find(is_role).and_then(|role| role["rules"].as_array_mut());
            rules.expect("the table names default roles").push(rule.to_value());
        }
        objects.extend(grants.roles.iter().map(Role::to_value));
        objects.extend(grants.controller.iter().flat_map(controllers::role_and_binding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::bootstrap;
    use kstore_api::version::Minor;
    use std::collections::BTreeSet;

    #[test]
    fn grants_for_optional_kinds_exist_only_with_the_kind() {
        let names = |opt_in: &OptIn| -> BTreeSet<String> {
            bootstrap::objects_with(opt_in)
                .iter()
                .map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]))
                .collect()
        };
        let older = OptIn::version(Minor::V36);
        let (without, with) = (names(&older), names(&OptIn::all()));
        let added: Vec<&String> = with.difference(&without).collect();
        let controllers = OPTIONAL.iter().filter(|grants| grants.controller.is_some()).count();
        let roles: usize = OPTIONAL.iter().map(|grants| grants.roles.len()).sum();
        assert_eq!(added.len(), 2 * controllers + roles, "{added:?}");
        let in_1_37 = names(&OptIn::version(Minor::V37)).difference(&without).count();
        assert_eq!(in_1_37, 2 * (controllers - 1) + roles, "1.37 serves all of them but PodGroups");
        let has = |opt_in: &OptIn, role: &str, grant: &Grant| {
            let objects = bootstrap::objects_with(opt_in);
            let role = objects.iter().find(|object| object["metadata"]["name"] == role).unwrap();
            role["rules"].as_array().unwrap().contains(&grant.to_value())
        };
        for role in ["system:node", "system:kstore:kubelet-sim"] {
            for grant in [READ_BUNDLES, REQUEST_CERTIFICATES] {
                assert!(!has(&older, role, &grant) && has(&OptIn::all(), role, &grant), "{role}");
            }
        }
        for role in ["system:kube-scheduler", TAINT_EVICTION] {
            let grant = READ_TAINT_RULES;
            assert!(!has(&older, role, &grant) && has(&OptIn::default(), role, &grant), "{role}");
        }
        let groups = [
            ("system:aggregate-to-edit", WRITE_GROUPS),
            ("system:aggregate-to-view", READ_WORKLOADS),
            ("edit", READ_GROUPS),
            ("system:kube-scheduler", On("patch update", "scheduling.k8s.io", "podgroups/status")),
        ];
        for (role, grant) in groups {
            assert!(!has(&OptIn::default(), role, &grant) && has(&OptIn::all(), role, &grant), "{role}");
        }
    }
}
