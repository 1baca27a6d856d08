//! Every crate that is published has what its package needs: a licence, and what registries show of it. Packages are made by
//! `.ci/run all` alone, long after a crate without them has landed.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "published-crates",
    summary: "a crate that is published has a README, a licence, and what registries show of it",
    check,
};

/// Beginnings of the lines that the manifest of a published crate has. `packaging/check` looks for the same in packages.
const LINES: [&str; 7] = [
    "description = ",
    "version.",
    "license.",
    "rust-version.",
    "keywords = ",
    "categories = ",
    "[package.metadata.docs.rs]",
];

/// Files of a published crate. The licence is a link to the workspace's.
const FILES: [&str; 2] = ["README.md", "LICENSE"];

fn check(tree: &Tree) -> Vec<Offence> {
    let crates = tree.files.iter().filter_map(|file| Some((file, file.path.strip_suffix("/Cargo.toml")?)));
    let published = crates.filter(|(file, _)| !file.text.lines().any(|line| line == "publish = false"));
    let missing = published.flat_map(|(file, folder)| {
        let has = |start: &&str| file.text.lines().any(|line| line.starts_with(*start));
        let lines = LINES
            .iter()
            .filter(move |start| !has(start))
            .map(|start| start.trim_end_matches([' ', '=', '.']));
        let files =
            FILES.iter().copied().filter(move |name| tree.file(&format!("{folder}/{name}")).is_none());
        let all: Vec<&str> = lines.chain(files).collect();
        all.into_iter().map(|what| Offence::new(&file.path, 1, format!("a published crate has no {what}")))
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETE: &str = "[package]\nname = \"kstore-a\"\ndescription = \"A\"\nversion.workspace = true\n\
                            rust-version.workspace = true\nlicense.workspace = true\nkeywords = [\"a\"]\n\
                            categories = [\"b\"]\n\n[package.metadata.docs.rs]\n";

    #[test]
    fn a_published_crate_without_a_licence_or_a_category_is_found() {
        let incomplete = COMPLETE.replace("categories", "# categories");
        let files = [
            ("a/Cargo.toml", COMPLETE),
            ("a/README.md", "# A\n"),
            ("a/LICENSE", ""),
            ("b/Cargo.toml", incomplete.as_str()),
            ("b/README.md", "# B\n"),
            ("tests/Cargo.toml", "[package]\nname = \"kstore-tests\"\npublish = false\n"),
        ];
        let expected = [
            "b/Cargo.toml:1: a published crate has no categories",
            "b/Cargo.toml:1: a published crate has no LICENSE",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
