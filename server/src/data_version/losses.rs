//! [`Losses`]: what a version of Kubernetes does not show of the objects in a storage.

use kstore_api::kind::{Kinds, OPT_IN, OptIn, RESOURCES};
use kstore_api::resource::Resource;
use kstore_api::stored;
use kstore_storage::storage::{ReadError, Storage, prefix_end};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Objects that are read at a time. A page of large ones is shorter.
const PAGE: i64 = 1_000;

/// Kinds and members that a text names; the others are counted.
const NAMED: usize = 12;

/// What a version does not show, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Objects of kinds that the version does not have or serve, by qualified plural.
    kinds: BTreeMap<String, u64>,
    /// Objects with a member that the version lacks, by the member's path and the qualified plural.
    members: BTreeMap<(String, String), u64>,
    /// Objects that are not stored as JSON, such as encrypted ones, whose members are unknown.
    unread: u64,
}

impl Losses {
    /// Reads all objects of built-in kinds.
    ///
    /// # Errors
    /// The storage cannot be read.
    pub(super) async fn count(storage: &dyn Storage, opt_in: &OptIn) -> Result<Self, ReadError> {
        let kinds = Kinds::new(opt_in.clone(), &[], &[]);
        let mut losses = Self { kinds: unserved(storage, opt_in).await?, ..Self::default() };
        for row in stored_kinds() {
            if let Some(served) = served(&kinds, row) {
                losses.add_members(storage, served).await?;
            }
        }
        Ok(losses)
    }

    async fn add_members(&mut self, storage: &dyn Storage, row: &Resource) -> Result<(), ReadError> {
        let prefix = row.storage_prefix("");
        let (mut start, end) = (prefix.clone(), prefix_end(&prefix));
        loop {
            let page = storage.list(&start, &end, PAGE, 0).await?;
            for object in &page.items {
                if !object.value.starts_with(b"{") {
                    self.unread += 1;
                    continue;
                }
                for member in stored::members_not_shown(row, &object.value) {
                    *self.members.entry((member, row.qualified())).or_default() += 1;
                }
            }
            let Some(last) = page.items.last().filter(|_| page.more) else { return Ok(()) };
            // The smallest key after the last one. Keys of other writers that are no text have no objects.
            let Ok(last) = std::str::from_utf8(&last.key) else { return Ok(()) };
            start = format!("{last}\0");
        }
    }
}

impl Losses {
    /// Whether nothing is lost, as far as it was examined.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether objects that the version shows have, or may have, members that it lacks.
    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty() || self.unread > 0
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds.iter().map(|(kind, objects)| format!("{objects} {kind}"));
        let members =
            self.members.iter().map(|((member, kind), objects)| format!("{member} of {objects} {kind}"));
        let mut parts: Vec<String> = kinds.chain(members).collect();
        let more = parts.len().saturating_sub(NAMED);
        parts.truncate(NAMED);
        if more > 0 {
            parts.push(format!("{more} more"));
        }
        if self.unread > 0 {
            parts.push(format!("{} objects that are not stored as JSON were not examined", self.unread));
        }
        match parts.is_empty() {
            true => f.write_str("nothing that is stored now"),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

/// The number of stored objects of each built-in kind that the version does not have, or that is not turned on, by qualified plural.
///
/// # Errors
/// The storage cannot be read.
pub(super) async fn unserved(
    storage: &dyn Storage,
    opt_in: &OptIn,
) -> Result<BTreeMap<String, u64>, ReadError> {
    let kinds = Kinds::new(opt_in.clone(), &[], &[]);
    let mut counts = BTreeMap::new();
    for row in stored_kinds().filter(|row| served(&kinds, row).is_none()) {
        let prefix = row.storage_prefix("");
        let page = storage.list(&prefix, &prefix_end(&prefix), 1, 0).await?;
        if let Ok(objects @ 1..) = u64::try_from(page.count) {
            counts.insert(row.qualified(), objects);
        }
    }
    Ok(counts)
}

/// The rows of all built-in kinds that any version stores, one for each prefix of keys.
fn stored_kinds() -> impl Iterator<Item = &'static Resource> {
    let rows = RESOURCES.iter().chain(OPT_IN.iter().map(|kind| &kind.row));
    // Kinds whose versions of the API differ by version of Kubernetes have several rows.
    let mut prefixes = BTreeSet::new();
    rows.filter(move |row| row.is_stored() && row.storage_version.is_none() && prefixes.insert(row.storage))
}

/// The row by which a server shows the objects of a kind; `None` if it does not.
fn served(kinds: &Kinds, row: &Resource) -> Option<&'static Resource> {
    kinds.stored_at(row.storage?).filter(|row| row.is_served())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::version::Minor;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    #[tokio::test]
    async fn objects_and_members_that_a_version_lacks_are_counted_by_kind() {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        let pod = |name: &str, spec: &str| {
            (
                format!("/registry/pods/default/{name}"),
                format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{spec}}}"#),
            )
        };
        let mut objects = vec![
            pod("a", r#"{"hostnameOverride":"a"}"#),
            pod("b", r#"{"hostnameOverride":"b","schedulingGroup":{}}"#),
            pod("c", "{}"),
            ("/registry/secrets/default/s".to_owned(), "k8s:enc:aescbc:v1:x".to_owned()),
            ("/registry/clustertrustbundles/t".to_owned(), "{}".to_owned()),
            ("/registry/example.com/lamps/default/l".to_owned(), r#"{"spec":{"watt":1}}"#.to_owned()),
        ];
        objects.extend((0..3).map(|n| (format!("/registry/volumeattributesclasses/c{n}"), "{}".to_owned())));
        for (key, value) in objects {
            store.put(key, value).await.unwrap();
        }
        let storage = Embedded::new(store);
        let counted =
            async |minor| Losses::count(&storage, &OptIn::version(minor)).await.unwrap().to_string();
        let unread = "1 objects that are not stored as JSON were not examined";
        assert_eq!(
            counted(Minor::V33).await,
            format!(
                "1 clustertrustbundles.certificates.k8s.io, 3 volumeattributesclasses.storage.k8s.io, \
                 spec.hostnameOverride of 2 pods, spec.schedulingGroup of 1 pods, {unread}"
            )
        );
        assert_eq!(
            counted(Minor::V34).await,
            format!("1 clustertrustbundles.certificates.k8s.io, spec.schedulingGroup of 1 pods, {unread}")
        );
        let bundles = BTreeMap::from([("clustertrustbundles.certificates.k8s.io".to_owned(), 1)]);
        assert_eq!(unserved(&storage, &OptIn::version(Minor::V36)).await.unwrap(), bundles);
        assert!(unserved(&storage, &OptIn::all()).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn more_objects_than_one_page_are_read() {
        let store = Store::open(Config::memory(), Nondet::real()).await.unwrap();
        let text = "x".repeat(1 << 20);
        for n in 0..6 {
            let pod = format!(
                r#"{{"metadata":{{"annotations":{{"a":"{text}"}}}},"spec":{{"hostnameOverride":"{n}"}}}}"#
            );
            store.put(format!("/registry/pods/default/p{n}"), pod).await.unwrap();
        }
        let storage = Embedded::new(store);
        let losses = Losses::count(&storage, &OptIn::version(Minor::V33)).await.unwrap();
        assert_eq!(losses.to_string(), "spec.hostnameOverride of 6 pods");
        let nothing = Losses::count(&storage, &OptIn::version(Minor::V36)).await.unwrap();
        assert_eq!(nothing.to_string(), "nothing that is stored now");
    }
}
