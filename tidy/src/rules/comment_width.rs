//! Comments and documents are at most 140 columns wide, as CONTRIBUTING says under "Dialect".

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "comment-width",
    summary: "comments, and paragraphs of documents, are at most 140 columns wide",
    check,
};

/// Most characters of a line.
const COLUMNS: usize = 140;

/// Fewest comment lines that the rule must read.
const FEWEST: usize = 20_000;

fn check(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    let mut count = 0;
    for file in &tree.files {
        let lines = match file.path.rsplit('.').next() {
            Some("rs") => comments(file),
            Some("md") => paragraphs(file),
            _ => continue,
        };
        count += lines.len();
        for (number, line) in lines {
            let columns = line.chars().count();
            if columns > COLUMNS {
                let text = format!("{columns} columns, more than {COLUMNS}: wrap the line");
                offences.push(Offence::new(&file.path, number, text));
            }
        }
    }
    offences.extend(Offence::if_fewer(count, FEWEST, "lines of comments and documents"));
    offences
}

/// The lines that are comments; a table in them is as wide as its cells, and a link cannot be wrapped.
fn comments(file: &File) -> Vec<(usize, &str)> {
    let is_comment = |line: &str| {
        let text = line.trim_start();
        let inner = text.trim_start_matches(['/', '!']).trim_start();
        text.starts_with("//") && can_be_wrapped(inner)
    };
    (1..).zip(file.text.lines()).filter(|(_, line)| is_comment(line)).collect()
}

/// The lines of a document outside code, tables and marks.
fn paragraphs(file: &File) -> Vec<(usize, &str)> {
    let (mut is_code, mut is_mark) = (false, false);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let text = line.trim_start();
        is_mark |= text.starts_with("<!--");
        if text.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !is_mark && can_be_wrapped(text) {
            lines.push((number, line));
        }
        is_mark &= !text.ends_with("-->");
    }
    lines
}

/// Whether a line is no row of a table, and has a space at which it can be wrapped.
fn can_be_wrapped(text: &str) -> bool {
    !text.starts_with('|') && text.chars().take(COLUMNS).any(|c| c == ' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_comments_and_paragraphs_are_found_and_tables_code_and_links_are_not() {
        let wide = "word ".repeat(30);
        let row = format!("| {wide} |\n");
        let source = format!(
            "//! {wide}\nfn f() {{\n    let a = \"{wide}\";\n    // {wide}\n    /// {row}}}\n// https://{}\n",
            "x".repeat(150)
        );
        let document = format!("# A\n\n{wide}\n{row}```sh\n{wide}\n```\n<!-- a:\n{wide} -->\nshort\n");
        let found = crate::rules::offences_of(
            RULE,
            [("a.md", document.as_str()), ("b.rs", source.as_str()), ("c.txt", wide.as_str())],
        );
        let places: Vec<_> = found.iter().filter_map(|offence| offence.split(": ").next()).collect();
        assert_eq!(places, ["a.md:3", "b.rs:1", "b.rs:4"]);
        assert!(found[0].ends_with("150 columns, more than 140: wrap the line"));
    }
}
