//! The default Roles and RoleBindings of `kube-system` and `kube-public`, as data equal to Kubernetes'.
//! Cluster-wide ones are in the module above.

use super::{GROUP, Grant, Named, On, READ, RECORD_EVENTS, object};
use serde_json::{Value, json};

const SYSTEM: &str = "kube-system";
const PUBLIC: &str = "kube-public";

struct Role {
    namespace: &'static str,
    name: &'static str,
    rules: &'static [Grant],
}

struct Binding {
    namespace: &'static str,
    name: &'static str,
    role: &'static str,
    subjects: &'static [Subject],
}

enum Subject {
    User(&'static str),
    /// A service account of `kube-system`.
    Account(&'static str),
}
use Subject::{Account, User};

/// Rules for leader election by Lease, coordinated or not.
const LEADER_LOCKING: &[Grant] = &[
    On("create get list update watch", "coordination.k8s.io", "leases"),
    On("create get list update watch", "coordination.k8s.io", "leasecandidates"),
];

const ROLES: &[Role] = &[
    Role {
        namespace: SYSTEM,
        name: "extension-apiserver-authentication-reader",
        rules: &[Named(READ, "-", "configmaps", "extension-apiserver-authentication")],
    },
    Role { namespace: SYSTEM, name: "system::leader-locking-kube-controller-manager", rules: LEADER_LOCKING },
    Role { namespace: SYSTEM, name: "system::leader-locking-kube-scheduler", rules: LEADER_LOCKING },
    Role {
        namespace: PUBLIC,
        name: "system:controller:bootstrap-signer",
        rules: &[
            On(READ, "-", "configmaps"),
            Named("update", "-", "configmaps", "cluster-info"),
            RECORD_EVENTS,
        ],
    },
    Role {
        namespace: SYSTEM,
        name: "system:controller:bootstrap-signer",
        rules: &[On(READ, "-", "secrets")],
    },
    Role {
        namespace: SYSTEM,
        name: "system:controller:cloud-provider",
        rules: &[On("create get list watch", "-", "configmaps")],
    },
    Role {
        namespace: SYSTEM,
        name: "system:controller:token-cleaner",
        rules: &[On("delete get list watch", "-", "secrets"), RECORD_EVENTS],
    },
];

const BINDINGS: &[Binding] = &[
    Binding {
        namespace: SYSTEM,
        name: "system::extension-apiserver-authentication-reader",
        role: "extension-apiserver-authentication-reader",
        subjects: &[User("system:kube-controller-manager"), User("system:kube-scheduler")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-controller-manager",
        role: "system::leader-locking-kube-controller-manager",
        subjects: &[
            User("system:kube-controller-manager"),
            Account("kube-controller-manager"),
            Account("leader-election-controller"),
        ],
    },
    Binding {
        namespace: SYSTEM,
        name: "system::leader-locking-kube-scheduler",
        role: "system::leader-locking-kube-scheduler",
        subjects: &[User("system:kube-scheduler"), Account("kube-scheduler")],
    },
    Binding {
        namespace: PUBLIC,
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        subjects: &[Account("bootstrap-signer")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system:controller:bootstrap-signer",
        role: "system:controller:bootstrap-signer",
        subjects: &[Account("bootstrap-signer")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system:controller:cloud-provider",
        role: "system:controller:cloud-provider",
        subjects: &[Account("cloud-provider")],
    },
    Binding {
        namespace: SYSTEM,
        name: "system:controller:token-cleaner",
        role: "system:controller:token-cleaner",
        subjects: &[Account("token-cleaner")],
    },
];

/// All roles, then all bindings.
pub(super) fn objects() -> impl Iterator<Item = Value> {
    ROLES.iter().map(Role::to_value).chain(BINDINGS.iter().map(Binding::to_value))
}

impl Role {
    fn to_value(&self) -> Value {
        let mut role = object("Role", self.name, &[]);
        role["metadata"]["namespace"] = json!(self.namespace);
        role["rules"] = self.rules.iter().map(Grant::to_value).collect();
        role
    }
}

impl Binding {
    fn to_value(&self) -> Value {
        let mut binding = object("RoleBinding", self.name, &[]);
        binding["metadata"]["namespace"] = json!(self.namespace);
        binding["roleRef"] = json!({ "apiGroup": GROUP, "kind": "Role", "name": self.role });
        binding["subjects"] = self.subjects.iter().map(Subject::to_value).collect();
        binding
    }
}

impl Subject {
    fn to_value(&self) -> Value {
        match self {
            User(name) => json!({ "apiGroup": GROUP, "kind": "User", "name": name }),
            Account(name) => json!({ "kind": "ServiceAccount", "name": name, "namespace": SYSTEM }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and namespaces as a kube-apiserver 1.36 lists them.
    #[test]
    fn the_namespaced_roles_and_bindings_are_those_of_kubernetes() {
        let listed = |kind: &str| -> Vec<String> {
            let text = |object: &Value, member: &str| object["metadata"][member].as_str().unwrap().to_owned();
            objects()
                .filter(|object| object["kind"] == kind)
                .map(|object| format!("{}/{}", text(&object, "namespace"), text(&object, "name")))
                .collect()
        };
        let controllers = [
            "kube-public/system:controller:bootstrap-signer",
            "kube-system/system:controller:bootstrap-signer",
            "kube-system/system:controller:cloud-provider",
            "kube-system/system:controller:token-cleaner",
        ];
        let leaders = [
            "kube-system/system::leader-locking-kube-controller-manager",
            "kube-system/system::leader-locking-kube-scheduler",
        ];
        let expected = |reader: &'static str| [&[reader][..], &leaders, &controllers].concat();
        assert_eq!(listed("Role"), expected("kube-system/extension-apiserver-authentication-reader"));
        assert_eq!(
            listed("RoleBinding"),
            expected("kube-system/system::extension-apiserver-authentication-reader")
        );
        let names: Vec<&str> = ROLES.iter().map(|role| role.name).collect();
        assert!(BINDINGS.iter().all(|binding| names.contains(&binding.role)));
    }
}
