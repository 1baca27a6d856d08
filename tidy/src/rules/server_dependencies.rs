//! Schemas derived from Rust types are only for programs that define kinds: the server has none of that.

use super::Rule;
use crate::cargo;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "server-dependencies",
    summary: "the server depends on no derive macro and enables no feature for it",
    check,
};

const TREE: [&str; 4] = ["--package", "kstore-server", "--edges", "normal,features"];
const MANIFEST: &str = "server/Cargo.toml";

/// Words that no line of the server's tree may have.
const UNWANTED: [&str; 3] = ["kstore-derive", "schemars_derive", "kstore-client feature \"crd\""];

fn check(tree: &Tree) -> Vec<Offence> {
    cargo::tree(tree, &TREE).map_or_else(|failed| vec![failed], |output| unwanted(&output))
}

fn unwanted(output: &str) -> Vec<Offence> {
    let unwanted = UNWANTED.into_iter().filter(|unwanted| output.contains(unwanted));
    let mut offences: Vec<_> = unwanted
        .map(|unwanted| Offence::new(MANIFEST, 1, format!("the server depends on {unwanted}")))
        .collect();
    let clients = output.lines().filter(|line| cargo::name(line) == "kstore-client").count();
    offences.extend(Offence::if_fewer(clients, 1, "lines about kstore-client in the server's tree"));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_and_their_feature_are_found() {
        let output = "kstore-server v0.1.0\nkstore-client v0.1.0 (/x/client)\n";
        assert_eq!(unwanted(output), []);
        let with = format!("{output}kstore-client feature \"crd\"\nschemars_derive v1.0.0 (proc-macro)\n");
        let texts: Vec<_> = unwanted(&with).into_iter().map(|offence| offence.text).collect();
        let expected =
            ["the server depends on schemars_derive", "the server depends on kstore-client feature \"crd\""];
        assert_eq!(texts, expected);
        assert_eq!(unwanted("").len(), 1, "an empty tree proves nothing");
    }
}
