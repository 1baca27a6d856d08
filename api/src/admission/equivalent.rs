//! Equivalent resources: other group-versions with the same objects, for the match policy `Equivalent`.

use super::attributes::{GroupVersionKind, GroupVersionResource};
use crate::kind::Kinds;
use crate::resource::Resource;

/// One group-version of a resource or subresource.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent {
    /// Resource row whose version the request's object can be converted to.
    pub row: &'static Resource,
    kind: GroupVersionKind<'static>,
}

impl Equivalent {
    /// The resource as rules name it.
    #[must_use]
    pub fn resource(&self) -> GroupVersionResource<'static> {
        self.row.into()
    }

    /// Kind of the objects; for a subresource, kind of the body.
    #[must_use]
    pub const fn kind(&self) -> GroupVersionKind<'static> {
        self.kind
    }
}

/// All group-versions that serve the objects of `row`, including its own, in discovery's order. For a
/// subresource only those that have it.
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
