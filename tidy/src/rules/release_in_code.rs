//! Code names the Kubernetes release and the default version in one place: a literal elsewhere would be left behind by an upgrade.

use super::Rule;
use crate::offence::Offence;
use crate::release;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "release-in-code",
    summary: "code takes the Kubernetes release and the default version from `kstore_api::version`",
    check,
};

fn check(tree: &Tree) -> Vec<Offence> {
    let release = match release::of(tree) {
        // The default version alone: other programs have releases of this number, too.
        Ok(release) => [release.release, format!("\"{}\"", release.default)],
        Err(offence) => return vec![offence],
    };
    let names_one = |line: &str| release.iter().any(|release| line.contains(release));
    let others = tree.sources().filter(|file| !file.is_test() && file.path != release::PATH);
    others.flat_map(|file| file.wrong_lines(names_one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "macro_rules! kubernetes_release {\n() => { \"1.7\" };\n}\n\
                           macro_rules! kubernetes_default {\n() => { \"1.8\" };\n}\npub const MINOR: u64 = 7;\n\
                           pub const PROGRAMS: &str = concat!(\"v\", kubernetes_release!(), \".2\");\n";

    #[test]
    fn the_release_is_found_outside_of_its_file() {
        let text = "// 1.7\nlet version = \"v1.7.2\";\nlet default = \"1.8\";\n";
        let files = [(release::PATH, VERSION), ("a/src/lib.rs", text), ("tests/a.rs", text)];
        let offences = crate::rules::offences_of(RULE, files);
        assert_eq!(
            offences,
            ["a/src/lib.rs:2: let version = \"v1.7.2\";", "a/src/lib.rs:3: let default = \"1.8\";"]
        );
    }

    #[test]
    fn a_release_that_cannot_be_read_is_an_offence() {
        let offences = crate::rules::offences_of(RULE, [(release::PATH, "")]);
        assert_eq!(offences, ["api/src/version.rs:1: cannot find the macro `kubernetes_release`"]);
    }
}
