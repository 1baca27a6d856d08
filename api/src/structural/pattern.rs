//! Pattern of a schema: its text, and the regular expression, which is compiled at first use. Most schemas
//! are compiled long before an object uses them, and compiled expressions are far larger than their texts. Patterns of one text share
//! the expression: each write of a definition makes its schemas anew, and most keep their patterns.

use super::re2;
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// Regular expression in Go's syntax, compiled at most once.
pub struct Pattern {
    text: Arc<str>,
    compiled: Arc<OnceLock<Option<Regex>>>,
}

/// Expressions of the patterns in use, by their text.
#[derive(Default)]
struct Shared {
    by_text: BTreeMap<Arc<str>, Weak<OnceLock<Option<Regex>>>>,
    /// Number of texts at which those without a pattern are removed.
    full: usize,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { by_text: BTreeMap::new(), full: 0 });

impl Shared {
    fn get(&mut self, text: &str) -> Pattern {
        let known = self.by_text.get_key_value(text);
        if let Some((text, compiled)) = known.and_then(|(text, weak)| Some((text.clone(), weak.upgrade()?))) {
            return Pattern { text, compiled };
        }
        if self.by_text.len() >= self.full {
            self.by_text.retain(|_, weak| weak.strong_count() > 0);
            // Twice as many, so that the removal takes constant time for each new text on average.
            self.full = 2 * self.by_text.len() + 64;
        }
        let (text, compiled) = (Arc::<str>::from(text), Arc::default());
        self.by_text.insert(text.clone(), Arc::downgrade(&compiled));
        Pattern { text, compiled }
    }
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        SHARED.lock().unwrap_or_else(PoisonError::into_inner).get(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_one_text_share_the_compiled_expression() {
        let (first, second) = (Pattern::new("^shared[0-9]$"), Pattern::new("^shared[0-9]$"));
        assert!(second.compiled.get().is_none());
        assert_eq!(first.matches("shared1"), Some(true));
        assert!(second.compiled.get().is_some() && Arc::ptr_eq(&first.compiled, &second.compiled));
    }

    #[test]
    fn texts_without_a_pattern_are_forgotten() {
        let mut shared = Shared::default();
        let kept = shared.get("kept");
        for number in 0..10_000 {
            drop(shared.get(&format!("gone{number}")));
        }
        assert!(shared.by_text.len() <= 70, "{}", shared.by_text.len());
        assert!(Arc::ptr_eq(&kept.compiled, &shared.get("kept").compiled));
    }
}
