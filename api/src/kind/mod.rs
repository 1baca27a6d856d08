//! The one table of resources: what the API serves and by which rules, as data. Routing, discovery, OpenAPI,
//! RBAC verbs, short names, storage keys, generation and deletion behaviour are read from it. The fields of a
//! kind are in `schema`, their validation is in `validate`. A row is a [`Resource`].

mod custom;
mod kinds;
pub mod opt_in;
mod table;
#[cfg(test)]
mod tests;

use crate::group_version::split_api_version;
use crate::resource::Resource;
pub use custom::{CustomRow, MAX_CUSTOM_ROWS, TooManyKinds};
pub use kinds::Kinds;
pub use opt_in::{OptIn, OptionalKind};
use std::collections::BTreeMap;
use std::sync::OnceLock;
pub use table::{OPT_IN, RESOURCES};

impl Resource {
    /// The row in whose version objects are stored: this row, or the row it shares its storage with.
    pub fn storage_row(&self) -> &Resource {
        if let Some(row) = self.custom.and_then(|custom| custom.stored_as) {
            return row;
        }
        let Some(id) = self.storage_version else { return self };
        lookup(id.group, id.version, id.plural).expect("a storage version names a row of the table")
    }
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

// The keys of the map are `'static` and the key looked up is not; covariance shortens the lifetime of the
// map's keys.
fn find<'a>(
    map: &'a BTreeMap<(&'a str, &'a str, &'a str), &'static Resource>,
    key: (&'a str, &'a str, &'a str),
) -> Option<&'static Resource> {
    map.get(&key).copied()
}

/// Row for the group, version and plural of a URL, among the kinds that each server serves.
pub fn lookup(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    find(by_plural(), (group, version, plural))
}

/// Row for the group, version and kind of an object, among the kinds that each server serves.
pub fn lookup_kind(group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
    find(by_kind(), (group, version, kind))
}

/// Row for the `apiVersion` and kind of an object, among the kinds that each server serves.
pub fn lookup_api_version(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    lookup_kind(group, version, kind)
}

/// Rows of all built-in kinds: those that each server serves, then the optional ones.
pub fn every() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().chain(OPT_IN.iter().map(|kind| &kind.row))
}

/// Row for the `apiVersion` and kind of an object, optional kinds included. It does not say whether a server
/// serves the kind.
pub fn known(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = split_api_version(api_version);
    let is_wanted = |row: &&'static Resource| (row.group, row.version, row.kind) == (group, version, kind);
    lookup_kind(group, version, kind).or_else(|| OPT_IN.iter().map(|kind| &kind.row).find(is_wanted))
}

/// API groups in the order of client preference; the core group (empty) first.
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

/// Rows of storage versions, one for each storage prefix.
pub fn stored() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|r| r.is_stored() && r.storage_version.is_none())
}
