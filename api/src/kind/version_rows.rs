//! [`VersionRows`]: the rows of the built-in kinds of one version of Kubernetes and set of feature gates, with look-ups. Those of the
//! default version and gates are the statics of [`super::table`]; others are copies that state both, made once in a process.

use super::row_index::RowIndex;
use super::{OPT_IN, RESOURCES};
use crate::gate::GateSet;
use crate::resource::{Resource, ResourceId};
use crate::version::Minor;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The built-in kinds of one version.
#[derive(Debug)]
pub(super) struct VersionRows {
    /// The kinds that each server of the version serves, in discovery order.
    pub(super) all: Vec<&'static Resource>,
    /// The kinds of [`RESOURCES`] that the version does not have, for components of the server's process, whose caches of them are
    /// empty: look-ups find these rows, and nothing lists them.
    absent: Vec<&'static Resource>,
    /// The optional kinds, each with the feature gate that it needs.
    pub(super) optional: Vec<(&'static Resource, &'static str)>,
    by_plural: RowIndex,
    by_kind: RowIndex,
    /// Rows of storage versions, by the prefix of their keys.
    by_root: BTreeMap<&'static str, &'static Resource>,
}

/// The rows of a version with its default gates.
pub(super) fn of(minor: Minor) -> &'static VersionRows {
    of_view(minor, GateSet::DEFAULT, false)
}

/// The rows of a version with these gates, whose server's data are its own, or those of newer versions, too.
pub(super) fn of_view(minor: Minor, gates: GateSet, has_newer: bool) -> &'static VersionRows {
    /// Those of other gates: a server has one set of them, from its command line.
    static CHANGED: Mutex<BTreeMap<(Minor, GateSet, bool), &'static VersionRows>> =
        Mutex::new(BTreeMap::new());
    static ALL: [[OnceLock<VersionRows>; 2]; Minor::ALL.len()] =
        [const { [const { OnceLock::new() }; 2] }; Minor::ALL.len()];
    if gates.is_default() {
        let rows = &ALL[minor as usize][usize::from(has_newer)];
        return rows.get_or_init(|| VersionRows::make(minor, gates, has_newer));
    }
    let mut changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner);
    let made = changed.entry((minor, gates, has_newer));
    made.or_insert_with(|| Box::leak(Box::new(VersionRows::make(minor, gates, has_newer))))
}

impl VersionRows {
    fn make(minor: Minor, gates: GateSet, has_newer: bool) -> Self {
        let row = |row: &'static Resource| -> &'static Resource {
            match minor == row.minor && gates == row.gates && !has_newer {
                true => row,
                false => Box::leak(Box::new(row.of_view(minor, gates, has_newer))),
            }
        };
        let optional = OPT_IN.iter().map(|kind| (row(&kind.row), kind.gate));
        let (all, absent): (Vec<&Resource>, Vec<&Resource>) =
            RESOURCES.iter().map(row).partition(|row| row.is_served());
        let known = || all.iter().chain(&absent).copied();
        let stored = known().filter(|row: &&Resource| row.is_stored() && row.storage_version.is_none());
        Self {
            optional: optional.filter(|(row, _)| row.is_served()).collect(),
            by_plural: RowIndex::new(known(), |row| row.plural),
            by_kind: RowIndex::new(known(), |row| row.kind),
            by_root: stored.filter_map(|row| Some((row.storage?, row))).collect(),
            all,
            absent,
        }
    }

    /// Row for the group, version and plural of a URL.
    pub(super) fn lookup(&self, group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
        self.by_plural.find(plural, group, version)
    }

    /// Row for the group, version and kind of an object.
    pub(super) fn lookup_kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static Resource> {
        self.by_kind.find(kind, group, version)
    }

