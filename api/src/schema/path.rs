//! Path of the current value in a document, in the two spellings that Kubernetes uses.

use std::fmt::Write as _;

/// One element of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathStep {
    /// A struct member.
    Field(&'static str),
    /// A map key, or a member that the table does not know.
    Key(String),
    /// A list element.
    Index(usize),
}

/// Path elements from the root to the current value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Vec<PathStep>);

impl Path {
    pub(crate) fn push(&mut self, step: PathStep) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    /// The path as strict-decoding problems spell it, e.g. `spec.containers[0].name`; `last` is one more
    /// member.
    pub(crate) fn strict(&self, last: &str) -> String {
        let mut out = String::new();
        for step in &self.0 {
            match step {
                PathStep::Field(name) => member(&mut out, name),
                PathStep::Key(name) => member(&mut out, name),
                PathStep::Index(at) => write!(out, "[{at}]").expect("writing to a String succeeds"),
            }
        }
        member(&mut out, last);
        out
    }

    /// The path as type errors spell it, e.g. `spec.containers.name`: struct members only.
    pub(crate) fn members(&self) -> String {
        let mut out = String::new();
        for step in &self.0 {
            if let PathStep::Field(name) = step {
                member(&mut out, name);
            }
        }
        out
    }
}

fn member(out: &mut String, name: &str) {
    if !out.is_empty() && !name.is_empty() {
        out.push('.');
    }
    out.push_str(name);
}
