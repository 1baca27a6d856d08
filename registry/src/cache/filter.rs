//! The objects that a list or a watch selects: a kind, a namespace, a name, selectors. A pure predicate on
//! entries.

use crate::entry::Entry;
use kstore_api::resource::Resource;
use kstore_api::selector::{field, label};

/// A conjunction of conditions. Empty strings and empty selectors match everything.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The kind, in its stored version.
    pub resource: &'static Resource,
    /// The namespace of the objects.
    pub namespace: String,
    /// The name of the objects.
    pub name: String,
    /// Label requirements.
    pub labels: label::Selector,
    /// Field requirements.
    pub fields: field::Selector,
    /// Requirements on selectable fields that a version of a custom kind declares. Boxed because they are rare, and
    /// the future of every request has a filter.
    pub declared: Option<Box<DeclaredFields>>,
    /// Whether objects that wait for initializers match.
    pub includes_uninitialized: bool,
}

/// Field requirements of a request to a custom kind, other than name and namespace.
#[derive(Clone, Debug)]
pub struct DeclaredFields {
    /// The hash of the definition that declared the fields.
    pub spec_hash: [u8; 32],
    /// Requirements that the cache does not evaluate, because the stored bytes may show the fields
    /// differently than the requested version. The reader of the list or watch evaluates them
    /// (`crate::conversion`).
    pub unevaluated: field::Selector,
}

impl Filter {
    /// A filter that selects all objects of a kind.
    pub fn all(resource: &'static Resource) -> Self {
        Self {
            resource,
            namespace: String::new(),
            name: String::new(),
            labels: label::Selector::everything(),
            fields: field::Selector::everything(),
            declared: None,
            includes_uninitialized: true,
        }
    }

    /// Whether an object of this filter's kind matches.
    pub fn matches(&self, entry: &Entry) -> bool {
        (self.namespace.is_empty() || self.namespace == entry.namespace())
            && (self.name.is_empty() || self.name == entry.name())
            && (self.includes_uninitialized || !entry.is_uninitialized())
            && self.labels.matches(&entry.labels())
            && self.fields.matches_fields(|label| entry.field(label))
    }

    /// The storage key, if the filter can match only one.
    pub fn only_key(&self) -> Option<String> {
        let one = !self.name.is_empty() && (!self.resource.namespaced || !self.namespace.is_empty());
        one.then(|| self.resource.storage_key(&self.namespace, &self.name))
    }

    /// The value that the filter requires of the kind's indexed field, if any.
    pub(super) fn indexed(&self) -> Option<&str> {
        self.fields.required(indexed_field(self.resource)?)
    }

    /// The number of values that an object's labels and fields are compared with.
    pub fn requirements(&self) -> usize {
        crate::selectors::requirements(&self.labels, &self.fields)
    }

    /// The number of values that the cache's feeding task compares with a change that reaches the filter: the required
    /// value of the indexed field is found by the index.
    pub(super) fn cost_of_feeding(&self) -> usize {
        self.requirements() - usize::from(self.indexed().is_some())
    }

    /// Whether the filter has label or field requirements, or hides objects that are not initialized. The remaining items of a list cannot
    /// be counted then without evaluating them.
    pub fn selects(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything() || !self.includes_uninitialized
    }
}

/// The field by which the objects of a kind and their watchers are indexed: every kubelet lists and watches
/// its own pods.
pub(super) fn indexed_field(resource: &Resource) -> Option<&'static str> {
    resource.is("", "pods").then_some("spec.nodeName")
}
