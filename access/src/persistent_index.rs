//! [`PersistentIndex`]: values by key that are also found by several terms each, as a persistent value. A
//! change costs time that does not depend on the number of other values.

use kstore_registry::persistent_map::{Keyed, PersistentMap};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Values by key and by term. Cheap to clone.
pub(crate) struct PersistentIndex<T> {
    values: PersistentMap<Indexed<T>>,
    terms: PersistentMap<Posting<T>>,
}

/// A value with its key and its terms.
struct Indexed<T> {
    key: Box<str>,
    terms: BTreeSet<Arc<str>>,
    value: T,
}

/// One term of a value.
struct Posting<T> {
    term: Arc<str>,
    of: Arc<Indexed<T>>,
}

impl<T> Keyed for Indexed<T> {
    fn key(&self) -> &str {
        &self.key
    }
}

impl<T> Keyed for Posting<T> {
    fn key(&self) -> &str {
        &self.term
    }
}

impl<T> Clone for PersistentIndex<T> {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), terms: self.terms.clone() }
    }
}

impl<T> Default for PersistentIndex<T> {
    fn default() -> Self {
        Self { values: PersistentMap::default(), terms: PersistentMap::default() }
    }
}

impl<T> fmt::Debug for PersistentIndex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentIndex").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<T> PersistentIndex<T> {
    /// Sets or removes the value of a key. No two values may have the same term.
    pub(crate) fn set(&mut self, key: &str, new: Option<(T, BTreeSet<Arc<str>>)>) {
        let new = new.map(|(value, terms)| Arc::new(Indexed { key: key.into(), terms, value }));
        let old = match &new {
            Some(new) => self.values.insert(new.clone()),
            None => self.values.remove(key),
        };
        for term in old.iter().flat_map(|old| &old.terms) {
            if new.as_ref().is_none_or(|new| !new.terms.contains(term)) {
                self.terms.remove(term);
            }
        }
        let Some(of) = new else { return };
        for term in &of.terms {
            self.terms.insert(Arc::new(Posting { term: term.clone(), of: of.clone() }));
        }
    }

    /// The values of terms that begin with `prefix`, in the order of their terms.
    pub(crate) fn at<'i>(&'i self, prefix: String) -> impl Iterator<Item = &'i T> + use<'i, T> {
        self.terms.with_prefix(prefix).map(|term| &term.of.value)
    }
}

/// A text with its length before it, so that texts in sequence are unambiguous whatever they contain.
pub(crate) fn delimited(text: &str) -> String {
    format!("{}:{text}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, proptest};
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn values_are_found_at_exactly_their_current_terms(
            steps in prop::collection::vec((0u8..20, prop::collection::btree_set(0u8..8, 0..4), any::<bool>()), 0..200),
        ) {
            let (mut index, mut model) = (PersistentIndex::default(), BTreeMap::new());
            let mut before = index.clone();
            for (step, (key, terms, is_set)) in steps.into_iter().enumerate() {
                before = index.clone();
                let terms: BTreeSet<Arc<str>> = terms.iter().map(|at| format!("{at}/{key}").into()).collect();
                let new = is_set.then(|| (step, terms.clone()));
                index.set(&key.to_string(), new);
                match is_set {
                    true => drop(model.insert(key, (step, terms))),
                    false => drop(model.remove(&key)),
                }
            }
            for at in 0..8 {
                let mut expected: Vec<(&Arc<str>, usize)> = model.values()
                    .flat_map(|(step, terms)| terms.iter().map(|term| (term, *step)))
                    .filter(|(term, _)| term.starts_with(&format!("{at}/"))).collect();
                expected.sort();
                let expected: Vec<usize> = expected.into_iter().map(|(_, step)| step).collect();
                assert_eq!(index.at(format!("{at}/")).copied().collect::<Vec<_>>(), expected);
            }
            assert!(before.values.len().abs_diff(index.values.len()) <= 1, "a clone does not change");
        }
    }
}
