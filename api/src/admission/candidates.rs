//! [`CandidateIndex`]: finds the webhooks or policies that may match a request with one look-up by resource.

use super::attributes::Operation;
use super::rule::Operations;
use super::selection::Selection;
use std::collections::BTreeMap;

/// Ascending indexes into a list of webhooks or policies, and the operations that any of them names.
#[derive(Clone, Debug, Default)]
struct Candidates {
    operations: Operations,
    indexes: Vec<usize>,
}

impl Candidates {
    fn add(&mut self, index: usize, operations: Operations) {
        self.operations = self.operations.union(operations);
        if self.indexes.last() != Some(&index) {
            self.indexes.push(index);
        }
    }
}

/// Candidates by the plural of the request's resource.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateIndex {
    /// Candidates with a rule for every resource.
    any: Candidates,
    /// Candidates with a rule for this plural or for every resource. Equivalent resources have the same
    /// plural.
    by_plural: BTreeMap<Box<str>, Candidates>,
}

impl CandidateIndex {
    /// Builds the index of a list.
    pub(super) fn of<'s>(selections: impl IntoIterator<Item = &'s Selection>) -> Self {
        let mut index = Self::default();
        for (at, selection) in selections.into_iter().enumerate() {
            index.add(at, selection);
        }
        index
    }

    fn add(&mut self, at: usize, selection: &Selection) {
        for rule in selection.rules() {
            let operations = rule.operations();
            for pattern in rule.resources() {
                let Some(plural) = pattern.plural() else {
                    self.any.add(at, operations);
                    self.by_plural.values_mut().for_each(|candidates| candidates.add(at, operations));
                    continue;
                };
                let any = &self.any;
                self.by_plural.entry(plural.into()).or_insert_with(|| any.clone()).add(at, operations);
            }
        }
    }

    /// Indexes of the candidates that may match.
    pub(super) fn find(&self, operation: Operation, plural: &str) -> &[usize] {
        let candidates = self.by_plural.get(plural).unwrap_or(&self.any);
        if candidates.operations.contains(operation) { &candidates.indexes } else { &[] }
    }
}
