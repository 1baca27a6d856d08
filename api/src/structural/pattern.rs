//! Pattern of a schema: its text, and the regular expression, which is compiled at first use. Most schemas
//! are compiled long before an object uses them, and compiled expressions are far larger than their texts.

use std::fmt;
use std::sync::OnceLock;

use regex::Regex;

use super::re2;

/// Regular expression in Go's syntax, compiled at most once.
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.into(), compiled: OnceLock::new() }
    }

    /// Text of the pattern.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern occurs in a text; `None` if the pattern is malformed.
    #[must_use]
    pub fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| re2::compile(&self.text).ok());
        compiled.as_ref().map(|regex| regex.is_match(text))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
