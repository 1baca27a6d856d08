//! This crate depends on nothing, not even for its tests, so that it builds within seconds.

use super::Rule;
use crate::manifest;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "tidy-dependencies", summary: "the crate of these rules depends on nothing", check };

const MANIFEST: &str = "tidy/Cargo.toml";

fn check(tree: &Tree) -> Vec<Offence> {
    match tree.expect(MANIFEST) {
        Ok(file) => {
            let dependencies = manifest::dependencies(&file.text).into_iter();
            dependencies
                .map(|(name, _, line)| Offence::new(MANIFEST, line, format!("tidy depends on {name}")))
                .collect()
        }
        Err(missing) => vec![missing],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_of_tests_is_found() {
        let text = "[package]\nname = \"kstore-tidy\"\n[dev-dependencies]\nproptest = \"1\"\n";
        assert_eq!(
            crate::rules::offences_of(RULE, [(MANIFEST, text)]),
            ["tidy/Cargo.toml:4: tidy depends on proptest"]
        );
    }
}
