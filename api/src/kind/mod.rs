//! The one table of resources: what the API serves and by which rules, as data. Routing, discovery, OpenAPI,
//! RBAC verbs, short names, storage keys, generation and deletion behaviour are read from it. The fields of a
//! kind are in `schema`, their validation is in `validate`. A row is a [`Resource`].

mod custom;
mod effect;
mod kinds;
pub mod opt_in;
mod row_index;
mod table;
#[cfg(test)]
mod tests;
mod version_rows;

use crate::group_version::split_api_version;
use crate::resource::Resource;
use crate::version::Minor;
pub use custom::{CustomRow, MAX_CUSTOM_ROWS, TooManyKinds};
pub use effect::Effect;
pub use kinds::Kinds;
pub use opt_in::{OptIn, OptionalKind};
pub use table::{OPT_IN, RESOURCES};
use version_rows::VersionRows;

impl Resource {
    /// The row in whose version objects are stored: this row, or the row it shares its storage with.
    pub fn storage_row(&self) -> &Resource {
        if let Some(row) = self.custom.and_then(|custom| custom.stored_as) {
            return row;
        }
        let Some(id) = self.storage_version else { return self };
        let rows = version_rows::of_view(self.minor, self.gates, self.drops_unknown);
        rows.stored_as(id).expect("a storage version names a row of the table")
    }
}

/// The built-in kinds that each server of the default version serves.
fn rows() -> &'static VersionRows {
    version_rows::of(Minor::DEFAULT)
}

/// Row for the group, version and plural of a URL, among the kinds that each server of the default version serves. A server asks its
/// [`Kinds`], whose rows are those of its own version.
pub fn lookup(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    rows().lookup(group, version, plural)
}

/// Row for the group, version and kind of an object, among the kinds that each server of the default version serves.
pub fn lookup_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    rows().lookup_kind(group, version, kind)
}

/// Row for the `apiVersion` and kind of an object, among the kinds that each server of the default version serves.
pub fn lookup_api_version(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    lookup_kind(group, version, kind)
}

/// Rows of all built-in kinds of the default version: those that each server serves, then the optional ones.
pub fn every() -> impl Iterator<Item = &'static Resource> {
    every_of(Minor::DEFAULT)
}

/// Rows of the optional built-in kinds of a version of Kubernetes.
pub fn optional_of(minor: Minor) -> impl Iterator<Item = &'static Resource> {
    version_rows::of(minor).optional.iter().map(|(row, _)| *row)
}

/// The same as [`every`], of a version of Kubernetes.
pub fn every_of(minor: Minor) -> impl Iterator<Item = &'static Resource> {
    let rows = version_rows::of(minor);
    rows.all.iter().copied().chain(rows.optional.iter().map(|(row, _)| *row))
}

/// Row for the `apiVersion` and kind of an object, optional kinds included. It does not say whether a server
/// serves the kind.
pub fn known(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    let is_wanted = |row: &&'static Resource| (row.group, row.version, row.kind) == (group, version, kind);
    lookup_kind(group, version, kind).or_else(|| {
        let row = OPT_IN.iter().map(|kind| &kind.row).find(is_wanted)?;
        match row.is_served() {
            true => Some(row),
            // The default version no longer has the kind: the row is that of the newest version that does.
            false => Minor::ALL.into_iter().rev().find_map(|minor| every_of(minor).find(is_wanted)),
        }
    })
}

/// Row for the `apiVersion` and kind of an object in a version of Kubernetes, optional kinds included.
#[cfg(test)]
pub(crate) fn known_in(minor: Minor, api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    every_of(minor).find(|row| (row.group, row.version, row.kind) == (group, version, kind))
}

/// API groups in the order of client preference; the core group (empty) first.
pub fn groups() -> impl Iterator<Item = &'static str> {
    rows().groups()
}

/// Versions of a group, preferred first.
pub fn versions(group: &str) -> impl Iterator<Item = &'static str> {
    rows().versions(group)
}

/// Resources of one group and version, sorted by plural.
pub fn resources_of(group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
    rows().resources_of(group, version)
}

/// Rows of storage versions, one for each storage prefix.
pub fn stored() -> impl Iterator<Item = &'static Resource> {
    rows().stored()
}
