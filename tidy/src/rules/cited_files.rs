//! Every file that a document or a comment cites exists.

use super::Rule;
use crate::offence::Offence;
use crate::text::{line_of, quoted};
use crate::tree::Tree;
use std::collections::BTreeSet;
use std::path::Path;

pub(super) const RULE: Rule =
    Rule { name: "cited-files", summary: "a file that a document or a comment cites exists", check };

/// Fewest citations that the rule must recognize.
const FEWEST: usize = 101;

/// Extensions of files that are cited.
const EXTENSIONS: [&str; 10] = ["json", "md", "proto", "py", "rs", "sh", "tbl", "toml", "txt", "yaml"];

fn check(tree: &Tree) -> Vec<Offence> {
    // The ends of all paths, of whole parts: a citation may leave out the first folders.
    let ends: BTreeSet<&str> = tree.files.iter().flat_map(|file| ends(&file.path)).collect();
    let mut count = 0;
    let mut offences = Vec::new();
    for file in &tree.files {
        // Past changes in the changelog name files of their time.
        let Some(prose) = prose(&file.path, &file.text).filter(|_| file.path != "CHANGELOG.md") else {
            continue;
        };
        for word in cited(&prose) {
            count += 1;
            let end = word.trim_start_matches("../").trim_start_matches("./").trim_start_matches('/');
            if !ends.contains(end) {
                offences.push(Offence::new(
                    &file.path,
                    line_of(&prose, word),
                    format!("there is no file {word}"),
                ));
            }
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "citations of files"));
    offences
}

/// A path and its ends: `a/b/c`, `b/c`, `c`.
fn ends(path: &str) -> impl Iterator<Item = &str> {
    let below = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(below)
}

/// The words of a text that name a file of this tree: in backquotes, with a folder, or a document.
fn cited(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let quoted = quoted(text).filter(move |word| word.chars().all(is_path));
    let words = text.split(move |c: char| !is_path(c)).map(|word| word.trim_end_matches('.'));
    let plain = words.filter(move |word| word.contains('/') || word.ends_with(".md"));
    let extension =
        |word: &str| Path::new(word).extension().map(|found| found.to_string_lossy().into_owned());
    quoted
        .chain(plain)
        .filter(move |word| extension(word).is_some_and(|found| EXTENSIONS.contains(&found.as_str())))
}

/// The parts of a file that people read: a document without its blocks of commands and output, whose files are the
/// reader's, and the comments of other files. Other lines are empty, so that the numbers of lines stay.
fn prose(path: &str, text: &str) -> Option<String> {
    let comment = match path.rsplit_once('.')?.1 {
        "md" => return Some(without_blocks(text)),
        "rs" | "proto" => "//",
        "toml" | "tbl" => "#",
        _ => return None,
    };
    let shown = |line| if str::trim_start(line).starts_with(comment) { line } else { "" };
    Some(text.lines().map(|line| format!("{}\n", shown(line))).collect())
}

/// A document with empty lines in place of its fenced blocks.
fn without_blocks(text: &str) -> String {
    let mut is_block = false;
    let mut shown = |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        if is_block || is_fence { "\n".to_owned() } else { format!("{line}\n") }
    };
    text.lines().map(&mut shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_blocks_are_the_readers() {
        let text = "see a/b.rs\n```sh\nrun c/d.sh\n```\nand e/f.md\n";
        let prose = prose("x.md", text).unwrap();
        let words: Vec<&str> = cited(&prose).collect();
        assert_eq!(words, ["a/b.rs", "e/f.md"]);
        assert_eq!(line_of(&prose, words[1]), 5);
    }

    #[test]
    fn citations_of_missing_files_are_found_in_prose_only() {
        let rust = "//! See `x.rs`, docs/there.md, docs/gone.md.\nlet path = \"docs/gone.md\";\n// ../a/x.rs, y.rs\n";
        let page = "Read [this](no/such.md) and `.ci/run`, and `w.yaml`.\n";
        let files = [("a/x.rs", rust), ("docs/there.md", page), ("CHANGELOG.md", "`old.rs`\n")];
        let expected = [
            "a/x.rs:1: there is no file docs/gone.md",
            "docs/there.md:1: there is no file w.yaml",
            "docs/there.md:1: there is no file no/such.md",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }

    #[test]
    fn ends_consist_of_whole_parts() {
        assert_eq!(ends("a/b/c.rs").collect::<Vec<_>>(), ["a/b/c.rs", "b/c.rs", "c.rs"]);
    }
}
