//! Every file begins with a module comment, so that a reader who lands in it learns what it is.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "module-comment", summary: "a Rust file opens with `//! `", check };

fn check(tree: &Tree) -> Vec<Offence> {
    let silent = tree.sources().filter(|file| !file.text.starts_with("//! "));
    silent.map(|file| Offence::new(&file.path, 1, "the file does not open with `//! `")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_comment_is_found() {
        let files = [("a.rs", "//! A.\n"), ("b.rs", "use std;\n"), ("c.rs", ""), ("d.md", "")];
        let expected =
            ["b.rs:1: the file does not open with `//! `", "c.rs:1: the file does not open with `//! `"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
