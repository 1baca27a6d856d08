//! Every function that a table of a page names is in a file that its row names.

use super::Rule;
use crate::offence::Offence;
use crate::text::{line_of, quoted};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "cited-functions",
    summary: "a function that a row of a table names is in a file that the row names",
    check,
};

/// The pages whose tables have a column of files and one of functions.
const PAGES: [&str; 2] = ["docs/finding.md", "docs/path-of-a-write.md"];

/// Fewest names that the rule must recognize.
const FEWEST: usize = 70;

/// Words before the name of an item where it is defined.
const DEFINITIONS: [&str; 6] = ["fn", "const", "static", "struct", "enum", "trait"];

fn check(tree: &Tree) -> Vec<Offence> {
    let mut count = 0;
    let mut offences = Vec::new();
    for page in tree.files.iter().filter(|file| PAGES.contains(&file.path.as_str())) {
        for row in page.text.lines().filter(|line| line.starts_with('|')) {
            let words: Vec<&str> = quoted(row).collect();
            // A file that does not exist is an offence against `cited-files`.
            let files: Vec<_> =
                tree.files.iter().filter(|file| words.contains(&file.path.as_str())).collect();
            for name in words.iter().filter_map(|word| identifier(word)).filter(|_| !files.is_empty()) {
                count += 1;
                if !files.iter().any(|file| defines(&file.text, name)) {
                    let line = line_of(&page.text, row);
                    offences.push(Offence::new(
                        &page.path,
                        line,
                        format!("no file of the row defines {name}"),
                    ));
                }
            }
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "functions in tables"));
    offences
}

/// The last part of a path such as `Cluster::kube`; `None` if the word is no name of Rust.
fn identifier(word: &str) -> Option<&str> {
    let name = word.rsplit("::").next()?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then_some(name)
}

fn defines(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end();
        text[..at].ends_with(' ')
            && DEFINITIONS.iter().any(|word| before.split_whitespace().next_back() == Some(word))
            && ends(&text[at + name.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_its_file_does_not_define_is_found() {
        let source = "pub async fn accept() {}\nfn acceptor() { accept() }\nconst ROWS: u8 = 1;\n";
        let page = "| 1 | `accept` | `a/x.rs` | it |\n| 2 | `serve`, `ROWS` | `a/x.rs` | it |\n| 3 | `accep` | `a/x.rs` |\n";
        let files = [("a/x.rs", source), ("docs/path-of-a-write.md", page)];
        let expected = [
            "docs/path-of-a-write.md:2: no file of the row defines serve",
            "docs/path-of-a-write.md:3: no file of the row defines accep",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