    /// Row in whose version objects of another version are stored. It need not be served.
    pub(super) fn stored_as(&self, id: ResourceId) -> Option<&'static Resource> {
        let optional = || self.optional.iter().map(|(row, _)| *row).find(|row| row.id() == id);
        self.lookup(id.group, id.version, id.plural).or_else(optional)
    }

    /// Row for the prefix of a key.
    pub(super) fn at_root(&self, root: &str) -> Option<&'static Resource> {
        self.by_root.get(root).copied()
    }

    /// API groups in the order of client preference; the core group (empty) first.
    pub(super) fn groups(&'static self) -> impl Iterator<Item = &'static str> {
        self.all.chunk_by(|a, b| a.group == b.group).map(|rows| rows[0].group)
    }

    /// Versions of a group, preferred first.
    pub(super) fn versions(&'static self, group: &str) -> impl Iterator<Item = &'static str> {
        let versions = self.all.chunk_by(|a, b| (a.group, a.version) == (b.group, b.version));
        versions.map(|rows| rows[0]).filter(move |row| row.group == group).map(|row| row.version)
    }

    /// Resources of one group and version, sorted by plural.
    pub(super) fn resources_of(
        &'static self,
        group: &str,
        version: &str,
    ) -> impl Iterator<Item = &'static Resource> {
        self.all.iter().copied().filter(move |row| row.group == group && row.version == version)
    }

    /// Rows of storage versions, one for each storage prefix.
    pub(super) fn stored(&'static self) -> impl Iterator<Item = &'static Resource> {
        let known = self.all.iter().chain(&self.absent).copied();
        known.filter(|row| row.is_stored() && row.storage_version.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kinds, OptIn};
    use crate::schema::{self, Type};

    #[test]
    fn a_version_has_the_kinds_that_it_serves_by_default() {
        let plurals = |minor: Minor, group: &str| -> Vec<&str> {
            of(minor).all.iter().filter(|row| row.group == group).map(|row| row.plural).collect()
        };
        let devices = ["deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"];
        assert!(plurals(Minor::V33, "resource.k8s.io").is_empty());
        assert_eq!(plurals(Minor::V34, "resource.k8s.io"), devices);
        let classes = |minor| plurals(minor, "storage.k8s.io").contains(&"volumeattributesclasses");
        assert!(!classes(Minor::V33) && classes(Minor::V34));
        let policies = |minor: Minor| {
            plurals(minor, "admissionregistration.k8s.io")
                .iter()
                .filter(|plural| plural.contains("ingadmissionpolic"))
                .count()
        };
        assert_eq!(Minor::ALL.map(policies), [2, 2, 2, 4, 4]);
        assert_eq!(of(Minor::DEFAULT).all.len(), RESOURCES.len());
    }

    #[test]
    fn requests_for_a_kind_are_warned_from_the_version_on_that_deprecates_it() {
        let warnings = |minor| {
            let rows = of(minor);
            let every = rows.all.iter().chain(rows.optional.iter().map(|(row, _)| row));
            every.filter_map(|row| row.deprecation()).collect::<Vec<_>>()
        };
        let endpoints = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
        for minor in [Minor::V33, Minor::V34, Minor::V35, Minor::V36] {
            assert_eq!(warnings(minor), [endpoints], "{minor}");
        }
        let expected = [
            endpoints,
            "certificates.k8s.io/v1beta1 ClusterTrustBundle is deprecated in v1.37+, unavailable in v1.40+; use \
             certificates.k8s.io/v1 ClusterTrustBundle",
            "storagemigration.k8s.io/v1beta1 StorageVersionMigration is deprecated in v1.37+, unavailable in v1.40+; use \
             storagemigration.k8s.io/v1 StorageVersionMigration",
        ];
        assert_eq!(warnings(Minor::V37), expected);
    }

    #[test]
    fn rows_of_a_version_state_it_and_lead_to_rows_of_the_same_version() {
        for minor in Minor::ALL {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            let rows = of(minor);
            for row in rows.all.iter().chain(rows.optional.iter().map(|(row, _)| row)) {
                assert_eq!((row.minor, row.storage_row().minor), (minor, minor), "{}", row.plural);
                let of_minor = |group, version, kind| {
                    schema::of_minor(minor, group, version, kind).map(std::ptr::from_ref)
                };
                let ty = row.object_type().map(std::ptr::from_ref);
                assert!(
                    ty.is_some() && ty == of_minor(row.group, row.version, row.kind),
                    "{minor} {}",
                    row.plural
                );
                assert_eq!(row.object_type().map(Type::openapi_name).as_deref(), Some(row.schema));
                for sub in row.subresources {
                    let body = row.body_type(sub.name).map(std::ptr::from_ref);
                    assert_eq!(
                        body,
                        of_minor(sub.group, sub.version, sub.kind),
                        "{} {}",
                        row.plural,
                        sub.name
                    );
                }
            }
            for row in &rows.all {
                let found = kinds.lookup(row.group, row.version, row.plural).map(|row| row.minor);
                assert_eq!(found, Some(minor), "{}", row.plural);
                let by_kind = kinds.lookup_kind(row.group, row.version, row.kind);
                assert!(by_kind.is_some_and(|found| found.minor == minor), "{}", row.kind);
            }
        }
        let old = Kinds::new(OptIn::version(Minor::V33), &[], &[]);
        let claims = old.lookup("resource.k8s.io", "v1", "resourceclaims").unwrap();
        assert!(!claims.is_served() && claims.minor == Minor::V33, "only components find it");
        assert!(old.groups().all(|group| group != "resource.k8s.io"));
        assert!(old.stored_at("/registry/resourceclaims").is_some());
    }
}
