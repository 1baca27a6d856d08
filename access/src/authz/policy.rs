//! All roles and bindings of a cluster, indexed so that a decision costs a few lookups. A persistent value: a
//! changed role or binding makes a new policy that shares everything else with the old one, in time that does
//! not depend on the number of roles and bindings. Pure, except for reading the four kinds from a [`Lookup`].

use super::rule::Rule;
use super::{Attributes, Decision, Target};
use crate::persistent_index::{PersistentIndex, delimited};
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use kstore_registry::cache::Change;
use kstore_registry::derived::Derive;
use kstore_registry::lookup::Lookup;
use kstore_registry::persistent_map::{Keyed, PersistentMap};
use kstore_registry::user::UserInfo;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// The four RBAC kinds.
fn kinds() -> &'static [&'static Resource; 4] {
    static KINDS: OnceLock<[&'static Resource; 4]> = OnceLock::new();
    KINDS.get_or_init(|| {
        ["clusterroles", "clusterrolebindings", "roles", "rolebindings"].map(|plural| {
            let row = kind::lookup("rbac.authorization.k8s.io", "v1", plural);
            row.expect("the RBAC kinds are rows of the table")
        })
    })
}

/// The rules of a Role or ClusterRole.
#[derive(Debug)]
struct Role {
    /// Storage key.
    key: Box<str>,
    rules: Arc<[Rule]>,
}

impl Keyed for Role {
    fn key(&self) -> &str {
        &self.key
    }
}

/// The grant of a binding: its role, and the namespace in which it applies.
#[derive(Debug)]
struct Grant {
    /// Name of the binding.
    binding: String,
    /// Namespace of the binding; empty for cluster-wide bindings.
    namespace: String,
    /// `ClusterRole` or `Role`.
    role_kind: String,
    role: String,
    /// Storage key of the role, which need not exist.
    role_key: String,
}

/// The roles and bindings of a cluster. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Roles and ClusterRoles.
    roles: PersistentMap<Role>,
    /// The grants of all bindings, each with one term for each subject: subject, then namespace, then name of
    /// the binding; see [`Subject::prefix`].
    grants: PersistentIndex<Grant>,
}

impl Policy {
    /// Reads and indexes the current roles and bindings.
    pub fn compile(lookup: &(impl Lookup + ?Sized)) -> Self {
        Self::compile_after(lookup, None)
    }

    /// Compiles like [`Policy::compile`], and shares the rules of unchanged roles with `previous`. Rules are
    /// compared by value, so `previous` may be the policy of another cluster.
    pub fn compile_after(lookup: &(impl Lookup + ?Sized), previous: Option<&Self>) -> Self {
        let mut policy = Self::default();
        for kind in kinds() {
            for object in lookup.list(kind, "") {
                let key = kind.storage_key(meta::namespace(&object), meta::name(&object));
                policy.put(kind, &key, Some(&object), previous);
            }
        }
        policy
    }

    /// Applies a state, and shares the rules of an equal role in `previous`.
    fn put(&mut self, kind: &'static Resource, key: &str, object: Option<&Value>, previous: Option<&Self>) {
        match (kind.plural, object) {
            // The controller writes the rules of an aggregating ClusterRole into it, so that they need no
            // special treatment.
            ("clusterroles" | "roles", Some(role)) => {
                let rules = rules_in(role);
                let known = previous.and_then(|previous| previous.roles.get(key));
                let known = known.filter(|known| known.rules == rules);
                let changed = || Arc::new(Role { key: key.into(), rules });
                self.roles.insert(known.cloned().unwrap_or_else(changed));
            }
            ("clusterroles" | "roles", None) => drop(self.roles.remove(key)),
            (_, binding) => self.grants.set(key, binding.map(Grant::of)),
        }
    }

