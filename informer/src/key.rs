//! [`Key`]: namespace and name of an object within its kind. The kind is not part of it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object, in one shared string: a clone costs a reference count.
///
/// Displays as `namespace/name`, or `name` without a namespace. Keys sort like these strings, which is the
/// server's list order; the objects of a namespace are adjacent. Names contain no `/`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of `name` in `namespace`; `namespace` is empty for cluster-scoped objects.
    pub fn new(namespace: &str, name: &str) -> Self {
        match namespace {
            "" => Self(name.into()),
            _ => {
                let mut text = String::with_capacity(namespace.len() + 1 + name.len());
                text.push_str(namespace);
                text.push('/');
                text.push_str(name);
                Self(text.into())
            }
        }
    }

    /// The namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The key as `namespace/name`, or `name`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_returns_its_namespace_and_name() {
        for (namespace, name, text) in [("default", "web", "default/web"), ("", "node-1", "node-1")] {
            let key = Key::new(namespace, name);
            assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (namespace, name, text));
        }
    }

    #[test]
    fn keys_sort_as_the_server_lists() {
        assert!(Key::new("a-b", "x") < Key::new("a", "x"), "'-' comes before '/'");
        assert!(Key::new("a", "x") < Key::new("a", "y"));
    }
}
