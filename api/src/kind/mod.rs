//! The one table of resources: what the API serves and by which rules, as data. Routing, discovery, OpenAPI, RBAC verbs, short
//! names, storage keys, generation and deletion behaviour are read from it. What a kind's *fields* are is the schema's business
//! (`schema`), what they must hold is `validate`'s. The main type is [`Resource`].

mod custom;
mod kinds;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::OnceLock;

pub use custom::{CustomRow, MAX_CUSTOM_ROWS, TooManyKinds};
pub use kinds::Kinds;
pub use table::RESOURCES;

use crate::selector::field::FieldRead;

/// The verbs of an ordinary resource, sorted as discovery lists them.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// All verbs but `deletecollection`.
pub const NO_COLLECTION_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// The verbs of a `/status`-like subresource.
pub const GET_PATCH_UPDATE: &[&str] = &["get", "patch", "update"];
/// The one verb of reviews and bindings.
pub const CREATE_ONLY: &[&str] = &["create"];

/// Group, version and plural: the identity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version inside the group.
    pub version: &'static str,
    /// Lower-case plural, the URL segment.
    pub plural: &'static str,
}

/// When `metadata.generation` moves. Comparison is semantic: absent, null, `{}` and `[]` are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// Never set.
    None,
    /// 1 at create, +1 when `spec` changes.
    Spec,
    /// 1 at create, +1 when `spec` or the annotations change (Deployment).
    SpecOrAnnotations,
    /// 1 at create, +1 when `webhooks` changes.
    Webhooks,
    /// 1 at create, +1 when anything outside metadata, or the labels, change (EndpointSlice).
    ContentOrLabels,
    /// 1 at create, +1 when `template` changes (PodTemplate).
    Template,
    /// Absent at create, +1 when `spec` changes (CSIDriver).
    SpecFromZero,
    /// 1 at create and never moves (PriorityClass).
    Fixed,
    /// 1 at create, +1 when anything outside metadata changes (custom resources without a status subresource).
    Content,
    /// 1 at create, +1 when anything outside metadata and `status` changes (custom resources with a status subresource).
    ContentButStatus,
}

/// What DELETE does with dependents when neither options nor finalizers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// The garbage collector deletes dependents afterwards.
    Background,
    /// Dependents lose their owner reference and stay.
    Orphan,
    /// The kind takes no garbage collection finalizers at all (events).
    Unsupported,
}

/// Which grammar `metadata.name` follows; the grammars are in [`crate::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain.
    Subdomain,
    /// DNS-1123 label.
    Label,
    /// Anything that is one path segment.
    PathSegment,
    /// An IP address in canonical form.
    IpAddress,
}

/// A path below one object, such as `status` or `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The URL segment.
    pub name: &'static str,
    /// API group of the body; equal to the parent's unless the body is a kind of another group.
    pub group: &'static str,
    /// API version of the body.
    pub version: &'static str,
    /// Kind of the body.
    pub kind: &'static str,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
}

/// One row: a resource in one version, and the rules its objects live by.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version inside the group.
    pub version: &'static str,
    /// Lower-case plural, the URL segment.
    pub plural: &'static str,
    /// Lower-case singular.
    pub singular: &'static str,
    /// Kind of the objects.
    pub kind: &'static str,
    /// Kind of their lists; empty for `<kind>List`.
    pub list_kind: &'static str,
    /// Short names kubectl accepts.
    pub short_names: &'static [&'static str],
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs of the resource itself, sorted.
    pub verbs: &'static [&'static str],
    /// Paths below an object.
    pub subresources: &'static [Subresource],
    /// OpenAPI name of the type.
    pub schema: &'static str,
    /// Key prefix without a trailing slash; `None` for reviews and bindings, which are answered and not stored.
    pub storage: Option<&'static str>,
    /// The row in whose version objects are stored; `None` where it is this row. Two rows then share `storage`.
    pub storage_version: Option<ResourceId>,
    /// When `metadata.generation` moves.
    pub generation: GenerationRule,
    /// Whether PUT without resourceVersion means "last write wins".
    pub unconditional_update: bool,
    /// Whether PUT on an absent name creates.
    pub create_on_update: bool,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_delete: bool,
    /// Whether DELETE answers with the object even when it is really gone; else with a Status.
    pub returns_deleted: bool,
    /// What happens to dependents when nobody says.
    pub default_propagation: DefaultPropagation,
    /// Grammar of `metadata.name`.
    pub name_rule: NameRule,
    /// What a CustomResourceDefinition adds; `None` for built-in kinds.
    pub custom: Option<&'static CustomFacts>,
}

/// The facts about a custom resource that rows of built-in kinds have no place for.
#[derive(Debug)]
pub struct CustomFacts {
    /// The row in whose version objects are stored; `None` where it is the row itself.
    pub stored_as: Option<&'static Resource>,
    /// The fields by which objects can be selected besides name and namespace, sorted by label. In every row these are the fields
    /// of all versions, since the cache keeps them once for an object.
    pub(crate) fields: &'static [(&'static str, FieldRead)],
    /// The labels of those fields that this version declares, sorted.
    pub selectable: &'static [&'static str],
}

