//! The Rust examples in a crate's README compile: they are documentation tests of the crate, or of `kstore-tests` where the crate has none.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "readme-examples",
    summary: "a README with a Rust block is included in its crate's documentation tests",
    check,
};

/// Fewest READMEs that the rule must recognize.
const FEWEST: usize = 11;

/// How a crate's root includes the README.
const INCLUDED: &str = "doc = include_str!(\"../README.md\")]";

/// What a manifest says of a crate without documentation tests.
const WITHOUT_TESTS: &str = "doctest = false";

/// Has the examples of crates without documentation tests.
const OTHERS_TESTS: &str = "tests/src/lib.rs";

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/README.md") else { continue };
        let (Some(line), Some(manifest)) = (example(file), tree.file(&format!("{folder}/Cargo.toml"))) else {
            continue;
        };
        count += 1;
        let mut needed = vec![(format!("{folder}/src/lib.rs"), INCLUDED.to_owned())];
        if manifest.lines().any(|(_, line)| line.trim() == WITHOUT_TESTS) {
            needed.push((OTHERS_TESTS.to_owned(), INCLUDED.replace("..", &format!("../../{folder}"))));
        }
        for (root, included) in needed {
            let is_included = |root: &File| root.lines().any(|(_, line)| line.trim().ends_with(&included));
            if !tree.file(&root).is_some_and(is_included) {
                let text = format!("the example is not compiled: {root} lacks `#[{included}`");
                offences.push(Offence::new(&file.path, line, text));
            }
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "READMEs with Rust blocks"));
    offences
}

/// Line of the first Rust block.
fn example(file: &File) -> Option<usize> {
    let mut lines = (1..).zip(file.text.lines());
    lines.find(|(_, line)| line.trim_start().starts_with("```rust")).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_is_not_compiled_is_found() {
        let (readme, root) =
            ("# A\n\n```rust\nfn a() {}\n```\n", "#![doc = include_str!(\"../README.md\")]\n");
        let files = [
            ("a/Cargo.toml", ""),
            ("a/README.md", readme),
            ("a/src/lib.rs", root),
            ("b/Cargo.toml", ""),
            ("b/README.md", readme),
            ("b/src/lib.rs", "// #![doc = include_str!(\"../README.md\")]\n"),
            ("c/README.md", readme),
            ("d/Cargo.toml", ""),
            ("d/README.md", "```sh\n```\n"),
            ("e/Cargo.toml", "[lib]\ndoctest = false\n"),
            ("e/README.md", readme),
            ("e/src/lib.rs", root),
            ("f/Cargo.toml", "[lib]\ndoctest = false\n"),
            ("f/README.md", readme),
            ("f/src/lib.rs", root),
            ("tests/src/lib.rs", "#[cfg(doctest)]\n#[doc = include_str!(\"../../e/README.md\")]\nmod e {}\n"),
        ];
        let texts = [
            "b/README.md:3: the example is not compiled: b/src/lib.rs lacks `#[doc = include_str!(\"../README.md\")]`",
            "f/README.md:3: the example is not compiled: tests/src/lib.rs lacks `#[doc = include_str!(\"../../f/README.md\")]`",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), texts);
    }
}
