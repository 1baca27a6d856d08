//! Keys under which objects are stored: the kind, namespace and name that a key has. Pure.

use kstore_api::kind::{Kinds, OptIn};
use kstore_api::resource::Resource;
use std::sync::LazyLock;

/// The prefix of all keys.
pub const ROOT: &str = "/registry/";

/// Prefix of the storage keys of CustomResourceDefinitions, without the final slash.
pub const DEFINITIONS_ROOT: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions";

/// The key of the version of Kubernetes with which all other keys are served. It is beside [`ROOT`], so that neither kstore nor a
/// kube-apiserver takes it for an object; snapshots of the storage carry it.
pub const DATA_VERSION: &str = "/registry-kstore/version";

/// The kind that a storage key belongs to, in its stored version. `None` for kinds that the version of Kubernetes does not have: a newer
/// one may have stored objects of them.
pub fn kind_of(kinds: &Kinds, key: &[u8]) -> Option<&'static Resource> {
    let key = std::str::from_utf8(key).ok()?;
    // A kind's root has one or two segments behind the common root; the longer one is the more specific.
    // Other writers' keys (etcd clients') may be anything.
    let slash = |from: usize| key.get(from..)?.find('/').map(|at| from + at);
    let first = slash(ROOT.len())?;
    let second = slash(first + 1).and_then(|second| kinds.stored_at(&key[..second]));
    second.or_else(|| kinds.stored_at(&key[..first])).filter(|row| row.is_served())
}

/// The built-in kind, optional or not, that a storage key belongs to, in its stored version.
pub fn built_in_of_key(key: &str) -> Option<&'static Resource> {
    static BUILT_IN: LazyLock<Kinds> = LazyLock::new(|| Kinds::new(OptIn::all(), &[], &[]));
    kind_of(&BUILT_IN, key.as_bytes())
}

/// Whether a storage key is that of a CustomResourceDefinition.
pub fn is_definition(key: &str) -> bool {
    key.strip_prefix(DEFINITIONS_ROOT).is_some_and(|rest| rest.starts_with('/'))
}

/// The parts of an object's storage key, parsed without knowledge of the custom kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlace<'k> {
    /// API group; empty for the core group.
    pub group: &'k str,
    /// Lower-case plural.
    pub plural: &'k str,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: &'k str,
    /// The name.
    pub name: &'k str,
}

impl<'k> KeyPlace<'k> {
    /// Whether the object is of this resource of this group; see [`Resource::is`].
    pub fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Parses a key. `None` if it belongs neither to a built-in kind nor has the form of a custom kind's key:
    /// group, plural, optional namespace, name.
    pub fn of(key: &'k str) -> Option<Self> {
        if let Some(row) = built_in_of_key(key) {
            let (namespace, name) = row.parse_key(key)?;
            return Some(Self { group: row.group, plural: row.plural, namespace, name });
        }
        let mut parts = key.strip_prefix(ROOT)?.splitn(4, '/');
        let (group, plural) = (parts.next().filter(|group| group.contains('.'))?, parts.next()?);
        let (namespace, name) = match (parts.next()?, parts.next()) {
            (namespace, Some(name)) => (namespace, name),
            (name, None) => ("", name),
        };
        Some(Self { group, plural, namespace, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::version::Minor;

    #[test]
    fn keys_of_other_writers_belong_to_no_kind_and_cause_no_panic() {
        let kinds = Kinds::default();
        let kind = |key: &[u8]| kind_of(&kinds, key).map(|resource| resource.plural);
        for foreign in [
            &b""[..],
            b"/t/foo",
            b"/registry",
            b"/registr\xc3\xa9/x",
            b"\xff\xfe",
            b"/registry/pods",
            b"/registry/x/y",
        ] {
            assert_eq!(kind(foreign), None, "{foreign:?}");
        }
        assert_eq!(kind(b"/registry/pods/default/a"), Some("pods"));
        assert_eq!(kind(b"/registry/services/specs/default/a"), Some("services"));
    }

    #[test]
    fn keys_of_kinds_that_the_version_lacks_belong_to_none() {
        let key = b"/registry/volumeattributesclasses/gold";
        let kind = |minor| {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            kind_of(&kinds, key).map(|row| row.plural)
        };
        assert_eq!([Minor::V33, Minor::V34].map(kind), [None, Some("volumeattributesclasses")]);
    }
}