impl Resource {
    /// Group, version and plural.
    pub const fn id(&self) -> ResourceId {
        ResourceId { group: self.group, version: self.version, plural: self.plural }
    }

    /// `v1` or `apps/v1`, as written in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `deployments.apps`, or the bare plural in the core group: the form of error messages.
    pub fn qualified(&self) -> String {
        qualify(self.plural, self.group)
    }

    /// `Deployment.apps`, or the bare kind in the core group: the form of Invalid errors.
    pub fn qualified_kind(&self) -> String {
        qualify(self.kind, self.group)
    }

    /// Whether objects are stored at all.
    pub const fn is_stored(&self) -> bool {
        self.storage.is_some()
    }

    /// The subresource with this URL segment.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether `status` is written through its own path.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether the resource itself (not a subresource) knows the verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Kind of the lists, such as `PodList`.
    pub fn list_kind(&self) -> String {
        if self.list_kind.is_empty() { format!("{}List", self.kind) } else { self.list_kind.to_owned() }
    }

    /// Whether two rows are the same version of the same kind. Rows of a custom kind are made anew when its names change.
    pub fn is_same_version(&self, other: &Resource) -> bool {
        std::ptr::eq(self, other) || self.id() == other.id()
    }

    /// Whether a CustomResourceDefinition declares it.
    pub const fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The row in whose version objects are stored: this one, or the other half of a shared pair.
    pub fn storage_row(&self) -> &Resource {
        if let Some(row) = self.custom.and_then(|custom| custom.stored_as) {
            return row;
        }
        let Some(id) = self.storage_version else { return self };
        lookup(id.group, id.version, id.plural).expect("a storage version names a row of the table")
    }

    /// Key of one object. `namespace` is ignored for cluster-scoped kinds.
    ///
    /// # Panics
    /// For kinds without storage; [`Resource::is_stored`] asks.
    pub fn storage_key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.storage_prefix(if self.namespaced { namespace } else { "" });
        key.push_str(name);
        key
    }

    /// Prefix, with its trailing slash, of all objects in one namespace, or of all objects when `namespace` is empty.
    ///
    /// # Panics
    /// For kinds without storage; [`Resource::is_stored`] asks.
    pub fn storage_prefix(&self, namespace: &str) -> String {
        let root = self.storage.expect("only stored kinds have keys");
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/{namespace}/")
        } else {
            format!("{root}/")
        }
    }

    /// Namespace (empty for cluster-scoped kinds) and name behind a key of this resource.
    pub fn parse_key<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        let rest = key.strip_prefix(self.storage?)?.strip_prefix('/')?;
        if self.namespaced { rest.split_once('/') } else { Some(("", rest)) }
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

type Key = (&'static str, &'static str, &'static str);

fn by_plural() -> &'static BTreeMap<Key, &'static Resource> {
    static MAP: OnceLock<BTreeMap<Key, &'static Resource>> = OnceLock::new();
    MAP.get_or_init(|| RESOURCES.iter().map(|r| ((r.group, r.version, r.plural), r)).collect())
}

fn by_kind() -> &'static BTreeMap<Key, &'static Resource> {
    static MAP: OnceLock<BTreeMap<Key, &'static Resource>> = OnceLock::new();
    MAP.get_or_init(|| RESOURCES.iter().map(|r| ((r.group, r.version, r.kind), r)).collect())
}

// The tables' keys are 'static and the question's are not: covariance shortens the former to the latter.
fn find<'a>(
    map: &'a BTreeMap<(&'a str, &'a str, &'a str), &'static Resource>,
    key: (&'a str, &'a str, &'a str),
) -> Option<&'static Resource> {
    map.get(&key).copied()
}

/// The row of a URL: group, version, plural.
pub fn lookup(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    find(by_plural(), (group, version, plural))
}

/// The row of an object: group, version, kind.
pub fn lookup_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    find(by_kind(), (group, version, kind))
}

/// The row of an object whose `apiVersion` is still one string.
pub fn lookup_api_version(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    lookup_kind(group, version, kind)
}

/// `apps/v1` as (`apps`, `v1`); `v1` as (empty, `v1`).
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// API groups in the order in which clients prefer them; the core group (empty) first.
pub fn groups() -> impl Iterator<Item = &'static str> {
    let mut last = None;
    RESOURCES.iter().filter_map(move |r| (last.replace(r.group) != Some(r.group)).then_some(r.group))
}

/// Versions of a group, preferred first.
pub fn versions(group: &str) -> impl Iterator<Item = &'static str> {
    let mut last = None;
    RESOURCES
        .iter()
        .filter(move |r| r.group == group)
        .filter_map(move |r| (last.replace(r.version) != Some(r.version)).then_some(r.version))
}

/// Resources of one group and version, sorted by plural.
pub fn resources_of(group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(move |r| r.group == group && r.version == version)
}

/// Stored rows, each storage once (the row whose version is stored).
pub fn stored() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|r| r.is_stored() && r.storage_version.is_none())
}
