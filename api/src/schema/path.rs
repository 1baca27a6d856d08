//! Where in a document we are, in the two spellings that Kubernetes uses.

use std::fmt::Write as _;

/// One step down.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A struct member.
    Field(&'static str),
    /// A map key, or a member that no table knows.
    Key(String),
    /// A list element.
    Index(usize),
}

/// The steps from the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    pub(crate) fn push(&mut self, step: Step) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    /// `spec.containers[0].name`, the form of strict-decoding problems; `last` is one more member.
    pub(crate) fn strict(&self, last: &str) -> String {
        let mut out = String::new();
        for step in &self.0 {
            match step {
                Step::Field(name) => member(&mut out, name),
                Step::Key(name) => member(&mut out, name),
                Step::Index(at) => write!(out, "[{at}]").expect("writing to a String succeeds"),
            }
        }
        member(&mut out, last);
        out
    }

    /// `spec.containers.name`, the form of type errors: struct members only.
    pub(crate) fn members(&self) -> String {
        let mut out = String::new();
        for step in &self.0 {
            if let Step::Field(name) = step {
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
