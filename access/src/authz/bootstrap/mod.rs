//! The default roles and bindings as data: Kubernetes' own by name and permission, those of kstore's components, which are named
//! `system:kstore:…`, and `kstore:see` of users who read the history.

mod controllers;
mod former;
mod kstore;
mod namespaced;
mod optional;
#[cfg(test)]
mod tests;

use kstore_api::kind::OptIn;
use serde_json::{Map, Value, json};

/// A rule, with words separated by blanks. `-` is the core group.
enum Grant {
    /// Verbs, groups, resources.
    On(&'static str, &'static str, &'static str),
    /// Verbs, groups, resources, names.
    Named(&'static str, &'static str, &'static str, &'static str),
    /// Verbs, paths.
    Paths(&'static str, &'static str),
}
use Grant::{Named, On, Paths};

struct Role {
    name: &'static str,
    /// Aggregated into these roles (`admin`, `edit`, `view`).
    part_of: &'static [&'static str],
    rules: &'static [Grant],
}

struct Binding {
    name: &'static str,
    role: &'static str,
    /// Subjects by kind and name; service accounts are in `kube-system`.
    subjects: &'static [(&'static str, &'static str)],
}

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const ALL: &str = "create delete deletecollection get list patch update watch";

const RECORD_EVENTS: Grant = On("create patch update", "- events.k8s.io", "events");

