//! Set of the kinds that a server serves at one moment: built-in kinds, the optional ones that its operator has
//! chosen, and those of its CustomResourceDefinitions. The set is immutable; a server replaces it when a definition changes. It has no
//! schemas and no columns of the definitions.

use super::OptIn;
use super::row_index::RowIndex;
use super::version_rows::{self, VersionRows};
use crate::group_version::{by_priority, split_api_version};
use crate::resource::Resource;
use std::collections::BTreeMap;

/// Rows of all served kinds, with the look-ups that requests need.
#[derive(Clone, Debug)]
pub struct Kinds {
    /// The built-in kinds that each server of this version and these gates serves.
    built_in: &'static VersionRows,
    /// The version of the server, and its optional kinds and features.
    opt_in: OptIn,
    /// Rows of custom resources in the order of discovery: groups by name, preferred versions first, plurals by name.
    custom: Vec<&'static Resource>,
    /// Rows that not every server serves.
    by_plural: RowIndex,
    by_kind: RowIndex,
    /// Rows of storage versions, by the prefix of their keys.
    by_root: BTreeMap<&'static str, &'static Resource>,
}

impl Default for Kinds {
    fn default() -> Self {
        Self::new(OptIn::default(), &[], &[])
    }
}

impl Kinds {
    /// The set of the built-in kinds that each server of the default version serves.
    #[must_use]
    pub fn built_in() -> Self {
        Self::default()
    }

    /// The set of the built-in kinds that each server of a version serves, the optional ones in `opt_in`, and the given custom
    /// ones. `served` are rows of served versions; `stored` are rows of storage versions, which need not be served.
    /// Rows of a built-in group and plural are left out: the built-in kind wins.
    #[must_use]
    pub fn new(opt_in: OptIn, served: &[&'static Resource], stored: &[&'static Resource]) -> Self {
        let built_in = version_rows::of_view(opt_in.minor(), opt_in.gates(), opt_in.has_newer_data());
        let is_built_in = |row: &&Resource| {
            let is_same = |own: &&Resource| own.group == row.group && own.plural == row.plural;
            built_in.all.iter().any(is_same) || opt_in.has(row.group, row.plural)
        };
        let mut custom: Vec<_> = served.iter().copied().filter(|row| !is_built_in(row)).collect();
        custom.sort_by(|a, b| {
            let versions = || by_priority(a.version, b.version);
            a.group.cmp(b.group).then_with(versions).then_with(|| a.plural.cmp(b.plural))
        });
        let further = || opt_in.rows().iter().chain(&custom).copied();
        // A stable version may be stored as a beta version that is not served.
        let stored = opt_in.rows().iter().map(|row| row.storage_row()).chain(stored.iter().copied());
        Self {
            by_plural: RowIndex::new(further(), |row| row.plural),
            by_kind: RowIndex::new(further(), |row| row.kind),
            by_root: stored.filter_map(|row| Some((row.storage?, row))).collect(),
            custom,
            opt_in,
            built_in,
        }
    }

    /// The version of the server, and its optional kinds and features.
    #[must_use]
    pub fn opt_in(&self) -> &OptIn {
        &self.opt_in
    }

    /// Row for the group, version and plural of a URL.
    #[must_use]
    pub fn lookup(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        self.built_in.lookup(group, version, plural).or_else(|| self.by_plural.find(plural, group, version))
    }

