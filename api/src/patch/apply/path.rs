//! The path of a walk: a chain of borrowed steps on the stack. Text is made only where a path is shown: made for each value that is
//! walked, it would copy a long key as often as there are values below it.

use std::fmt;

use crate::limits::ERROR_BYTES_MAX;
use crate::schema::limits::MAX_FIELD_PROBLEMS;

/// A place in an object, as messages show it: `.spec.containers[name="c"].ports[0]`.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    /// A member, by its name.
    Name(&'a str),
    /// An element of a list by its keys or its value, as it is shown.
    Element(&'a str),
    /// An element of a list by its place.
    Index(usize),
}

impl<'a> Path<'a> {
    /// The object itself.
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: Step::Element("") };

    pub(super) const fn member<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    pub(super) const fn element<'b>(&'b self, shown: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Element(shown) }
    }

    pub(super) const fn index(&self, at: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(at) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Name(name) => write!(f, ".{name}"),
            Step::Element(shown) => f.write_str(shown),
            Step::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// What is wrong with a configuration, with its places; bounded as the errors of an object are.
#[derive(Debug, Default)]
pub(super) struct Problems {
    texts: Vec<String>,
    bytes: usize,
}

impl Problems {
    /// Whether further problems are dropped, so that looking for them is in vain.
    pub(super) fn is_full(&self) -> bool {
        self.texts.len() >= MAX_FIELD_PROBLEMS || self.bytes >= ERROR_BYTES_MAX
    }

    /// Adds a problem; its text is made only if there is room for it.
    pub(super) fn push(&mut self, text: fmt::Arguments<'_>) {
        if !self.is_full() {
            let text = text.to_string();
            self.bytes += text.len();
            self.texts.push(text);
        }
    }

    /// The problems in the order found.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}
