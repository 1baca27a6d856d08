//! Set of the kinds that a server serves at one moment: built-in kinds and those of its
//! CustomResourceDefinitions. The set is immutable; a server replaces it when a definition changes. It has no
//! schemas and no columns of the definitions.

use super::{RESOURCES, Resource, split_api_version};
use crate::crd::priority;
use std::collections::BTreeMap;
use std::sync::LazyLock;

type Key = (&'static str, &'static str, &'static str);
type Rows = BTreeMap<Key, &'static Resource>;

/// Rows of all served kinds, with the look-ups that requests need.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    /// Rows of custom resources in the order of discovery: groups by name, preferred versions first, plurals by name.
    custom: Vec<&'static Resource>,
    by_plural: Rows,
    by_kind: Rows,
    /// Rows of storage versions, by the prefix of their keys.
    by_root: BTreeMap<&'static str, &'static Resource>,
}

/// Built-in rows of storage versions, by the prefix of their keys.
static BUILT_IN_ROOTS: LazyLock<BTreeMap<&'static str, &'static Resource>> =
    LazyLock::new(|| super::stored().filter_map(|row| Some((row.storage?, row))).collect());

impl Kinds {
    /// The set of the built-in kinds alone.
    #[must_use]
    pub fn built_in() -> Self {
        Self::default()
    }

    /// The set of the built-in kinds and the given custom ones. `served` are rows of served versions;
    /// `stored` are rows of storage versions, which need not be served. Rows of a built-in group and plural
    /// are left out: the built-in kind wins.
    #[must_use]
    pub fn with_custom(served: &[&'static Resource], stored: &[&'static Resource]) -> Self {
        let mut custom: Vec<_> =
            served.iter().copied().filter(|row| !is_built_in(row.group, row.plural)).collect();
        custom.sort_by(|a, b| {
            let versions = || priority::compare(a.version, b.version);
            a.group.cmp(b.group).then_with(versions).then_with(|| a.plural.cmp(b.plural))
        });
        Self {
            by_plural: custom.iter().map(|row| ((row.group, row.version, row.plural), *row)).collect(),
            by_kind: custom.iter().map(|row| ((row.group, row.version, row.kind), *row)).collect(),
            by_root: stored.iter().filter_map(|row| Some((row.storage?, *row))).collect(),
            custom,
        }
    }

    /// Row for the group, version and plural of a URL.
    #[must_use]
    pub fn lookup(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        super::lookup(group, version, plural).or_else(|| find(&self.by_plural, (group, version, plural)))
    }

    /// Row for the group, version and kind of an object.
    #[must_use]
    pub fn lookup_kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
        super::lookup_kind(group, version, kind).or_else(|| find(&self.by_kind, (group, version, kind)))
    }

    /// Row for the `apiVersion` and kind of an object.
    #[must_use]
    pub fn lookup_api_version(&self, api_version: &str, kind: &str) -> Option<&'static Resource> {
        let (group, version) = split_api_version(api_version);
        self.lookup_kind(group, version, kind)
    }

    /// API groups in the order of client preference: the core group (empty), the other built-in groups,
    /// custom groups by name.
    pub fn groups(&self) -> impl Iterator<Item = &'static str> {
        let custom = self.custom.chunk_by(|a, b| a.group == b.group).map(|rows| rows[0].group);
        super::groups().chain(custom.filter(|group| !super::groups().any(|known| known == *group)))
    }

    /// Versions of a group, preferred first.
    pub fn versions(&self, group: &str) -> impl Iterator<Item = &'static str> {
        let rows = self.custom_of(group).chunk_by(|a, b| a.version == b.version);
        super::versions(group).chain(rows.map(|rows| rows[0].version))
    }

    /// Resources of one group and version, sorted by plural.
    pub fn resources_of(&self, group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
        let custom = self.custom_of(group).iter().copied().filter(move |row| row.version == version);
        super::resources_of(group, version).chain(custom)
    }

    /// Rows of storage versions, one for each storage prefix, built-in kinds first.
    pub fn stored(&self) -> impl Iterator<Item = &'static Resource> {
        super::stored().chain(self.by_root.values().copied())
    }

    /// Row of the storage version whose objects have keys below this prefix (without a trailing slash).
    #[must_use]
    pub fn stored_at(&self, root: &str) -> Option<&'static Resource> {
        BUILT_IN_ROOTS.get(root).or_else(|| self.by_root.get(root)).copied()
    }

    /// Rows of custom resources.
    #[must_use]
    pub fn custom(&self) -> &[&'static Resource] {
        &self.custom
    }

    fn custom_of(&self, group: &str) -> &[&'static Resource] {
        let from = self.custom.partition_point(|row| row.group < group);
        let rest = &self.custom[from..];
        &rest[..rest.partition_point(|row| row.group == group)]
    }
}

fn is_built_in(group: &str, plural: &str) -> bool {
    RESOURCES.iter().any(|row| row.group == group && row.plural == plural)
}

// The keys of the map are `'static` and the key looked up is not; covariance shortens the lifetime of the
// map's keys.
fn find<'a>(
    map: &'a BTreeMap<(&'a str, &'a str, &'a str), &'static Resource>,
    key: (&'a str, &'a str, &'a str),
) -> Option<&'static Resource> {
    map.get(&key).copied()
}

#[cfg(test)]
mod tests {
    use super::super::CustomRow;
    use super::*;

    fn row(group: &str, version: &str, plural: &str) -> &'static Resource {
        let row = CustomRow {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            kind: format!("Kind{plural}"),
            ..CustomRow::default()
        };
        CustomRow::rows(&[row], 0).unwrap()[0]
    }

    #[test]
    fn lookups_find_custom_and_built_in_kinds() {
        let rows = [
            row("b.example.com", "v1", "dogs"),
            row("b.example.com", "v2beta1", "dogs"),
            row("a.example.com", "v1", "cats"),
            row("b.example.com", "v1", "birds"),
            row("apps", "v1", "deployments"),
        ];
        let kinds = Kinds::with_custom(&rows, &rows[..1]);
        let custom = kinds.groups().skip_while(|group| *group != "a.example.com");
        assert_eq!(custom.collect::<Vec<_>>(), ["a.example.com", "b.example.com"]);
        assert_eq!(kinds.versions("b.example.com").collect::<Vec<_>>(), ["v1", "v2beta1"]);
        let plurals = kinds.resources_of("b.example.com", "v1").map(|row| row.plural);
        assert_eq!(plurals.collect::<Vec<_>>(), ["birds", "dogs"]);
        assert!(kinds.lookup_api_version("b.example.com/v1", "Kinddogs").is_some());
        assert!(kinds.lookup("b.example.com", "v3", "dogs").is_none());
        assert_eq!(kinds.stored_at("/registry/b.example.com/dogs").unwrap().plural, "dogs");
        assert_eq!(kinds.stored_at("/registry/services/specs").unwrap().plural, "services");
        assert!(!kinds.lookup("apps", "v1", "deployments").unwrap().is_custom(), "the built-in kind wins");
    }
}
