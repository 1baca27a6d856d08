//! The table of crates in ARCHITECTURE.md: which crate may use which. The document is the only place that has it.

use crate::offence::Offence;
use crate::tree::Tree;
use std::collections::BTreeSet;

/// The document with the table.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// Beginning of the table's first line.
const HEAD: &str = "| level | folder | may use (ours) |";

/// Beginning of a line that allows a crate's tests more than the crate.
const TESTS: &str = "- the tests of `";

/// The table, and the lines below it about tests.
#[derive(Debug, PartialEq)]
pub(crate) struct CrateTable {
    /// Rows in the order of the document; a row of several crates is several rows.
    pub(crate) rows: Vec<Row>,
    /// Crates whose tests may use crates that they themselves may not use.
    pub(crate) tests_also: Vec<(String, BTreeSet<String>)>,
}

/// What one crate may use.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) folder: String,
    pub(crate) level: u8,
    pub(crate) uses: Uses,
    /// Line of the document.
    pub(crate) line: usize,
}

/// The cell "may use (ours)".
#[derive(Debug, PartialEq)]
pub(crate) enum Uses {
    /// All crates: for the top, which no other crate uses.
    All,
    Only(BTreeSet<String>),
}

impl CrateTable {
    /// Reads the table of this tree.
    pub(crate) fn of(tree: &Tree) -> Result<Self, Offence> {
        parse(&tree.expect(PATH)?.text).map_err(|(line, text)| Offence::new(PATH, line, text))
    }

    pub(crate) fn row(&self, folder: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.folder == folder)
    }

    /// Whether the tests of a crate may use another, beyond what the crate may use.
    pub(crate) fn tests_may_use(&self, folder: &str, used: &str) -> bool {
        self.tests_also.iter().any(|(name, also)| name == folder && also.contains(used))
    }
}

impl Row {
    pub(crate) fn may_use(&self, folder: &str) -> bool {
        match &self.uses {
            Uses::All => true,
            Uses::Only(folders) => folders.contains(folder),
        }
    }
}

fn parse(text: &str) -> Result<CrateTable, (usize, String)> {
    let mut rows = Vec::new();
    let mut lines = (1..).zip(text.lines()).skip_while(|(_, line)| !line.starts_with(HEAD)).skip(2);
    for (number, line) in lines.by_ref().take_while(|(_, line)| line.starts_with('|')) {
        rows.extend(row(line, number).ok_or_else(|| (number, format!("cannot read the row: {line}")))?);
    }
    if rows.is_empty() {
        return Err((1, format!("cannot find the table: {HEAD}")));
    }
    let mut tests_also = Vec::new();
    for (number, line) in lines.take_while(|(_, line)| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix(TESTS) {
            let read = tests(rest).ok_or_else(|| (number, format!("cannot read the line: {line}")))?;
            tests_also.push(read);
        }
    }
    Ok(CrateTable { rows, tests_also })
}

/// A line of the table: level, folders, what they may use.
fn row(line: &str, number: usize) -> Option<Vec<Row>> {
    let mut cells = line.split('|').skip(1).map(str::trim);
    let level = cells.next()?.parse().ok()?;
    let folders = cells.next()?;
    let uses = cells.next()?;
    let rows = folders.split(", ").map(|folder| {
        let folder = folder.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        let uses = match uses {
            "all" => Uses::All,
            "–" => Uses::Only(BTreeSet::new()),
            listed => Uses::Only(names(listed)?),
        };
        Some(Row { folder, level, uses, line: number })
    });
    rows.collect()
}

/// The rest of a line about tests: ``store` also use checker: why`.
fn tests(rest: &str) -> Option<(String, BTreeSet<String>)> {
    let (folder, rest) = rest.split_once("` also use ")?;
    let (listed, _reason) = rest.split_once(':')?;
    Some((folder.to_owned(), names(listed)?))
}

/// Names of crates with commas between them.
fn names(listed: &str) -> Option<BTreeSet<String>> {
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !name.is_empty();
    listed.split(", ").map(|name| Some(name).filter(is_name).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
| level | folder | may use (ours) | what it is |
|---|---|---|---|
| 0 | `a`, `b-c` | – | lowest |
| 1 | `d` | a, b-c | higher |
| 2 | `e` | all | top |

Prose.

- the tests of `d` also use e: they need it
";

    #[test]
    fn rows_and_lines_about_tests_are_read() {
        let table = parse(TEXT).unwrap();
        let folders: Vec<_> =
            table.rows.iter().map(|row| (row.folder.as_str(), row.level, row.line)).collect();
        assert_eq!(folders, [("a", 0, 4), ("b-c", 0, 4), ("d", 1, 5), ("e", 2, 6)]);
        assert!(table.row("d").unwrap().may_use("b-c") && !table.row("d").unwrap().may_use("e"));
        assert!(table.row("e").unwrap().may_use("a") && !table.row("a").unwrap().may_use("b-c"));
        assert!(
            table.tests_may_use("d", "e") && !table.tests_may_use("d", "c") && !table.tests_may_use("a", "e")
        );
    }

    #[test]
    fn cells_in_another_form_are_refused() {
        let refused = |from: &str, to: &str| parse(&TEXT.replace(from, to)).unwrap_err();
        assert_eq!(
            refused("a, b-c", "all but e"),
            (5, "cannot read the row: | 1 | `d` | all but e | higher |".to_owned())
        );
        assert_eq!(refused("a, b-c", "").0, 5);
        assert_eq!(refused("`e`", "e").0, 6);
        assert_eq!(refused("also use e:", "also use e").0, 10);
        assert_eq!(refused("level", "Level").0, 1);
    }
}
