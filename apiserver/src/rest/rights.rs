//! [`Rights`]: which objects one caller may see in an answer about many kinds and namespaces. The permissions of today decide, also about
//! past states.

use kstore_access::authz::{Attributes, Authorizer, More, Target};
use kstore_api::resource::Resource;
use kstore_registry::cache::{Cache, Filter};
use kstore_registry::user::UserInfo;
use std::collections::BTreeMap;

/// Verdicts for one caller. Each pair of resource and namespace is judged once.
pub(super) struct Rights {
    user: UserInfo,
    /// By resource and namespace; the empty namespace stands for all.
    verdicts: BTreeMap<(String, String), bool>,
}

/// What of a kind a caller may list.
pub(super) enum Visible {
    /// All objects.
    Everything,
    /// The objects in these namespaces, sorted.
    Namespaces(Vec<String>),
}

impl Rights {
    /// The rights of a user, without any verdict yet.
    pub(super) fn of(user: &UserInfo) -> Self {
        Self { user: user.clone(), verdicts: BTreeMap::new() }
    }

    /// What of a kind the caller may list, among the namespaces that exist now.
    pub(super) async fn visible(
        &mut self,
        authorizer: &Authorizer,
        cache: &Cache,
        resource: &Resource,
    ) -> Visible {
        if self.may_list(authorizer, resource, "").await {
            return Visible::Everything;
        }
        let mut found = Vec::new();
        if resource.namespaced {
            for namespace in namespaces(cache) {
                if self.may_list(authorizer, resource, &namespace).await {
                    found.push(namespace);
                }
            }
        }
        Visible::Namespaces(found)
    }

    /// Whether the caller may see an object in its state of a revision. A permission in one namespace holds for the namespace that exists
    /// now: objects of a deleted one of the same name were another owner's.
    pub(super) async fn may_see(
        &mut self,
        authorizer: &Authorizer,
        cache: &Cache,
        resource: &Resource,
        (namespace, revision): (&str, i64),
    ) -> bool {
        if self.may_list(authorizer, resource, "").await {
            return true;
        }
        !namespace.is_empty()
            && exists_since(cache, namespace).is_some_and(|created| created <= revision)
            && self.may_list(authorizer, resource, namespace).await
    }

    async fn may_list(&mut self, authorizer: &Authorizer, resource: &Resource, namespace: &str) -> bool {
        let key = (resource.qualified(), namespace.to_owned());
        if let Some(verdict) = self.verdicts.get(&key) {
            return *verdict;
        }
        let target = Target::Resource {
            group: resource.group,
            resource: resource.plural,
            subresource: "",
            namespace,
            name: "",
        };
        let more = More { version: resource.version, ..More::default() };
        let attributes = Attributes { user: &self.user, verb: "list", target, more };
        let verdict = authorizer.check(&attributes).await.is_ok();
        self.verdicts.insert(key, verdict);
        verdict
    }
}

/// The row of Namespaces.
fn namespace_row(cache: &Cache) -> Option<&'static Resource> {
    cache.kinds().rows().lookup("", "v1", "namespaces")
}

fn namespaces(cache: &Cache) -> Vec<String> {
    let Some(row) = namespace_row(cache) else { return Vec::new() };
    cache.scan(&Filter::all(row)).0.iter().map(|entry| entry.name().to_owned()).collect()
}

/// The revision at which the present namespace of this name was created; `None`: there is none.
pub(super) fn exists_since(cache: &Cache, namespace: &str) -> Option<i64> {
    let row = namespace_row(cache)?;
    Some(cache.get(row, &row.storage_key("", namespace))?.created)
}
