//! Which objects a list or a watch is about: a kind, a namespace, a name, selectors. A pure predicate on entries.

use super::entry::Entry;
use kstore_api::kind::Resource;
use kstore_api::selector::{field, label};

/// A conjunction. Empty strings and empty selectors match everything.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The kind, in its stored version.
    pub resource: &'static Resource,
    /// Only this namespace.
    pub namespace: String,
    /// Only this name.
    pub name: String,
    /// Label requirements.
    pub labels: label::Selector,
    /// Field requirements.
    pub fields: field::Selector,
    /// Requirements on fields that a version of a custom kind declares.
    pub declared: Option<DeclaredFields>,
}

/// Field requirements of a request to a custom kind, beside name and namespace.
#[derive(Clone, Debug)]
pub struct DeclaredFields {
    /// The hash of the definition that declared the fields.
    pub spec_hash: [u8; 32],
    /// Requirements that the cache does not evaluate, because the stored bytes need not show the fields as the version of the request does.
    /// The reader of the list or watch evaluates them (`crate::conversion`).
    pub unevaluated: field::Selector,
}

impl Filter {
    /// Everything of a kind.
    pub fn all(resource: &'static Resource) -> Self {
        Self {
            resource,
            namespace: String::new(),
            name: String::new(),
            labels: label::Selector::everything(),
            fields: field::Selector::everything(),
            declared: None,
        }
    }

    /// Whether the object of this filter's kind matches.
    pub fn matches(&self, entry: &Entry) -> bool {
        (self.namespace.is_empty() || self.namespace == entry.namespace())
            && (self.name.is_empty() || self.name == entry.name())
            && self.labels.matches(&entry.labels())
            && self.fields.matches_fields(|label| entry.field(label))
    }

    /// The one key that can match, if there is only one.
    pub fn only_key(&self) -> Option<String> {
        let one = !self.name.is_empty() && (!self.resource.namespaced || !self.namespace.is_empty());
        one.then(|| self.resource.storage_key(&self.namespace, &self.name))
    }

    /// The value that the kind's indexed field must have, if there is one.
    pub(super) fn indexed(&self) -> Option<&str> {
        self.fields.required(indexed_field(self.resource)?)
    }

    /// Whether labels or fields are required (a list then cannot count what remains without looking).
    pub fn selects(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }
}

/// The field by whose value the objects of a kind, and those who watch them, can be found: every node asks for its own pods.
pub(super) fn indexed_field(resource: &Resource) -> Option<&'static str> {
    (resource.plural == "pods" && resource.group.is_empty()).then_some("spec.nodeName")
}
