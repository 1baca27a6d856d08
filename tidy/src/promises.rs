//! The documents that promise a property and name the tests of it.

use crate::offence::Offence;
use crate::text::quoted;
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

const DOCUMENTS: [&str; 6] = [
    "store/PROPERTIES.md",
    "informer/PROPERTIES.md",
    "apiserver/CONFORMANCE.md",
    "api/CONFORMANCE.md",
    "lab/PROPERTIES.md",
    "explore/PROPERTIES.md",
];

/// The documents of this tree, or an offence for one that is missing.
pub(crate) fn documents(tree: &Tree) -> impl Iterator<Item = Result<&File, Offence>> {
    DOCUMENTS.into_iter().map(|path| tree.expect(path))
}

/// The words in backquotes that look like test names: function names of several words.
pub(crate) fn tests(text: &str) -> impl Iterator<Item = &str> {
    let last = quoted(text).map(|name| name.rsplit("::").next().unwrap_or_default());
    last.filter(|name| {
        name.matches('_').count() > 2 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// The test names in a text, each with the file that precedes it as `….rs:`, if any.
pub(crate) fn tests_by_file(text: &str) -> Vec<(&str, &str)> {
    let mut file = "";
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        if let Some(path) = word.strip_suffix(':').filter(|path| path.ends_with(".rs")) {
            file = path;
        } else if word == "|" {
            file = "";
        } else if !file.is_empty() {
            found.extend(tests(word).map(|name| (file, name)));
        }
    }
    found
}

/// Named cases of tables in a text, with their file: `….yaml:` and then each case in quotes, up to the next
/// `;` or cell.
pub(crate) fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = text.split(['|', ';']).filter_map(|part| {
        let part = part.trim();
        let end = part.find(".yaml:")? + ".yaml".len();
        Some((&part[..end], &part[end..]))
    });
    parts.flat_map(|(file, cases)| cases.split('"').skip(1).step_by(2).map(move |case| (file, case)))
}

/// Every function of the Rust files: path of the file, name.
pub(crate) fn functions(tree: &Tree) -> BTreeSet<(&str, &str)> {
    let of =
        |file: &'_ File| -> Vec<usize> { file.text.match_indices("fn ").map(|(at, _)| at + 3).collect() };
    tree.sources()
        .flat_map(|file| {
            of(file).into_iter().filter_map(|at| {
                let rest = &file.text[at..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
                rest[end..].starts_with('(').then_some((file.path.as_str(), &rest[..end]))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_files_and_cases_are_found_in_prose() {
        let text = "| x | a/b.rs: `one_two_three_four`, `m::five_six_seven_eight` `short_name` | \
                    c/d.yaml: \"first case\", \"second\"; e.yaml: \"third\" | `nine_ten_eleven_twelve` |";
        let names: Vec<_> = tests(text).collect();
        assert_eq!(names, ["one_two_three_four", "five_six_seven_eight", "nine_ten_eleven_twelve"]);
        let placed = [("a/b.rs", "one_two_three_four"), ("a/b.rs", "five_six_seven_eight")];
        assert_eq!(tests_by_file(text), placed);
        let named: Vec<_> = cases(text).collect();
        assert_eq!(named, [("c/d.yaml", "first case"), ("c/d.yaml", "second"), ("e.yaml", "third")]);
    }

    #[test]
    fn functions_are_indexed_with_their_file() {
        let tree = Tree::of([("a.rs", "async fn one() {}\nfn two<T>() {}\n"), ("b.md", "fn three()")]);
        assert_eq!(functions(&tree).into_iter().collect::<Vec<_>>(), [("a.rs", "one")]);
    }
}
