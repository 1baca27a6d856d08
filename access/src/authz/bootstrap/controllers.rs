//! Roles of the controllers of kube-controller-manager with service accounts of their own
//! (`--use-service-account-credentials`), as data equal to Kubernetes'. kstore's controllers act as these
//! accounts.

use super::{GROUP, Grant, Named, On, READ, RECORD_EVENTS, object};
use serde_json::{Value, json};

/// Rules by the name of the service account in `kube-system`, with which the names of role and binding end.
const CONTROLLERS: &[(&str, &[Grant])] = &[
    (
        "attachdetach-controller",
        &[
            On("list watch", "-", "persistentvolumeclaims persistentvolumes"),
            On(READ, "-", "nodes"),
            On("patch update", "-", "nodes/status"),
            On("list watch", "-", "pods"),
            RECORD_EVENTS,
            On("create delete get list watch", "storage.k8s.io", "volumeattachments"),
            On(READ, "storage.k8s.io", "csidrivers"),
            On(READ, "storage.k8s.io", "csinodes"),
        ],
    ),
    (
        "certificate-controller",
        &[
            On("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            On(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
            ),
            Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
            Named(
                "sign",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
            ),
            On("create", "authorization.k8s.io", "subjectaccessreviews"),
            RECORD_EVENTS,
        ],
    ),
    (
        "clusterrole-aggregation-controller",
        &[On("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    (
        "cronjob-controller",
        &[
            On("get list update watch", "batch", "cronjobs"),
            On("create delete get list patch update watch", "batch", "jobs"),
            On("update", "batch", "cronjobs/status"),
            On("update", "batch", "cronjobs/finalizers"),
            On("delete list watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "daemon-set-controller",
        &[
            On(READ, "apps extensions", "daemonsets"),
            On("update", "apps extensions", "daemonsets/status"),
            On("update", "apps extensions", "daemonsets/finalizers"),
            On("list watch", "-", "nodes"),
            On("create delete list patch watch", "-", "pods"),
            On("create", "-", "pods/binding"),
            On("create delete get list patch update watch", "apps", "controllerrevisions"),
            RECORD_EVENTS,
        ],
    ),
    (
        "deployment-controller",
        &[
            On("get list update watch", "apps extensions", "deployments"),
            On("update", "apps extensions", "deployments/status"),
            On("update", "apps extensions", "deployments/finalizers"),
            On("create delete get list patch update watch", "apps extensions", "replicasets"),
            On("get list update watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "device-taint-eviction-controller",
        &[
            On("delete get list watch", "-", "pods"),
            On("patch update", "-", "pods/status"),
            On(READ, "resource.k8s.io", "resourceclaims"),
            On(READ, "resource.k8s.io", "resourceslices"),
            On(READ, "resource.k8s.io", "deviceclasses"),
            RECORD_EVENTS,
        ],
    ),
    (
        "disruption-controller",
        &[
            On(READ, "apps extensions", "deployments"),
            On(READ, "apps extensions", "replicasets"),
            On(READ, "-", "replicationcontrollers"),
            On(READ, "policy", "poddisruptionbudgets"),
            On(READ, "apps", "statefulsets"),
            On("update", "policy", "poddisruptionbudgets/status"),
            On("patch update", "-", "pods/status"),
            On("get", "*", "*/scale"),
            RECORD_EVENTS,
        ],
    ),
    (
        "endpoint-controller",
        &[
            On(READ, "-", "pods services"),
            On("create delete get list update watch", "-", "endpoints"),
            On("create", "-", "endpoints/restricted"),
            RECORD_EVENTS,
        ],
    ),
    (
        "endpointslice-controller",
        &[
            On(READ, "-", "nodes pods services"),
            On("update", "-", "services/finalizers"),
            On("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            On("create", "discovery.k8s.io", "endpointslices/restricted"),
            RECORD_EVENTS,
        ],
    ),
    (
        "endpointslicemirroring-controller",
        &[
            On(READ, "-", "endpoints services"),
            On("update", "-", "services/finalizers"),
            On("update", "-", "endpoints/finalizers"),
            On("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            On("create", "discovery.k8s.io", "endpointslices/restricted"),
            RECORD_EVENTS,
        ],
    ),
    (
        "ephemeral-volume-controller",
        &[
            On(READ, "-", "pods"),
            On("update", "-", "pods/finalizers"),
            On("create get list watch", "-", "persistentvolumeclaims"),
            RECORD_EVENTS,
        ],
    ),
    (
        "expand-controller",
        &[
            On("get list patch update watch", "-", "persistentvolumes"),
            On("patch update", "-", "persistentvolumeclaims/status"),
            On(READ, "-", "persistentvolumeclaims"),
            RECORD_EVENTS,
        ],
    ),
    ("generic-garbage-collector", &[On("delete get list patch update watch", "*", "*"), RECORD_EVENTS]),
    (
        "horizontal-pod-autoscaler",
        &[
            On(READ, "autoscaling", "horizontalpodautoscalers"),
            On("update", "autoscaling", "horizontalpodautoscalers/status"),
            On("get update", "*", "*/scale"),
            On("list watch", "-", "pods"),
            On("list watch", "metrics.k8s.io", "pods"),
            On(READ, "custom.metrics.k8s.io", "*"),
            On(READ, "external.metrics.k8s.io", "*"),
            RECORD_EVENTS,
        ],
    ),
    (
        "job-controller",
        &[
            On("get list patch update watch", "batch", "jobs"),
            On("update", "batch", "jobs/status"),
            On("update", "batch", "jobs/finalizers"),
            On("create delete list patch watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "legacy-service-account-token-cleaner",
        &[
            Named("get", "-", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            On("delete patch", "-", "secrets"),
        ],
    ),
    (
        "namespace-controller",
        &[
            On("delete get list watch", "-", "namespaces"),
            On("update", "-", "namespaces/finalize namespaces/status"),
            On("delete deletecollection get list watch", "*", "*"),
        ],
    ),
    (
        "node-controller",
        &[
            On("delete get list patch update watch", "-", "nodes"),
            On("patch update", "-", "nodes/status"),
            On("patch update", "-", "pods/status"),
            On("delete get list watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "persistent-volume-binder",
        &[
            On("create delete get list update watch", "-", "persistentvolumes"),
            On("update", "-", "persistentvolumes/status"),
            On("get list update watch", "-", "persistentvolumeclaims"),
            On("update", "-", "persistentvolumeclaims/status"),
            On("create delete get list watch", "-", "pods"),
            On(READ, "storage.k8s.io", "storageclasses"),
            On("list watch", "-", "nodes"),
            RECORD_EVENTS,
            On("watch", "-", "events"),
        ],
    ),
    (
        "pod-garbage-collector",
        &[On("delete list watch", "-", "pods"), On(READ, "-", "nodes"), On("patch", "-", "pods/status")],
    ),
    ("pv-protection-controller", &[On("get list update watch", "-", "persistentvolumes"), RECORD_EVENTS]),
    (
        "pvc-protection-controller",
        &[
            On("get list update watch", "-", "persistentvolumeclaims"),
            On("update", "-", "persistentvolumeclaims/status"),
            On(READ, "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "replicaset-controller",
        &[
            On("get list update watch", "apps extensions", "replicasets"),
            On("update", "apps extensions", "replicasets/status"),
            On("update", "apps extensions", "replicasets/finalizers"),
            On("create delete list patch watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "replication-controller",
        &[
            On("get list update watch", "-", "replicationcontrollers"),
            On("update", "-", "replicationcontrollers/status"),
            On("update", "-", "replicationcontrollers/finalizers"),
            On("create delete list patch watch", "-", "pods"),
            RECORD_EVENTS,
        ],
    ),
    (
        "resource-claim-controller",
        &[
            On(READ, "-", "pods"),
            On("update", "-", "pods/finalizers"),
            On("create delete get list watch", "resource.k8s.io", "resourceclaims"),
            On("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            On("patch update", "-", "pods/status"),
            RECORD_EVENTS,
            On("patch update", "resource.k8s.io", "resourceclaims/binding"),
        ],
    ),
    (
        "resourcequota-controller",
        &[On("list watch", "*", "*"), On("update", "-", "resourcequotas/status"), RECORD_EVENTS],
    ),
    ("root-ca-cert-publisher", &[On("create update", "-", "configmaps"), RECORD_EVENTS]),
    ("route-controller", &[On("list watch", "-", "nodes"), On("patch", "-", "nodes/status"), RECORD_EVENTS]),
    (
        "selinux-warning-controller",
        &[
            RECORD_EVENTS,
            On(READ, "-", "persistentvolumes"),
            On(READ, "-", "persistentvolumeclaims"),
            On(READ, "-", "pods"),
            On(READ, "storage.k8s.io", "csidrivers"),
        ],
    ),
    ("service-account-controller", &[On("create", "-", "serviceaccounts"), RECORD_EVENTS]),
    ("service-ca-cert-publisher", &[On("create update", "-", "configmaps"), RECORD_EVENTS]),
    (
        "service-cidrs-controller",
        &[
            On("get list patch update watch", "networking.k8s.io", "servicecidrs"),
            On("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
            On("patch update", "networking.k8s.io", "servicecidrs/status"),
            On(READ, "networking.k8s.io", "ipaddresses"),
            RECORD_EVENTS,
        ],
    ),
    (
        "service-controller",
        &[
            On(READ, "-", "services"),
            On("patch update", "-", "services/status"),
            On("list watch", "-", "nodes"),
            RECORD_EVENTS,
        ],
    ),
    (
        "statefulset-controller",
        &[
            On("list watch", "-", "pods"),
            On(READ, "apps", "statefulsets"),
            On("update", "apps", "statefulsets/status"),
            On("update", "apps", "statefulsets/finalizers"),
            On("create delete get patch update", "-", "pods"),
            On("create delete get list patch update watch", "apps", "controllerrevisions"),
            On("create get list watch", "-", "persistentvolumeclaims"),
            On("delete update", "-", "persistentvolumeclaims"),
            On("update", "-", "pods/finalizers"),
            RECORD_EVENTS,
        ],
    ),
    ("ttl-after-finished-controller", &[On("delete get list watch", "batch", "jobs"), RECORD_EVENTS]),
    ("ttl-controller", &[On("list patch update watch", "-", "nodes"), RECORD_EVENTS]),
    (
        "validatingadmissionpolicy-status-controller",
        &[
            On(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            On("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            RECORD_EVENTS,
        ],
    ),
    (
        "volumeattributesclass-protection-controller",
        &[
            On(READ, "-", "persistentvolumeclaims"),
            On(READ, "-", "persistentvolumes"),
            On("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
            RECORD_EVENTS,
        ],
    ),
];

/// The roles, then the bindings of their service accounts to them.
pub(super) fn objects() -> impl Iterator<Item = Value> {
    CONTROLLERS.iter().map(role).chain(CONTROLLERS.iter().map(|(account, _)| binding(account)))
}

/// The role of one service account and its binding.
pub(super) fn role_and_binding(controller: &(&str, &[Grant])) -> [Value; 2] {
    [role(controller), binding(controller.0)]
}

fn role((account, rules): &(&str, &[Grant])) -> Value {
    let mut role = object("ClusterRole", &name(account), &[]);
    role["rules"] = rules.iter().map(Grant::to_value).collect();
    role
}

fn binding(account: &str) -> Value {
    let mut binding = object("ClusterRoleBinding", &name(account), &[]);
    binding["roleRef"] = json!({ "apiGroup": GROUP, "kind": "ClusterRole", "name": name(account) });
    binding["subjects"] = json!([{ "kind": "ServiceAccount", "name": account, "namespace": "kube-system" }]);
    binding
}

fn name(account: &str) -> String {
    format!("system:controller:{account}")
}

#[cfg(test)]
mod tests {
    use crate::authz::bootstrap;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    /// Names and rules of the ClusterRoles with this prefix.
    fn roles(prefix: &str) -> BTreeMap<String, Value> {
        let of_prefix = |object: &Value| {
            let name = object["metadata"]["name"].as_str()?.strip_prefix(prefix)?.to_owned();
            (object["kind"] == "ClusterRole").then(|| (name, object["rules"].clone()))
        };
        bootstrap::objects().iter().filter_map(of_prefix).collect()
    }

    #[test]
    fn each_manually_approved_signer_has_an_approver_role() {
        let approvers = roles("system:certificates.k8s.io:");
        for signer in
            ["kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving", "legacy-unknown"]
        {
            let rule = json!([{ "verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
                "resourceNames": [format!("kubernetes.io/{signer}")] }]);
            assert_eq!(approvers.get(&format!("{signer}-approver")), Some(&rule), "{signer}");
        }
        for asks in ["nodeclient", "selfnodeclient"] {
            let rules = &approvers[&format!("certificatesigningrequests:{asks}")];
            assert_eq!(rules[0]["resources"], json!([format!("certificatesigningrequests/{asks}")]));
        }
        assert_eq!(approvers.len(), 6);
    }

    /// Each controller's role is bound to its own service account and to no other subject, as in Kubernetes
    /// 1.36.
    #[test]
    fn each_controller_role_is_bound_only_to_its_service_account() {
        let roles = roles("system:controller:");
        assert_eq!(roles.len(), 39);
        let objects = bootstrap::objects();
        for account in roles.keys() {
            let name = format!("system:controller:{account}");
            let binds = |object: &&Value| {
                object["kind"] == "ClusterRoleBinding" && object["roleRef"]["name"] == name.as_str()
            };
            let bindings: Vec<&Value> = objects.iter().filter(binds).collect();
            let [binding] = bindings.as_slice() else { panic!("{name}: {bindings:?}") };
            assert_eq!(binding["metadata"]["name"], name.as_str());
            let subject = json!([{ "kind": "ServiceAccount", "name": account, "namespace": "kube-system" }]);
            assert_eq!(binding["subjects"], subject);
        }
        let signs = &roles["certificate-controller"];
        assert!(signs.as_array().unwrap().iter().any(|rule| rule["verbs"] == json!(["sign"])), "{signs}");
    }
}
