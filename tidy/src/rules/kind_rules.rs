//! What depends on a kind is in the kind's `KindRules`: a table of kinds beside them would be one more place that a
//! new kind has to touch.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "kind-rules", summary: "`resource.rules` has what depends on the kind", check };

/// How code compares the names of kinds.
const BY_NAME: [&str; 3] =
    ["(resource.group, resource.kind", "(resource.group, resource.plural", "match resource.kind"];

fn check(tree: &Tree) -> Vec<Offence> {
    let code = tree.sources().filter(|file| !file.is_test() && file.path.starts_with("api/src/"));
    code.flat_map(|file| file.wrong_lines(|line| BY_NAME.iter().any(|names| line.contains(names)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_on_the_name_of_a_kind_is_found() {
        let text = "//! A.\nmatch resource.kind {\n";
        let files = [("api/src/a.rs", text), ("store/src/a.rs", text), ("api/src/tests.rs", text)];
        assert_eq!(crate::rules::offences_of(RULE, files), ["api/src/a.rs:2: match resource.kind {"]);
    }
}
