//! The roles and bindings that every cluster starts with, as data. Names and permissions are Kubernetes'; the roles of kstore's
//! own components are named `system:kstore:…`. No logic but turning the data into objects.

mod controllers;
mod namespaced;

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
    /// Kind and name.
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
        rules: &[Paths(
            "get",
            "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
        )],
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
    Role { name: "system:kstore:controllers", part_of: &[], rules: CONTROLLERS },
    Role { name: "system:node", part_of: &[], rules: NODE },
    Role { name: "system:kstore:kubelet-sim", part_of: &[], rules: KUBELET_SIM },
    Role {
        name: "system:kube-dns",
        part_of: &[],
        rules: &[
            On("list watch", "-", "endpoints services"),
            On("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    },
    Role {
        name: "system:node-proxier",
        part_of: &[],
        rules: &[
            On("list watch", "-", "endpoints services"),
            On(READ, "-", "nodes"),
            On("create patch update", "- events.k8s.io", "events"),
            On("list watch", "discovery.k8s.io", "endpointslices"),
            On("list watch", "networking.k8s.io", "servicecidrs"),
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

/// What `edit` adds to `view`.
const EDIT: &[Grant] = &[
    On(READ, "-", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    On("impersonate", "-", "serviceaccounts"),
    On(WRITE, "-", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    On("create", "-", "pods/eviction"),
    On(
        WRITE,
        "-",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    On("create", "-", "serviceaccounts/token"),
    On(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
    ),
    On(WRITE, "autoscaling", "horizontalpodautoscalers"),
    On(WRITE, "batch", "cronjobs jobs"),
    On(WRITE, "policy", "poddisruptionbudgets"),
    On(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    On(ALL, "coordination.k8s.io", "leases"),
    On(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

const VIEW: &[Grant] = &[
    On(
        READ,
        "-",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
    ),
    On(
        READ,
        "-",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
         resourcequotas resourcequotas/status",
    ),
    On(READ, "-", "namespaces"),
    On(READ, "discovery.k8s.io", "endpointslices"),
    On(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets \
         replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    On(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    On(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    On(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    On(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    On(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

const SCHEDULER: &[Grant] = &[
    On("create patch update", "- events.k8s.io", "events"),
    On("create list watch", "coordination.k8s.io", "leases"),
    Named("get update", "coordination.k8s.io", "leases", "kube-scheduler"),
    On(READ, "-", "nodes"),
    On("delete get list watch", "-", "pods"),
    On("create", "-", "bindings pods/binding"),
    On("patch update", "-", "pods/status"),
    On(READ, "-", "namespaces persistentvolumeclaims persistentvolumes replicationcontrollers services"),
    On(READ, "apps", "replicasets statefulsets"),
    On(READ, "policy", "poddisruptionbudgets"),
    On(READ, "scheduling.k8s.io", "priorityclasses"),
    On(READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses volumeattachments"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
];

const VOLUME_SCHEDULER: &[Grant] = &[
    On("get list patch update watch", "-", "persistentvolumeclaims persistentvolumes"),
    On(READ, "storage.k8s.io", "storageclasses"),
];

const CONTROLLER_MANAGER: &[Grant] = &[
    On("create patch update", "- events.k8s.io", "events"),
    On("create list watch", "coordination.k8s.io", "leases"),
    Named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    On("create", "-", "secrets serviceaccounts serviceaccounts/token"),
    On("delete", "-", "secrets"),
    On("get", "-", "configmaps namespaces secrets serviceaccounts"),
    On("update", "-", "secrets serviceaccounts"),
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "subjectaccessreviews"),
    On("list watch", "*", "*"),
];

/// The controllers run as one user here, and not as one service account each: this is the sum of what they do. Garbage collection
/// and namespace deletion touch every kind.
const CONTROLLERS: &[Grant] = &[
    On("delete deletecollection get list patch update watch", "*", "*"),
    On(
        "create",
        "-",
        "configmaps endpoints events persistentvolumeclaims pods pods/eviction secrets serviceaccounts",
    ),
    On("create", "apps", "controllerrevisions replicasets"),
    On("create", "batch", "jobs"),
    On("create", "discovery.k8s.io", "endpointslices"),
    On("create", "coordination.k8s.io", "leases"),
    On("create", "events.k8s.io", "events"),
    On("create", "networking.k8s.io", "ipaddresses"),
    On("patch update", "*", "*/finalizers */scale */status"),
    On("update", "-", "namespaces/finalize"),
];

/// For a real kubelet that somebody connects; bound to nobody.
const NODE: &[Grant] = &[
    On("create", "authentication.k8s.io", "tokenreviews"),
    On("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    On(READ, "-", "services"),
    On("create get list watch", "-", "nodes"),
    On("patch update", "-", "nodes nodes/status"),
    On("create patch update", "-", "events"),
    On(READ, "-", "pods"),
    On("create delete", "-", "pods"),
    On("patch update", "-", "pods/status"),
    On("create", "-", "pods/eviction"),
    On(READ, "-", "configmaps secrets"),
    On("get", "-", "endpoints persistentvolumeclaims persistentvolumes"),
    On("create", "-", "serviceaccounts/token"),
    On("create delete get patch update", "coordination.k8s.io", "leases"),
    On("create delete get patch update", "storage.k8s.io", "csinodes"),
    On(READ, "storage.k8s.io", "csidrivers volumeattachments"),
    On(READ, "node.k8s.io", "runtimeclasses"),
];

/// What a kubelet does, for all simulated nodes at once: they are one user, whose Secrets are those that pods on any simulated node
/// refer to. It reads them by name, and can neither list nor watch them. That it reads no other one whose name it knows takes an
/// authorizer that looks at pods (upstream's Node authorizer) and a user for each node; there is none.
const KUBELET_SIM: &[Grant] = &[
    On("create delete get list patch update watch", "-", "nodes"),
    On("get patch update", "-", "nodes/status pods/status"),
    On("create", "-", "nodes/tunnel"),
    On("delete get list watch", "-", "pods"),
    On("create patch update", "- events.k8s.io", "events"),
    On(READ, "-", "configmaps persistentvolumeclaims persistentvolumes serviceaccounts services"),
    On("get", "-", "secrets"),
    On("create delete get list patch update watch", "coordination.k8s.io", "leases"),
    On("create delete get patch update", "storage.k8s.io", "csinodes"),
    On(READ, "node.k8s.io", "runtimeclasses"),
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
    Binding {
        name: "system:kstore:controllers",
        role: "system:kstore:controllers",
        subjects: &[("User", "system:kube-controller-manager")],
    },
    Binding { name: "system:node", role: "system:node", subjects: &[] },
    Binding {
        name: "system:node-proxier",
        role: "system:node-proxier",
        subjects: &[("User", "system:kube-proxy")],
    },
    Binding {
        name: "system:kstore:kubelet-sim",
        role: "system:kstore:kubelet-sim",
        subjects: &[("User", "system:kstore:kubelet-sim")],
    },
    Binding {
        name: "system:service-account-issuer-discovery",
        role: "system:service-account-issuer-discovery",
        subjects: &[("Group", "system:serviceaccounts")],
    },
];

/// The aggregated roles: name, and what they are part of in turn.
const AGGREGATED: [(&str, &[&str]); 3] = [("admin", &[]), ("edit", &["admin"]), ("view", &["edit"])];

/// All roles and bindings, cluster-wide and namespaced, in the order in which they should be made.
pub fn objects() -> Vec<Value> {
    let roles = ROLES.iter().map(Role::to_value);
    let aggregated = AGGREGATED.iter().map(|(name, part_of)| aggregated_role(name, part_of));
    roles
        .chain(aggregated)
        .chain(BINDINGS.iter().map(Binding::to_value))
        .chain(controllers::objects())
        .chain(namespaced::objects())
        .collect()
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
            let subject =
                |(kind, name): &(&str, &str)| json!({ "apiGroup": GROUP, "kind": kind, "name": name });
            binding["subjects"] = self.subjects.iter().map(subject).collect();
        }
        binding
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

/// The rules are those of the parts, so that the object shows them before anything aggregates.
fn aggregated_role(name: &str, part_of: &[&str]) -> Value {
    let parts = match name {
        "admin" => &["system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view"][..],
        "edit" => &["system:aggregate-to-edit", "system:aggregate-to-view"],
        _ => &["system:aggregate-to-view"],
    };
    let rules = ROLES.iter().filter(|role| parts.contains(&role.name)).flat_map(|role| role.rules);
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
