//! Fields that an endpoint does not write. A request does not change the ownership of those fields, even if its
//! body has them.

use super::set::FieldSet;
use crate::resource::{Reset, Resource};

impl Reset {
    /// Removes the fields that do not count from a set.
    pub(super) fn filter(self, mut set: FieldSet) -> FieldSet {
        match self {
            Self::Fields([]) => {}
            Self::Fields(names) => set.prune(&FieldSet::of_names(names)),
            Self::AllBut(patterns) => return set.matching(patterns),
        }
        set
    }
}

/// Filter for an endpoint of a kind, for [`super::Write::reset`].
#[must_use]
pub fn reset_fields(resource: &Resource, subresource: &str) -> Reset {
    let own = resource.rules.subresources.iter().find(|rules| rules.name.is_empty());
    match (subresource, own) {
        ("", Some(own)) => own.reset,
        ("", None) if resource.has_status() => Reset::Fields(&["status"]),
        _ => resource.rules.subresource(subresource).reset,
    }
}
