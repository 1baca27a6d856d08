//! All roles and bindings of a cluster, compiled so that a decision costs a few lookups. An immutable value
//! that is replaced when they change. Pure, except for reading the four kinds from a [`Lookup`] once.

use super::rule::Rule;
use super::{Attributes, Decision, Target};
use crate::authn::UserInfo;
use crate::lookup::Lookup;
use kstore_api::kind::{self, Resource};
use kstore_api::meta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The four RBAC kinds, in the order of [`Versions`].
pub(super) fn kinds() -> [&'static Resource; 4] {
    static KINDS: OnceLock<[&'static Resource; 4]> = OnceLock::new();
    *KINDS.get_or_init(|| {
        ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map(|plural| {
            let row = kind::lookup("rbac.authorization.k8s.io", "v1", plural);
            row.expect("the RBAC kinds are rows of the table")
        })
    })
}

/// The versions of the four kinds from which a policy was compiled.
pub(super) type Versions = [i64; 4];

/// The grant of a binding: its role's rules, and the namespace in which they apply.
#[derive(Debug)]
struct Grant {
    /// Name of the binding.
    binding: String,
    /// Namespace of the binding; empty for cluster-wide bindings.
    namespace: String,
    /// `ClusterRole` or `Role`.
    role_kind: String,
    role: String,
    /// The rules of the role; empty while the role does not exist.
    rules: Arc<[Rule]>,
}

/// The compiled roles and bindings.
#[derive(Debug, Default)]
pub struct Policy {
    /// Cluster-wide grants first, then by namespace; each in name order.
    grants: Vec<Grant>,
    /// Indices into `grants`, by user name.
    users: BTreeMap<String, Vec<usize>>,
    /// Indices into `grants`, by group.
    groups: BTreeMap<String, Vec<usize>>,
    /// Rules of roles by (namespace or "", name), for escalation checks.
    roles: BTreeMap<(String, String), Arc<[Rule]>>,
}

impl Policy {
    /// Reads and compiles the current roles and bindings.
    pub fn compile(lookup: &dyn Lookup) -> Self {
        Self::compile_after(lookup, None)
    }

    /// Compiles like [`Policy::compile`], and shares the rules of unchanged roles with `previous`. Rules are
    /// compared by value, so `previous` may be the policy of another cluster.
    pub fn compile_after(lookup: &dyn Lookup, previous: Option<&Self>) -> Self {
        let [cluster_roles, cluster_bindings, roles, bindings] = kinds().map(|kind| lookup.list(kind, ""));
        let mut policy = Self::default();
        // The controller writes the rules of an aggregating ClusterRole into it, so that they need no special
        // treatment.
        for role in cluster_roles.iter().chain(&roles) {
            let key = (meta::namespace(role).into(), meta::name(role).into());
            let rules = rules_in(role);
            let known =
                previous.and_then(|previous| previous.roles.get(&key)).filter(|known| **known == rules);
            let rules = known.cloned().unwrap_or(rules);
            policy.roles.insert(key, rules);
        }
        for binding in cluster_bindings.iter().chain(&bindings) {
            policy.add(binding);
        }
        policy
    }

    fn add(&mut self, binding: &Value) {
        let namespace = meta::namespace(binding);
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default().to_owned();
        let (role_kind, role) = (text("kind"), text("name"));
        let home = if role_kind == "Role" { namespace } else { "" };
        let rules = self.roles.get(&(home.to_owned(), role.clone())).cloned().unwrap_or_default();
        let index = self.grants.len();
        for subject in binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let name = subject["name"].as_str().unwrap_or_default();
            let (map, key) = match subject["kind"].as_str().unwrap_or_default() {
                "User" => (&mut self.users, name.to_owned()),
                "Group" => (&mut self.groups, name.to_owned()),
                "ServiceAccount" => {
                    let home = subject["namespace"].as_str().unwrap_or(namespace);
                    (&mut self.users, format!("system:serviceaccount:{home}:{name}"))
                }
                _ => continue,
            };
            map.entry(key).or_default().push(index);
        }
        let (binding, namespace) = (meta::name(binding).to_owned(), namespace.to_owned());
        self.grants.push(Grant { binding, namespace, role_kind, role, rules });
    }

    /// Decides a request. The reason names the binding, the role and the subject.
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        match self.grant_for(asked) {
            Some((grant, subject)) => Decision::Allow(grant.reason(&subject)),
            None => Decision::NoOpinion(String::new()),
        }
    }

    /// Whether the request is allowed: [`Policy::decide`] without the reason, which most requests do not
    /// show.
    pub fn allows(&self, asked: &Attributes<'_>) -> bool {
        self.grant_for(asked).is_some()
    }

    /// The first grant that allows the request, with the subject through which the caller has it.
    fn grant_for<'p>(&'p self, asked: &Attributes<'p>) -> Option<(&'p Grant, Subject<'p>)> {
        let namespace = match asked.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        self.grants_of(asked.user, namespace)
            .find(|(grant, _)| grant.rules.iter().any(|rule| rule.allows(asked)))
    }

    /// All rules that apply to a user in a namespace, including cluster-wide ones.
    pub fn rules_of<'p>(&'p self, user: &'p UserInfo, namespace: &'p str) -> impl Iterator<Item = &'p Rule> {
        self.grants_of(user, namespace).flat_map(|(grant, _)| grant.rules.iter())
    }

    /// The rules of a role; of a ClusterRole if `namespace` is empty.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&[Rule]> {
        self.roles.get(&(namespace.to_owned(), name.to_owned())).map(AsRef::as_ref)
    }

    /// The grants of a user in a namespace, each with the subject through which the user has it.
    fn grants_of<'p>(
        &'p self,
        user: &'p UserInfo,
        namespace: &'p str,
    ) -> impl Iterator<Item = (&'p Grant, Subject<'p>)> {
        let by_user = self.users.get(&user.username).into_iter().flatten();
        let by_user = by_user.map(|index| (*index, Subject::User(&user.username)));
        let by_group = user.groups.iter().flat_map(|group| {
            self.groups.get(group).into_iter().flatten().map(move |index| (*index, Subject::Group(group)))
        });
        by_user
            .chain(by_group)
            .map(|(index, subject)| (&self.grants[index], subject))
            .filter(move |(grant, _)| grant.namespace.is_empty() || grant.namespace == namespace)
    }
}

/// The subject through which a user has a grant.
enum Subject<'a> {
    User(&'a str),
    Group(&'a str),
}

impl Grant {
    fn reason(&self, subject: &Subject<'_>) -> String {
        let subject = match subject {
            Subject::Group(group) => format!("Group \"{group}\""),
            Subject::User(user) => {
                match user.strip_prefix("system:serviceaccount:").and_then(|r| r.split_once(':')) {
                    Some((namespace, name)) => format!("ServiceAccount \"{name}/{namespace}\""),
                    None => format!("User \"{user}\""),
                }
            }
        };
        let binding = if self.namespace.is_empty() {
            format!("ClusterRoleBinding \"{}\"", self.binding)
        } else {
            format!("RoleBinding \"{}/{}\"", self.binding, self.namespace)
        };
        format!("RBAC: allowed by {binding} of {} \"{}\" to {subject}", self.role_kind, self.role)
    }
}

fn rules_in(role: &Value) -> Arc<[Rule]> {
    role["rules"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Rule::from_value).collect()
}
