//! Equivalent resources: other group-versions in which the objects of a resource can be had, for the match policy `Equivalent`.

use super::attributes::{GroupVersionKind, GroupVersionResource};
use crate::kind::{Kinds, Resource};

/// One group-version of a resource or subresource.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent {
    /// The row of the resource, to which an object of the request can be converted.
    pub row: &'static Resource,
    kind: GroupVersionKind<'static>,
}

impl Equivalent {
    /// The resource as rules name it.
    #[must_use]
    pub fn resource(&self) -> GroupVersionResource<'static> {
        self.row.into()
    }

    /// The kind of the objects; of the body for a subresource.
    #[must_use]
    pub const fn kind(&self) -> GroupVersionKind<'static> {
        self.kind
    }
}

/// All group-versions in which the objects of `row` are served, itself included, in the order of discovery. For a subresource only
/// those that have it.
#[must_use]
pub fn equivalents(kinds: &Kinds, row: &'static Resource, subresource: &str) -> Vec<Equivalent> {
    let same = |other: &&'static Resource| match row.storage {
        Some(storage) => other.storage == Some(storage),
        None => other.is_same_version(row),
    };
    let rows = kinds
        .groups()
        .flat_map(|group| kinds.versions(group).map(move |version| (group, version)))
        .filter_map(|(group, version)| kinds.lookup(group, version, row.plural))
        .filter(same);
    let equivalent = |row: &'static Resource| {
        let kind = match subresource {
            "" => row.into(),
            name => row.subresource(name)?.into(),
        };
        Some(Equivalent { row, kind })
    };
    rows.filter_map(equivalent).collect()
}
