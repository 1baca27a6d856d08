//! Paths of a walk, as a chain of borrowed elements on the stack. The text of a path is built only for
//! messages. Building it for each visited value would copy a long key as often as there are values below it.

use crate::limits::ERROR_BYTES_MAX;
use crate::schema::limits::MAX_FIELD_PROBLEMS;
use std::fmt;

/// Path of a value, formatted as in messages: `.spec.containers[name="c"].ports[0]`.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    /// Member, by its name.
    Name(&'a str),
    /// List element, by the text of its keys or its value.
    Element(&'a str),
    /// List element, by its index.
    Index(usize),
}

impl<'a> Path<'a> {
    /// Path of the object itself.
    pub(super) const ROOT: Path<'static> = Path { parent: None, step: PathStep::Element("") };

    pub(super) const fn member<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: PathStep::Name(name) }
    }

    pub(super) const fn element<'b>(&'b self, shown: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: PathStep::Element(shown) }
    }

    pub(super) const fn index(&self, at: usize) -> Path<'_> {
        Path { parent: Some(self), step: PathStep::Index(at) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            PathStep::Name(name) => write!(f, ".{name}"),
            PathStep::Element(shown) => f.write_str(shown),
            PathStep::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// Type errors of a configuration, bounded like the validation errors of an object.
#[derive(Debug, Default)]
pub(super) struct Problems {
    texts: Vec<String>,
    bytes: usize,
}

impl Problems {
    /// Whether further problems are dropped, so that a walk can stop.
    pub(super) fn is_full(&self) -> bool {
        self.texts.len() >= MAX_FIELD_PROBLEMS || self.bytes >= ERROR_BYTES_MAX
    }

    /// Adds a problem. Its text is built only if it will be kept.
    pub(super) fn push(&mut self, text: fmt::Arguments<'_>) {
        if !self.is_full() {
            let text = text.to_string();
            self.bytes += text.len();
            self.texts.push(text);
        }
    }

    /// The problems in the order they were found.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.texts
    }
}
