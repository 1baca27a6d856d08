//! [`CandidateIndex`]: finds the webhooks or policies that may match a request by one look-up of its resource.

use std::collections::BTreeMap;

use super::attributes::Operation;
use super::rule::Operations;
use super::selection::Selection;

/// Indexes into a list of webhooks or policies, ascending, and the operations that any of them asks for.
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

/// The candidates by the plural of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct CandidateIndex {
    /// Those with a rule for every resource.
    any: Candidates,
    /// Those with a rule for one plural, and those with a rule for every resource. Equivalent resources share their plural.
    by_plural: BTreeMap<Box<str>, Candidates>,
}

impl CandidateIndex {
    /// The index of a list.
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

    /// Indexes of those that may match.
    pub(super) fn find(&self, operation: Operation, plural: &str) -> &[usize] {
        let candidates = self.by_plural.get(plural).unwrap_or(&self.any);
        if candidates.operations.contains(operation) { &candidates.indexes } else { &[] }
    }
}
