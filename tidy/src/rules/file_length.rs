//! No file is longer than a reader can keep in mind.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "file-length", summary: "a Rust file has at most 600 lines without its tests", check };

/// Largest number of lines of a source file, without its tests.
const LINES: usize = 600;

fn check(tree: &Tree) -> Vec<Offence> {
    let code = tree.sources().filter(|file| !file.is_test());
    code.filter_map(|file| {
        let lines = file.code().lines().count();
        let text = format!("{lines} lines, more than {LINES}: look for the noun that wants its own file");
        (lines > LINES).then(|| Offence::new(&file.path, LINES + 1, text))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_counts_code_and_not_tests() {
        let long = "x\n".repeat(LINES + 1);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n", "x\n".repeat(LINES));
        let files = [("a.rs", long.as_str()), ("b.rs", tested.as_str()), ("tests/c.rs", long.as_str())];
        let expected = ["a.rs:601: 601 lines, more than 600: look for the noun that wants its own file"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
