//! `select!` tries its branches in order: a random order would make equal seeds give unequal histories.

use super::Rule;
use crate::offence::Offence;
use crate::text::line_of;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "biased-select", summary: "`select!` is `biased;`: its order is not random", check };

/// The macro's call; in two parts, since the rule reads this file, too.
const CALL: &str = concat!("select!", " {");

fn check(tree: &Tree) -> Vec<Offence> {
    let random = tree.sources().flat_map(|file| {
        let calls = file.text.match_indices(CALL);
        let random =
            calls.filter(|(at, _)| !file.text[at + CALL.len()..].trim_start().starts_with("biased;"));
        random.map(|(_, call)| {
            Offence::new(
                &file.path,
                line_of(&file.text, call),
                "`select!` without `biased;`: its order is random",
            )
        })
    });
    random.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_select_is_found_beside_a_biased_one() {
        let text = format!("{CALL}\n    biased;\n}}\n{CALL}\n    a = b => {{}}\n}}\n");
        let expected = ["a.rs:4: `select!` without `biased;`: its order is random"];
        assert_eq!(crate::rules::offences_of(RULE, [("a.rs", text.as_str())]), expected);
    }
}