const ROLES: &[Role] = &[
    Role { name: "cluster-admin", part_of: &[], rules: &[On("*", "*", "*"), Paths("*", "*")] },
    Role {
        name: "system:discovery",
        part_of: &[],
        rules: &[Paths(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        )],
    },
    Role {
        name: "system:basic-user",
        part_of: &[],
        rules: &[
            On("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            On("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    },
    Role {
        name: "system:public-info-viewer",
        part_of: &[],
        rules: &[Paths("get", "/healthz /livez /readyz /version /version/")],
    },
    Role {
        name: "system:monitoring",
        part_of: &[],
        rules: &[
            Paths(
                "get",
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz",
            ),
            On("get", "-", "nodes/metrics"),
        ],
    },
    Role {
        name: "system:aggregate-to-admin",
        part_of: &["admin"],
        rules: &[
            On("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            On(ALL, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
    },
    Role { name: "system:aggregate-to-edit", part_of: &["edit"], rules: EDIT },
    Role { name: "system:aggregate-to-view", part_of: &["view"], rules: VIEW },
    Role {
        name: "system:auth-delegator",
        part_of: &[],
        rules: &[
            On("create", "authentication.k8s.io", "tokenreviews"),
            On("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    },
    Role { name: "system:kube-scheduler", part_of: &[], rules: SCHEDULER },
    Role { name: "system:volume-scheduler", part_of: &[], rules: VOLUME_SCHEDULER },
    Role { name: "system:kube-controller-manager", part_of: &[], rules: CONTROLLER_MANAGER },
    Role { name: "system:node", part_of: &[], rules: NODE },
    Role { name: "system:kube-dns", part_of: &[], rules: &[On("list watch", "-", "endpoints services")] },
    Role {
        name: "system:node-proxier",
        part_of: &[],
        rules: &[
            On("list watch", "-", "endpoints services"),
            On(READ, "-", "nodes"),
            RECORD_EVENTS,
            On("list watch", "networking.k8s.io", "servicecidrs"),
            On("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    },
    Role {
        name: "system:persistent-volume-provisioner",
        part_of: &[],
        rules: &[
            On("create delete get list watch", "-", "persistentvolumes"),
            On("get list update watch", "-", "persistentvolumeclaims"),
            On(READ, "storage.k8s.io", "storageclasses"),
            On("watch", "-", "events"),
            On("create patch update", "- events.k8s.io", "events"),
        ],
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        part_of: &[],
        rules: &[On("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    },
    Role {
        name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        part_of: &[],
        rules: &[On("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    },
    Role {
        name: "system:certificates.k8s.io:kube-apiserver-client-approver",
        part_of: &[],
        rules: &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client")],
    },
    Role {
        name: "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        part_of: &[],
        rules: &[Named(
            "approve",
            "certificates.k8s.io",
            "signers",
            "kubernetes.io/kube-apiserver-client-kubelet",
        )],
    },
    Role {
        name: "system:certificates.k8s.io:kubelet-serving-approver",
        part_of: &[],
        rules: &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving")],
    },
    Role {
        name: "system:certificates.k8s.io:legacy-unknown-approver",
        part_of: &[],
        rules: &[Named("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown")],
    },
    Role {
        name: "system:heapster",
        part_of: &[],
        rules: &[On(READ, "-", "events namespaces nodes pods"), On(READ, "extensions", "deployments")],
    },
    Role { name: "system:kube-aggregator", part_of: &[], rules: &[On(READ, "-", "endpoints services")] },
    Role {
        name: "system:kubelet-api-admin",
        part_of: &[],
        rules: &[
            On(READ, "-", "nodes"),
            On("proxy", "-", "nodes"),
            On("*", "-", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            On("*", "-", "nodes/configz nodes/healthz nodes/pods"),
        ],
    },
    Role {
        name: "system:node-bootstrapper",
        part_of: &[],
        rules: &[On("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    },
    Role {
        name: "system:node-problem-detector",
        part_of: &[],
        rules: &[On("get", "-", "nodes"), On("patch", "-", "nodes/status"), RECORD_EVENTS],
    },
    Role {
        name: "system:service-account-issuer-discovery",
        part_of: &[],
        rules: &[Paths(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    },
];

/// The rules that `edit` adds to `view`.
const EDIT: &[Grant] = &[
    On(READ, "-", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    On("impersonate", "-", "serviceaccounts"),
    On(WRITE, "-", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    On("create", "-", "pods/eviction"),
    On(
        WRITE,
        "-",
        "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy",
    ),
    On("create", "-", "serviceaccounts/token"),
    On(WRITE, "- events.k8s.io", "events"),
    On(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale",
    ),
    On(WRITE, "autoscaling", "horizontalpodautoscalers"),
    On(WRITE, "batch", "cronjobs jobs"),
    On(
        WRITE,
        "extensions",
        "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale",
    ),
    On(WRITE, "policy", "poddisruptionbudgets"),
    On(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    On(ALL, "coordination.k8s.io", "leases"),
    On(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

const VIEW: &[Grant] = &[
    On(
        READ,
        "-",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status",
    ),
    On(
        READ,
        "-",
        "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status",
    ),
    On(READ, "-", "namespaces"),
    On(READ, "- events.k8s.io", "events"),
    On(READ, "discovery.k8s.io", "endpointslices"),
    On(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    On(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    On(
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale",
    ),
    On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    On(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    On(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

const SCHEDULER: &[Grant] = &[
    RECORD_EVENTS,
    On("create", "coordination.k8s.io", "leases"),
    Named("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
    On(ALL, "coordination.k8s.io", "leasecandidates"),
    On(READ, "-", "nodes"),
    On("delete get list watch", "-", "pods"),
    On("create", "-", "bindings pods/binding"),
    On("patch update", "-", "pods/status"),
    On(READ, "-", "replicationcontrollers services"),
    On(READ, "apps extensions", "replicasets"),
    On(READ, "apps", "statefulsets"),
    On(READ, "policy", "poddisruptionbudgets"),
    On(READ, "-", "persistentvolumeclaims persistentvolumes"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
    On(READ, "storage.k8s.io", "csinodes"),
    On(READ, "storage.k8s.io", "volumeattachments"),
    On(READ, "-", "namespaces"),
    On(READ, "storage.k8s.io", "csidrivers"),
    On(READ, "storage.k8s.io", "csistoragecapacities"),
    On(READ, "resource.k8s.io", "deviceclasses"),
    On("get list patch update watch", "resource.k8s.io", "resourceclaims"),
    On("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
    On("update", "-", "pods/finalizers"),
    On(READ, "resource.k8s.io", "resourceslices"),
    On("create delete", "resource.k8s.io", "resourceclaims"),
    On("patch update", "resource.k8s.io", "resourceclaims/binding"),
];

const VOLUME_SCHEDULER: &[Grant] = &[
    On("get list patch update watch", "-", "persistentvolumes"),
    On(READ, "storage.k8s.io", "storageclasses"),
    On("get list patch update watch", "-", "persistentvolumeclaims"),
];

const CONTROLLER_MANAGER: &[Grant] = &[
    RECORD_EVENTS,
    On("create", "coordination.k8s.io", "leases"),
    Named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    On("create", "-", "secrets serviceaccounts"),
    On("delete", "-", "secrets"),
    On("get", "-", "configmaps namespaces secrets serviceaccounts"),
    On("update", "-", "secrets serviceaccounts"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
    On("list watch", "*", "*"),
    On("create", "-", "serviceaccounts/token"),
];

/// The role `system:node`, for real kubelets that users connect; no binding refers to it.
const NODE: &[Grant] = &[
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    On(READ, "-", "services"),
    On("create get list watch", "-", "nodes"),
    On("patch update", "-", "nodes/status"),
    On("patch update", "-", "nodes"),
    RECORD_EVENTS,
    On(READ, "-", "pods"),
    On("create delete", "-", "pods"),
    On("patch update", "-", "pods/status"),
    On("create", "-", "pods/eviction"),
    On(READ, "-", "configmaps secrets"),
    On("get", "-", "persistentvolumeclaims persistentvolumes"),
    On("get", "-", "endpoints"),
    On("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    On("create delete get patch update", "coordination.k8s.io", "leases"),
    On("get", "storage.k8s.io", "volumeattachments"),
    On("create", "-", "serviceaccounts/token"),
    On("get patch update", "-", "persistentvolumeclaims/status"),
    On(READ, "storage.k8s.io", "csidrivers"),
    On("create delete get patch update", "storage.k8s.io", "csinodes"),
    On(READ, "node.k8s.io", "runtimeclasses"),
    On("get", "resource.k8s.io", "resourceclaims"),
    On("deletecollection", "resource.k8s.io", "resourceslices"),
    On("get", "-", "serviceaccounts"),
];

const BINDINGS: &[Binding] = &[
    Binding { name: "cluster-admin", role: "cluster-admin", subjects: &[("Group", "system:masters")] },
    Binding {
        name: "system:discovery",
        role: "system:discovery",
        subjects: &[("Group", "system:authenticated")],
    },
    Binding {
        name: "system:basic-user",
        role: "system:basic-user",
        subjects: &[("Group", "system:authenticated")],
    },
    Binding {
        name: "system:public-info-viewer",
        role: "system:public-info-viewer",
        subjects: &[("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    },
    Binding {
        name: "system:monitoring",
        role: "system:monitoring",
        subjects: &[("Group", "system:monitoring")],
    },
    Binding {
        name: "system:kube-scheduler",
        role: "system:kube-scheduler",
        subjects: &[("User", "system:kube-scheduler")],
    },
    Binding {
        name: "system:volume-scheduler",
        role: "system:volume-scheduler",
        subjects: &[("User", "system:kube-scheduler")],
    },
    Binding {
        name: "system:kube-controller-manager",
        role: "system:kube-controller-manager",
        subjects: &[("User", "system:kube-controller-manager")],
    },
    Binding { name: "system:kube-dns", role: "system:kube-dns", subjects: &[("ServiceAccount", "kube-dns")] },
    Binding { name: "system:node", role: "system:node", subjects: &[] },
    Binding {
        name: "system:node-proxier",
        role: "system:node-proxier",
        subjects: &[("User", "system:kube-proxy")],
    },
    Binding {
        name: "system:service-account-issuer-discovery",
        role: "system:service-account-issuer-discovery",
        subjects: &[("Group", "system:serviceaccounts")],
    },
];

/// The aggregated roles, with the roles that aggregate them in turn.
const AGGREGATED: [(&str, &[&str]); 3] = [("admin", &[]), ("edit", &["admin"]), ("view", &["edit"])];

/// All default roles and bindings but those of optional kinds, cluster-wide and namespaced, in the order of their creation.
pub fn objects() -> Vec<Value> {
    let roles = ROLES.iter().map(Role::to_value);
    let aggregated = AGGREGATED.iter().map(|(name, part_of)| aggregated_role(name, part_of));
    roles
        .chain(aggregated)
        .chain(BINDINGS.iter().map(Binding::to_value))
        .chain(controllers::objects())
        .chain(kstore::objects())
        .chain(namespaced::objects())
        .collect()
}

/// All default roles and bindings of a server of a version and with gates, with optional kinds.
pub fn objects_with(opt_in: &OptIn) -> Vec<Value> {
    let mut objects = objects();
    former::apply(&mut objects, opt_in);
    optional::add(&mut objects, opt_in);
    objects
}

impl Role {
    fn to_value(&self) -> Value {
        let mut role = object("ClusterRole", self.name, self.part_of);
        role["rules"] = self.rules.iter().map(Grant::to_value).collect();
        role
    }
}

impl Binding {
    fn to_value(&self) -> Value {
        let mut binding = object("ClusterRoleBinding", self.name, &[]);
        binding["roleRef"] = json!({ "apiGroup": GROUP, "kind": "ClusterRole", "name": self.role });
        if !self.subjects.is_empty() {
            binding["subjects"] = self.subjects.iter().map(|(kind, name)| subject(kind, name)).collect();
        }
        binding
    }
}

/// A user, a group, or a service account of `kube-system`.
fn subject(kind: &str, name: &str) -> Value {
    match kind {
        "ServiceAccount" => json!({ "kind": kind, "name": name, "namespace": "kube-system" }),
        _ => json!({ "apiGroup": GROUP, "kind": kind, "name": name }),
    }
}

impl Grant {
    fn to_value(&self) -> Value {
        match self {
            On(verbs, groups, resources) => {
                json!({ "verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources) })
            }
            Named(verbs, groups, resources, names) => json!({
                "verbs": words(verbs), "apiGroups": words(groups), "resources": words(resources), "resourceNames": words(names),
            }),
            Paths(verbs, urls) => json!({ "verbs": words(verbs), "nonResourceURLs": words(urls) }),
        }
    }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| if word == "-" { "" } else { word }).collect()
}

const GROUP: &str = "rbac.authorization.k8s.io";

/// An aggregated role. It already has the rules that its controller will write, so that it grants them before
/// the controller runs.
fn aggregated_role(name: &str, part_of: &[&str]) -> Value {
    let parts = match name {
        "admin" => &["system:aggregate-to-edit", "system:aggregate-to-view", "system:aggregate-to-admin"][..],
        "edit" => &["system:aggregate-to-edit", "system:aggregate-to-view"],
        _ => &["system:aggregate-to-view"],
    };
    let rules = parts.iter().flat_map(|part| ROLES.iter().filter(move |role| role.name == *part));
    let rules = rules.flat_map(|role| role.rules);
    let mut role = object("ClusterRole", name, part_of);
    let selector = json!({ "matchLabels": { aggregation_label(name): "true" } });
    role["aggregationRule"] = json!({ "clusterRoleSelectors": [selector] });
    role["rules"] = rules.map(Grant::to_value).collect();
    role
}

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

fn object(kind: &str, name: &str, part_of: &[&str]) -> Value {
    let mut labels = Map::from_iter([("kubernetes.io/bootstrapping".to_owned(), json!("rbac-defaults"))]);
    labels.extend(part_of.iter().map(|role| (aggregation_label(role), json!("true"))));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
    })
}