    /// Row for the group, version and kind of an object.
    #[must_use]
    pub fn lookup_kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
        self.built_in.lookup_kind(group, version, kind).or_else(|| self.by_kind.find(kind, group, version))
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
        self.built_in_groups().chain(custom.filter(|group| !self.is_built_in_group(group)))
    }

    /// API groups of built-in kinds, in the order of client preference.
    pub fn built_in_groups(&self) -> impl Iterator<Item = &'static str> {
        let further = self.opt_in.rows().chunk_by(|a, b| a.group == b.group).map(|rows| rows[0].group);
        let groups = || self.built_in.groups();
        groups().chain(further.filter(move |group| groups().all(|known| known != *group)))
    }

    /// Whether the group has built-in kinds.
    #[must_use]
    pub fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in_groups().any(|known| known == group)
    }

    /// Versions of a group, preferred first.
    pub fn versions(&self, group: &str) -> impl Iterator<Item = &'static str> {
        let rows = self.custom_of(group).chunk_by(|a, b| a.version == b.version);
        self.built_in_versions(group).chain(rows.map(|rows| rows[0].version))
    }

    /// Versions of a group that have built-in kinds, preferred first.
    pub fn built_in_versions(&self, group: &str) -> impl Iterator<Item = &'static str> {
        let further = self.opt_in.rows().chunk_by(|a, b| (a.group, a.version) == (b.group, b.version));
        let further =
            further.map(|rows| rows[0]).filter(move |row| row.group == group).map(|row| row.version);
        let versions = || self.built_in.versions(group);
        versions().chain(further.filter(move |version| versions().all(|known| known != *version)))
    }

    /// Resources of one group and version, sorted by plural.
    pub fn resources_of(&self, group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
        let custom = self.custom_of(group).iter().copied().filter(move |row| row.version == version);
        let further = self.opt_in.rows().iter().copied();
        let further = further.filter(move |row| row.group == group && row.version == version);
        self.built_in.resources_of(group, version).chain(further).chain(custom)
    }

    /// Rows of storage versions, one for each storage prefix, built-in kinds first.
    pub fn stored(&self) -> impl Iterator<Item = &'static Resource> {
        self.built_in.stored().chain(self.by_root.values().copied())
    }

    /// Row of the storage version whose objects have keys below this prefix (without a trailing slash).
    #[must_use]
    pub fn stored_at(&self, root: &str) -> Option<&'static Resource> {
        self.built_in.at_root(root).or_else(|| self.by_root.get(root).copied())
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

#[cfg(test)]
mod tests {
    use super::super::CustomRow;
    use super::*;
    use crate::version::Minor;

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
        let kinds = Kinds::new(OptIn::default(), &rows, &rows[..1]);
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

    #[test]
    fn optional_kinds_are_served_only_if_chosen() {
        const MIGRATION: &str = "storagemigration.k8s.io";
        let rows = [row(MIGRATION, "v1", "widgets"), row(MIGRATION, "v1beta1", "storageversionmigrations")];
        let chosen =
            OptIn::apis(Minor::V36, ["certificates.k8s.io/v1beta1", "storagemigration.k8s.io/v1beta1"])
                .unwrap();
        let optional = chosen.rows().len();
        let (without, with) =
            (Kinds::new(OptIn::version(Minor::V36), &rows, &[]), Kinds::new(chosen, &rows, &[]));
        let find = |kinds: &Kinds| kinds.lookup(MIGRATION, "v1beta1", "storageversionmigrations").unwrap();
        assert!(find(&without).is_custom() && !find(&with).is_custom(), "the built-in kind wins");
        assert!(!without.is_built_in_group(MIGRATION) && with.is_built_in_group(MIGRATION));
        assert_eq!(with.groups().filter(|group| *group == MIGRATION).count(), 1);
        let bundles =
            |kinds: &Kinds| kinds.lookup_kind("certificates.k8s.io", "v1beta1", "ClusterTrustBundle");
        assert!(bundles(&without).is_none() && bundles(&with).is_some());
        assert_eq!(with.versions("certificates.k8s.io").collect::<Vec<_>>(), ["v1", "v1beta1"]);
        assert_eq!(without.versions("certificates.k8s.io").collect::<Vec<_>>(), ["v1"]);
        let plurals = with.resources_of("certificates.k8s.io", "v1beta1").map(|row| row.plural);
        assert_eq!(plurals.collect::<Vec<_>>(), ["clustertrustbundles"]);
        assert!(with.stored_at("/registry/clustertrustbundles").is_some());
        assert!(without.stored_at("/registry/clustertrustbundles").is_none());
        assert_eq!(with.stored().count(), without.stored().count() + optional);
    }

    #[test]
    fn two_versions_of_an_optional_kind_share_one_prefix() {
        let both = OptIn::apis(Minor::V37, ["certificates.k8s.io/v1beta1"]).unwrap();
        for opt_in in [OptIn::version(Minor::V37), both] {
            let kinds = Kinds::new(opt_in, &[], &[]);
            let stored = kinds.stored_at("/registry/clustertrustbundles").unwrap();
            assert_eq!((stored.version, stored.minor), ("v1beta1", Minor::V37));
            assert_eq!(kinds.stored().filter(|row| row.plural == "clustertrustbundles").count(), 1);
        }
        let kinds = Kinds::new(OptIn::version(Minor::V37), &[], &[]);
        assert!(kinds.lookup("certificates.k8s.io", "v1", "clustertrustbundles").is_some());
        assert!(kinds.lookup("certificates.k8s.io", "v1beta1", "clustertrustbundles").is_none());
        assert_eq!(kinds.groups().last(), Some("storagemigration.k8s.io"), "the lowest priority");
    }
}
