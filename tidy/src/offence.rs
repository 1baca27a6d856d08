//! One offence against a rule.

use std::panic::Location;

/// Where a rule is broken, and how. Sorted by file and line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offence {
    /// Path of the file, relative to the workspace's root.
    pub(crate) path: String,
    /// Number of the line, from 1; 1 also for what a whole file lacks.
    pub(crate) line: usize,
    /// What is wrong, and what to do if that is not obvious.
    pub(crate) text: String,
}

impl Offence {
    pub(crate) fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }

    /// A rule that found fewer than `fewest` things to judge: it no longer recognizes them, and would pass whatever
    /// they are. The place is the caller, since the rule is what must change.
    #[track_caller]
    pub(crate) fn if_fewer(found: usize, fewest: usize, what: &str) -> Option<Self> {
        let caller = Location::caller();
        let path = caller.file().replace('\\', "/");
        let text =
            format!("found {found} {what}, expected at least {fewest}: the rule does not recognize them");
        (found < fewest).then(|| Self { path, line: caller.line() as usize, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_finds_too_little_is_an_offence_of_the_rule() {
        assert_eq!(Offence::if_fewer(20, 20, "files"), None);
        let offence = Offence::if_fewer(19, 20, "files").unwrap();
        assert!(offence.path.ends_with("src/offence.rs"), "{}", offence.path);
        assert_eq!(offence.text, "found 19 files, expected at least 20: the rule does not recognize them");
    }
}
