//! [`Resource`]: one row of the table of resources, which `kind` has, with the rules for its objects. The functions that
//! follow the rules (`validate`, `defaults`, `table`, …) are above this module, and those that the rules name are above
//! it, too: `rules` puts both together.

mod fields;
mod printer;
mod ratchet;
mod rules;
mod subresource;
mod warnings;

use crate::gate::GateSet;
use crate::name::NameRule;
use crate::schema::{self, Type};
use crate::version::{MAJOR, Minor, Versions};
pub(crate) use fields::{FieldRule, Labels, SelectableFields};
pub use printer::Column;
pub(crate) use printer::Printer;
pub(crate) use ratchet::RatchetedRule;
pub(crate) use rules::{KindRules, UpdateCheck};
use serde_json::Value;
pub use subresource::Reset;
pub(crate) use subresource::{SubresourceRules, copy, status_only};
pub(crate) use warnings::Warnings;

/// The verbs of an ordinary resource, in discovery's order.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// All verbs except `deletecollection`.
pub const NO_COLLECTION_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
/// The verbs of subresources like `status` and `scale`.
pub const GET_PATCH_UPDATE: &[&str] = &["get", "patch", "update"];
/// The only verb of reviews and bindings.
pub const CREATE_ONLY: &[&str] = &["create"];

/// Group, version and plural that identify a resource row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version inside the group.
    pub version: &'static str,
    /// Lower-case plural, the URL segment.
    pub plural: &'static str,
}

/// Rule that says when `metadata.generation` increments. The comparison is semantic: absent, null, `{}` and
/// `[]` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GenerationRule {
    /// `metadata.generation` is never set.
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
    /// 1 at create, and never incremented (PriorityClass).
    Fixed,
    /// 1 at create, +1 when anything outside metadata changes (custom resources without a status subresource).
    Content,
    /// 1 at create, +1 when anything outside metadata and `status` changes (custom resources with a status subresource).
    ContentButStatus,
}

/// Propagation policy of a DELETE whose options and object name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    /// The garbage collector deletes dependents afterwards.
    Background,
    /// Dependents lose their owner reference and stay.
    Orphan,
    /// The kind takes no garbage collection finalizers (events).
    Unsupported,
}

/// Subresource of a kind: a path below one object, such as `status` or `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The URL segment.
    pub name: &'static str,
    /// API group of the body; equal to the parent's unless the body is a kind of another group.
    pub group: &'static str,
    /// API version of the body.
    pub version: &'static str,
    /// Kind of the body.
    pub kind: &'static str,
    /// Type of the body in the field table; `None` for custom resources, and for options that requests have as query parameters.
    pub(crate) object_type: Option<&'static Type>,
    /// Supported verbs, sorted.
    pub verbs: &'static [&'static str],
    /// The feature gate without which a server does not have it; empty if there is none.
    pub(crate) gate: &'static str,
}

/// Since when a kind is deprecated in its version, until when it is served, and what to use instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// The version of Kubernetes from which on requests get the warning.
    pub since: Minor,
    /// Number of the minor version that no longer has the kind, if that is known.
    pub unavailable: Option<u64>,
    /// Group, version and kind to use, as in the warning; empty if there is none.
    pub replacement: &'static str,
}

