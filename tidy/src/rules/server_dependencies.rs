//! Schemas derived from Rust types are only for programs that define kinds: the server has none of that. What its API serves comes
//! from the field table, so `api` does not need the generated types of clients, either.

use super::Rule;
use crate::cargo;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "server-dependencies",
    summary: "the server depends on no schemas of Rust types, and `api` on no types of clients",
    check,
};

/// A crate whose tree of dependencies has limits.
struct Limited {
    arguments: [&'static str; 4],
    manifest: &'static str,
    /// Words that no line of the tree may have.
    unwanted: &'static [&'static str],
    /// Crate that the tree has, or it was not read.
    expected: &'static str,
}

const LIMITED: [Limited; 2] = [
    Limited {
        arguments: ["--package", "kstore-server", "--edges", "normal,features"],
        manifest: "server/Cargo.toml",
        unwanted: &["kstore-derive", "schemars", "kstore-client feature \"crd\""],
        expected: "kstore-client",
    },
    Limited {
        arguments: ["--package", "kstore-api", "--edges", "normal,dev"],
        manifest: "api/Cargo.toml",
        unwanted: &["k8s-openapi", "schemars"],
        expected: "kstore-cel",
    },
];

fn check(tree: &Tree) -> Vec<Offence> {
    let of = |limited: &Limited| match cargo::tree(tree, &limited.arguments) {
        Ok(output) => unwanted(limited, &output),
        Err(failed) => vec![failed],
    };
    LIMITED.iter().flat_map(of).collect()
}

fn unwanted(limited: &Limited, output: &str) -> Vec<Offence> {
    let Limited { manifest, expected, .. } = limited;
    let unwanted = limited.unwanted.iter().filter(|unwanted| output.contains(**unwanted));
    let mut offences: Vec<_> =
        unwanted.map(|unwanted| Offence::new(manifest, 1, format!("depends on {unwanted}"))).collect();
    let lines = output.lines().filter(|line| cargo::name(line) == *expected).count();
    offences.extend(Offence::if_fewer(
        lines,
        1,
        &format!("lines about {expected} in the tree of {manifest}"),
    ));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_schemas_and_the_feature_for_them_are_found() {
        let [server, api] = LIMITED;
        let output = "kstore-server v0.1.0\nkstore-client v0.1.0 (/x/client)\n";
        assert_eq!(unwanted(&server, output), []);
        let with = format!("{output}kstore-client feature \"crd\"\nschemars_derive v1.0.0 (proc-macro)\n");
        let texts: Vec<_> = unwanted(&server, &with).into_iter().map(|offence| offence.text).collect();
        assert_eq!(texts, ["depends on schemars", "depends on kstore-client feature \"crd\""]);
        assert_eq!(unwanted(&server, "").len(), 1, "an empty tree proves nothing");
        assert_eq!(unwanted(&api, "kstore-cel v0.1.0\nk8s-openapi v0.29.0\n").len(), 1);
    }
}
