//! [`RowIndex`]: rows by name, group and version, for the look-ups that each request makes several of.

use crate::resource::Resource;
use std::cmp::Ordering;

/// The name of a row, which is its plural or its kind, with its group and version.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key<'a> {
    name: &'a str,
    group: &'a str,
    version: &'a str,
}

// By length first: names of other lengths are told apart without reading them.
impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let lengths = self.name.len().cmp(&other.name.len());
        let names = || self.name.cmp(other.name);
        lengths.then_with(names).then_with(|| (self.group, self.version).cmp(&(other.group, other.version)))
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An immutable set of rows, each with a name, group and version that no other one has.
#[derive(Clone, Debug)]
pub(super) struct RowIndex {
    /// In the order of [`Key`].
    rows: Vec<&'static Resource>,
    name: fn(&Resource) -> &'static str,
}

impl RowIndex {
    /// The rows by the name that `name` says. Of rows with equal names, groups and versions the last one is kept.
    pub(super) fn new(
        rows: impl IntoIterator<Item = &'static Resource>,
        name: fn(&Resource) -> &'static str,
    ) -> Self {
        let mut index = Self { rows: rows.into_iter().collect(), name };
        index.rows.sort_by(|a, b| key(name, a).cmp(&key(name, b)));
        index.rows.dedup_by(|later, kept| {
            let are_equal = key(name, later) == key(name, kept);
            if are_equal {
                *kept = *later;
            }
            are_equal
        });
        index
    }

    /// The row with this name, group and version.
    pub(super) fn find(&self, name: &str, group: &str, version: &str) -> Option<&'static Resource> {
        let wanted = Key { name, group, version };
        let found = self.rows.binary_search_by(|row| key(self.name, row).cmp(&wanted)).ok()?;
        Some(self.rows[found])
    }
}

fn key(name: fn(&Resource) -> &'static str, row: &Resource) -> Key<'static> {
    Key { name: name(row), group: row.group, version: row.version }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind;

    #[test]
    fn each_row_is_found_by_its_names_and_by_no_others() {
        let rows: Vec<_> = kind::every().collect();
        let by_plural = RowIndex::new(rows.iter().copied(), |row| row.plural);
        let by_kind = RowIndex::new(rows.iter().copied(), |row| row.kind);
        for row in &rows {
            assert!(std::ptr::eq(by_plural.find(row.plural, row.group, row.version).unwrap(), *row));
            assert!(std::ptr::eq(by_kind.find(row.kind, row.group, row.version).unwrap(), *row));
            assert!(by_plural.find(row.plural, "example.com", row.version).is_none());
            assert!(by_plural.find(row.plural, row.group, "v0").is_none());
            assert!(by_plural.find(&row.plural[1..], row.group, row.version).is_none());
        }
    }

    #[test]
    fn the_last_of_equal_rows_is_kept() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let other: &'static Resource = Box::leak(Box::new(Resource { kind: "Other", ..*pods }));
        let index = RowIndex::new([pods, other], |row| row.plural);
        assert_eq!(index.find("pods", "", "v1").unwrap().kind, "Other");
        assert_eq!(index.rows.len(), 1);
    }
}