/// One row of the table: a resource in one version, and the rules for its objects.
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
    /// The type of that name in the field table, in the version of Kubernetes whose row this is; `None` for custom resources.
    pub(crate) object_type: Option<&'static Type>,
    /// Key prefix without a trailing slash. `None` for reviews and bindings, which are answered and not
    /// stored.
    pub storage: Option<&'static str>,
    /// Identity of the row in whose version objects are stored; `None` if it is this row. The two rows share
    /// `storage`.
    pub storage_version: Option<ResourceId>,
    /// When `metadata.generation` increments.
    pub generation: GenerationRule,
    /// Whether PUT without a resourceVersion is accepted and overwrites the object unconditionally.
    pub unconditional_update: bool,
    /// Whether PUT to a name that does not exist creates the object.
    pub create_on_update: bool,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_delete: bool,
    /// Whether a DELETE that removes the object at once is answered with the object; otherwise with a Status.
    pub returns_deleted: bool,
    /// Propagation policy of a DELETE whose options and object name none.
    pub default_propagation: DefaultPropagation,
    /// Grammar of `metadata.name`.
    pub name_rule: NameRule,
    /// The functions and data by which objects of the kind are defaulted, validated, printed and so on.
    pub(crate) rules: &'static KindRules,
    /// Data of kinds that a CustomResourceDefinition declares; `None` for built-in kinds.
    pub custom: Option<&'static CustomFacts>,
    /// The version of Kubernetes whose API the row is part of: that of its server.
    pub minor: Minor,
    /// The feature gates of the row's server. A custom resource's row has those that its version has by default.
    pub(crate) gates: GateSet,
    /// Whether a newer version of Kubernetes may have stored members of the objects that the row's version lacks: reads drop them.
    pub(crate) drops_unknown: bool,
    /// The deprecation of the kind, if it is deprecated in any version.
    pub(crate) deprecated: Option<Deprecation>,
    /// The grammar of `metadata.name` without a feature gate, where it is another one.
    pub(crate) name_rule_without: Option<(&'static str, NameRule)>,
    /// What increments `metadata.generation` without a feature gate, where it is something else.
    pub(crate) generation_without: Option<(&'static str, GenerationRule)>,
    /// The versions of Kubernetes that have the resource.
    pub(crate) versions: Versions,
}

/// Facts about a custom resource that built-in rows do not have.
#[derive(Debug)]
pub struct CustomFacts {
    /// The row in whose version objects are stored; `None` if it is the row itself.
    pub stored_as: Option<&'static Resource>,
}

impl Resource {
    /// Group, version and plural.
    pub const fn id(&self) -> ResourceId {
        ResourceId { group: self.group, version: self.version, plural: self.plural }
    }

    /// Whether the version of the row's server has the resource. If not, clients get 404 for it, and components of the server's process
    /// find it without objects.
    pub const fn is_served(&self) -> bool {
        self.versions.has(self.minor)
    }

    /// The warning that each request for the kind gets; `None` if the kind is not deprecated in the row's version.
    pub fn deprecation(&self) -> Option<String> {
        let Deprecation { since, unavailable, replacement } =
            self.deprecated.filter(|deprecated| deprecated.since <= self.minor)?;
        let mut text = format!("{} {} is deprecated in v{since}+", self.api_version(), self.kind);
        if let Some(minor) = unavailable {
            text.push_str(&format!(", unavailable in v{MAJOR}.{minor}+"));
        }
        if !replacement.is_empty() {
            text.push_str("; use ");
            text.push_str(replacement);
        }
        Some(text)
    }

    /// Whether a feature gate is on in the row's server. A gate that its version does not know is off.
    pub fn has_gate(&self, name: &str) -> bool {
        self.gates.has(self.minor, name)
    }

    /// The row in another version of Kubernetes, or with other gates, for data of newer versions if `drops_unknown`.
    pub(crate) fn of_view(&self, minor: Minor, gates: GateSet, drops_unknown: bool) -> Self {
        let name_rule = match self.name_rule_without {
            Some((gate, rule)) if !gates.has(minor, gate) => rule,
            _ => self.name_rule,
        };
        let generation = match self.generation_without {
            Some((gate, rule)) if !gates.has(minor, gate) => rule,
            _ => self.generation,
        };
        let type_of = |group, version, kind| schema::of_minor(minor, group, version, kind);
        let below = |sub: &Subresource| Subresource {
            object_type: type_of(sub.group, sub.version, sub.kind),
            ..*sub
        };
        let is_served = |sub: &&Subresource| sub.gate.is_empty() || !gates.lacks(minor, sub.gate);
        let subresources = Box::leak(self.subresources.iter().filter(is_served).map(below).collect());
        let object_type = type_of(self.group, self.version, self.kind);
        Self { minor, gates, drops_unknown, name_rule, generation, object_type, subresources, ..*self }
    }

    /// The type of the objects in the field table; `None` for custom resources.
    pub fn object_type(&self) -> Option<&'static Type> {
        self.object_type
    }

    /// The type of the bodies of a subresource, or of the objects if the name is empty; `None` for custom resources.
    pub fn body_type(&self, subresource: &str) -> Option<&'static Type> {
        self.subresource(subresource).map_or(self.object_type, |sub| sub.object_type)
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

    /// Whether objects of the kind are stored.
    pub const fn is_stored(&self) -> bool {
        self.storage.is_some()
    }

    /// The subresource with this name (URL segment).
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// Whether `status` is a subresource.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether the resource itself (not a subresource) supports the verb.
    pub fn supports(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Kind of the lists, such as `PodList`.
    pub fn list_kind(&self) -> String {
        if self.list_kind.is_empty() { format!("{}List", self.kind) } else { self.list_kind.to_owned() }
    }

    /// Whether the kind is this resource of this group, in any version. A custom kind may have the plural of a built-in one, so the plural
    /// alone says nothing.
    pub fn is(&self, group: &str, plural: &str) -> bool {
        // Plurals differ more often than groups do.
        self.plural == plural && self.group == group
    }

    /// Whether two rows are the same version of the same kind. A custom kind gets new rows when its names
    /// change, so addresses alone do not say.
    pub fn is_same_version(&self, other: &Resource) -> bool {
        std::ptr::eq(self, other) || self.id() == other.id()
    }

    /// Whether the kind is a custom resource.
    pub const fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// The pod, or the pod template, in an object of the kind; `None` for objects without one.
    pub fn pod_template<'o>(&self, object: &'o Value) -> Option<&'o Value> {
        self.rules.pod_template?.iter().try_fold(object, |value, member| value.get(member))
    }

    /// Storage key of one object. `namespace` is ignored for cluster-scoped kinds.
    ///
    /// # Panics
    /// For kinds without storage; check [`Resource::is_stored`] first.
    pub fn storage_key(&self, namespace: &str, name: &str) -> String {
        let mut key = self.storage_prefix(if self.namespaced { namespace } else { "" });
        key.push_str(name);
        key
    }

    /// Key prefix, with its trailing slash, of all objects in one namespace, or of all objects when
    /// `namespace` is empty.
    ///
    /// # Panics
    /// For kinds without storage; check [`Resource::is_stored`] first.
    pub fn storage_prefix(&self, namespace: &str) -> String {
        let root = self.storage.expect("only stored kinds have keys");
        if self.namespaced && !namespace.is_empty() {
            format!("{root}/{namespace}/")
        } else {
            format!("{root}/")
        }
    }

    /// Namespace (empty for cluster-scoped kinds) and name in a key of this resource; `None` for other keys.
    pub fn parse_key<'k>(&self, key: &'k str) -> Option<(&'k str, &'k str)> {
        let rest = key.strip_prefix(self.storage?)?.strip_prefix('/')?;
        if self.namespaced { rest.split_once('/') } else { Some(("", rest)) }
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}
