//! [`Rule`]: one rule that selects requests for a webhook or policy. Selectors are in `selection`.

use super::attributes::{Attributes, GroupVersionResource, Operation};
use crate::object::{list, text};
use serde_json::Value;

/// Set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(u8);

impl Operations {
    /// Parses a list of operations; unknown names match nothing.
    fn read(words: &[Value]) -> Self {
        let bit = |word: &Value| match text(word) {
            "*" => Self::ALL.0,
            word => Operation::ALL.iter().filter(|known| known.as_str() == word).map(|o| Self::bit(*o)).sum(),
        };
        Self(words.iter().map(bit).fold(0, |all, bits| all | bits))
    }

    const ALL: Self = Self(0b1111);

    const fn bit(operation: Operation) -> u8 {
        match operation {
            Operation::Create => 1,
            Operation::Update => 2,
            Operation::Delete => 4,
            Operation::Connect => 8,
        }
    }

    /// Whether the set contains the operation.
    #[must_use]
    pub const fn contains(self, operation: Operation) -> bool {
        self.0 & Self::bit(operation) != 0
    }

    /// Union of two sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Scope of the objects that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// An unknown scope, which validation refuses; it matches nothing.
    Unknown,
}

/// Resource pattern of a rule, such as `pods`, `pods/*` or `*/scale`; a lone `*` means all resources without
/// subresources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourcePattern {
    resource: Box<str>,
    subresource: Box<str>,
}

impl ResourcePattern {
    fn read(pattern: &Value) -> Self {
        let (resource, subresource) = text(pattern).split_once('/').unwrap_or((text(pattern), ""));
        Self { resource: resource.into(), subresource: subresource.into() }
    }

    fn matches(&self, resource: &str, subresource: &str) -> bool {
        (&*self.resource == "*" || &*self.resource == resource)
            && (&*self.subresource == "*" || &*self.subresource == subresource)
    }

    /// The plural that a request must have; `None` for any.
    pub(super) fn plural(&self) -> Option<&str> {
        (&*self.resource != "*").then_some(&*self.resource)
    }
}

/// Rule that selects requests by operation, group, version, resource, scope and, for policies, object names.
#[derive(Clone, Debug)]
pub struct Rule {
    operations: Operations,
    groups: Vec<Box<str>>,
    versions: Vec<Box<str>>,
    resources: Vec<ResourcePattern>,
    scope: Scope,
    /// Object names; empty for all.
    names: Vec<Box<str>>,
}

fn texts(values: &Value) -> Vec<Box<str>> {
    list(values).iter().map(|value| text(value).into()).collect()
}

fn has(items: &[Box<str>], wanted: &str) -> bool {
    items.iter().any(|item| &**item == "*" || &**item == wanted)
}

impl Rule {
    /// Parses one `RuleWithOperations` or `NamedRuleWithOperations` of a stored object.
    #[must_use]
    pub fn read(rule: &Value) -> Self {
        let scope = match rule["scope"].as_str() {
            None | Some("*") => Scope::All,
            Some("Namespaced") => Scope::Namespaced,
            Some("Cluster") => Scope::Cluster,
            Some(_) => Scope::Unknown,
        };
        Self {
            operations: Operations::read(list(&rule["operations"])),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: list(&rule["resources"]).iter().map(ResourcePattern::read).collect(),
            scope,
            names: texts(&rule["resourceNames"]),
        }
    }

    /// Parses a list of rules in a stored object.
    #[must_use]
    pub fn read_all(rules: &Value) -> Vec<Self> {
        list(rules).iter().map(Self::read).collect()
    }

    /// Whether the rule matches the request as one for `resource`, which is the request's own or an
    /// equivalent resource.
    #[must_use]
    pub fn matches(&self, attributes: &Attributes<'_>, resource: GroupVersionResource<'_>) -> bool {
        self.operations.contains(attributes.operation)
            && has(&self.groups, resource.group)
            && has(&self.versions, resource.version)
            && self.resources.iter().any(|own| own.matches(resource.resource, attributes.subresource))
            && self.matches_scope(attributes, resource)
            && (self.names.is_empty() || self.names.iter().any(|name| &**name == attributes.name))
    }

    fn matches_scope(&self, attributes: &Attributes<'_>, resource: GroupVersionResource<'_>) -> bool {
        // Requests for a Namespace have its name as namespace, but the object is cluster-scoped.
        let namespaces = GroupVersionResource { group: "", version: "v1", resource: "namespaces" };
        let is_cluster_scoped = resource == namespaces || attributes.namespace.is_empty();
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !is_cluster_scoped,
            Scope::Cluster => is_cluster_scoped,
            Scope::Unknown => false,
        }
    }

    /// Operations of the rule.
    pub(super) fn operations(&self) -> Operations {
        self.operations
    }

    pub(super) fn resources(&self) -> &[ResourcePattern] {
        &self.resources
    }
}
