//! Nothing unfinished is merged.

use super::Rule;
use crate::offence::Offence;
use crate::text::line_of;
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "unfinished-work", summary: "no ignored tests, no notes to self", check };

/// What marks unfinished work; in two parts each, since the rule reads this file, too.
const MARKS: [&str; 3] = [concat!("#[", "ignore"), concat!("FIX", "ME"), concat!("XX", "X")];

fn check(tree: &Tree) -> Vec<Offence> {
    let marked = tree.sources().flat_map(|file| {
        let marks = MARKS.into_iter().flat_map(|mark| file.text.match_indices(mark));
        marks.map(|(_, mark)| Offence::new(&file.path, line_of(&file.text, mark), mark))
    });
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_found_with_its_line() {
        let text = format!("fn a() {{}}\n// {}\n{} = \"slow\"]\n", MARKS[1], MARKS[0]);
        let expected = [format!("a.rs:3: {}", MARKS[0]), format!("a.rs:2: {}", MARKS[1])];
        assert_eq!(crate::rules::offences_of(RULE, [("a.rs", text.as_str())]), expected);
    }
}
