//! The Rust examples in a crate's README compile: they are documentation tests of the crate.

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

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/README.md") else { continue };
        let (Some(line), true) = (example(file), tree.file(&format!("{folder}/Cargo.toml")).is_some()) else {
            continue;
        };
        count += 1;
        let root = format!("{folder}/src/lib.rs");
        let is_included = |root: &File| root.lines().any(|(_, line)| line.trim().ends_with(INCLUDED));
        if !tree.file(&root).is_some_and(is_included) {
            let text = format!("the example is not compiled: {root} lacks `#[{INCLUDED}`");
            offences.push(Offence::new(&file.path, line, text));
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
        ];
        let text = "b/README.md:3: the example is not compiled: b/src/lib.rs lacks \
                    `#[doc = include_str!(\"../README.md\")]`";
        assert_eq!(crate::rules::offences_of(RULE, files), [text]);
    }
}