    /// Decides a request. The reason names the binding, the role and the subject.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        match self.grant_for(attributes) {
            Some((grant, subject)) => Decision::Allow(grant.reason(&subject)),
            None => Decision::NoOpinion(String::new()),
        }
    }

    /// Whether the request is allowed: [`Policy::decide`] without the reason, which most requests do not
    /// show.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        self.grant_for(attributes).is_some()
    }

    /// The first grant that allows the request, with the subject through which the caller has it.
    fn grant_for<'p>(&'p self, attributes: &Attributes<'p>) -> Option<(&'p Grant, Subject<'p>)> {
        let namespace = match attributes.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        self.grants_of(attributes.user, namespace)
            .find(|(grant, _)| self.rules(grant).iter().any(|rule| rule.allows(attributes)))
    }

    /// All rules that apply to a user in a namespace, including cluster-wide ones.
    pub fn rules_of<'p>(&'p self, user: &'p UserInfo, namespace: &'p str) -> impl Iterator<Item = &'p Rule> {
        self.grants_of(user, namespace).flat_map(|(grant, _)| self.rules(grant))
    }

    /// The rules of a role; of a ClusterRole if `namespace` is empty.
    pub fn role(&self, namespace: &str, name: &str) -> Option<&[Rule]> {
        self.roles.get(&role_key(namespace, name)).map(|role| &*role.rules)
    }

    /// The rules of a grant's role; empty while the role does not exist.
    fn rules(&self, grant: &Grant) -> &[Rule] {
        self.roles.get(&grant.role_key).map(|role| &*role.rules).unwrap_or_default()
    }

    /// The grants of a user in a namespace, each with the subject through which the user has it. Those of the
    /// user's name come first, then those of each group; of each subject first the cluster-wide ones; each in
    /// name order.
    fn grants_of<'p>(
        &'p self,
        user: &'p UserInfo,
        namespace: &'p str,
    ) -> impl Iterator<Item = (&'p Grant, Subject<'p>)> {
        let groups = user.groups.iter().map(|group| Subject::Group(group));
        let subjects = std::iter::once(Subject::User(&user.username)).chain(groups);
        let namespaces = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        subjects.flat_map(move |subject| {
            namespaces.into_iter().flatten().flat_map(move |namespace| {
                self.grants.at(subject.prefix(namespace)).map(move |grant| (grant, subject))
            })
        })
    }
}

impl Derive for Policy {
    fn kinds() -> &'static [&'static Resource] {
        kinds()
    }

    fn read(lookup: &dyn Lookup, outdated: Option<&Self>) -> Self {
        Self::compile_after(lookup, outdated)
    }

    fn after(&self, changes: &[Arc<Change>]) -> Self {
        let mut policy = self.clone();
        for change in changes {
            let (of, object) =
                (change.any(), change.new.as_ref().map(|new| new.parse_without_managed_fields()));
            policy.put(of.resource, of.key(), object.as_ref(), None);
        }
        policy
    }
}

/// The subject through which a user has a grant.
#[derive(Clone, Copy)]
enum Subject<'a> {
    User(&'a str),
    Group(&'a str),
}

impl Subject<'_> {
    /// The beginning of the keys of a subject's grants in a namespace ("" for cluster-wide ones). The name of
    /// the binding follows. Lengths precede the texts, so that no choice of names makes two subjects or
    /// namespaces equal.
    fn prefix(&self, namespace: &str) -> String {
        let subject = match self {
            Self::User(name) => format!("u{}", delimited(name)),
            Self::Group(name) => format!("g{}", delimited(name)),
        };
        subject + &delimited(namespace)
    }
}

impl Grant {
    /// The grant of a binding, and its terms.
    fn of(binding: &Value) -> (Self, BTreeSet<Arc<str>>) {
        let (name, namespace) = (meta::name(binding), meta::namespace(binding));
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default().to_owned();
        let (role_kind, role) = (text("kind"), text("name"));
        let role_key = role_key(if role_kind == "Role" { namespace } else { "" }, &role);
        let term_of = |subject: &Value| {
            let subject_name = subject["name"].as_str().unwrap_or_default();
            let prefix = match subject["kind"].as_str().unwrap_or_default() {
                "User" => Subject::User(subject_name).prefix(namespace),
                "Group" => Subject::Group(subject_name).prefix(namespace),
                "ServiceAccount" => {
                    let home = subject["namespace"].as_str().unwrap_or(namespace);
                    Subject::User(&format!("system:serviceaccount:{home}:{subject_name}")).prefix(namespace)
                }
                _ => return None,
            };
            Some(Arc::from(prefix + name))
        };
        let subjects = binding["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        let terms = subjects.iter().filter_map(term_of).collect();
        let (binding, namespace) = (name.to_owned(), namespace.to_owned());
        (Self { binding, namespace, role_kind, role, role_key }, terms)
    }

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

/// The storage key of a role; of a ClusterRole if `namespace` is empty.
fn role_key(namespace: &str, name: &str) -> String {
    let [cluster_roles, _, roles, _] = kinds();
    match namespace {
        "" => cluster_roles.storage_key("", name),
        _ => roles.storage_key(namespace, name),
    }
}

fn rules_in(role: &Value) -> Arc<[Rule]> {
    role["rules"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Rule::from_value).collect()
}
