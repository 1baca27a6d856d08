//! The table of results: printed row by row during the measurements, and written into docs/results.md between
//! two marks.

use super::result::{Quantity, Verdict};
use anyhow::Context;
use std::path::Path;

/// The lines of docs/results.md that enclose the table.
const BEGIN: &str = "<!-- results: begin -->";
const END: &str = "<!-- results: end -->";

/// What the results depend on, for the mark that `.ci/figures` reads: the server with all crates that it uses, the
/// benchmarks, and the settings of the build.
const PATHS: &str = "server benches/src Cargo.toml Cargo.lock";

/// The command that measures all of them again.
const COMMAND: &str = "cargo bench -p kstore-benches --bench gate -- --write-results";

const HEAD: &str = "| what | aim | bound | measured | |\n|---|---|---|---|---|";

/// Results in the order in which they were measured.
pub(super) struct Table {
    machine: String,
    commit: String,
    /// Factor by which bounds are laxer than for the released program.
    laxity: f64,
    rows: Vec<String>,
    missed: Vec<String>,
    failed: Vec<String>,
}

impl Table {
    /// An empty table for this machine and commit.
    pub(super) fn new(machine: String, commit: String) -> Self {
        Self { machine, commit, laxity: 1.0, rows: Vec::new(), missed: Vec::new(), failed: Vec::new() }
    }

    /// Makes the bounds of the rows to come this many times laxer.
    pub(super) fn relax_bounds(&mut self, times: f64) {
        self.laxity = times;
    }

    /// The text above the rows.
    pub(super) fn heading(&self) -> String {
        format!("Measured at commit {} on {}.\n\n{HEAD}", self.commit, self.machine)
    }

    /// The comment by which `.ci/figures` knows at which commit the rows were measured.
    fn mark(&self) -> String {
        format!("<!-- figures: {};\npaths: {PATHS};\nby: {COMMAND} -->", self.commit)
    }

    /// Compares a result with its limits, and prints its row.
    pub(super) fn add(&mut self, quantity: Quantity, measured: f64) {
        let Quantity { what, unit, limit } = quantity;
        let limit = limit.relaxed(self.laxity);
        let verdict = limit.judge(measured);
        let (aim, bound) = limit.show(unit);
        let row = format!("| {what} | {aim} | {bound} | {} | {verdict} |", unit.show(measured));
        println!("{row}");
        self.rows.push(row);
        if verdict == Verdict::Missed {
            self.missed.push(format!("{what}: {} instead of {bound}", unit.show(measured)));
        }
    }

    /// The result of a measurement; an error becomes a row with the measurement and the cause.
    pub(super) fn succeeded<T>(&mut self, what: &str, measured: anyhow::Result<T>) -> Option<T> {
        measured
            .map_err(|error| {
                // The chain of causes on one line; a backtrace would obscure it.
                println!("| {what} | | | {error:#} | **failed** |");
                self.failed.push(format!("{what}: {error:#}"));
            })
            .ok()
    }

    /// The failed measurements, with their errors.
    pub(super) fn failed(&self) -> &[String] {
        &self.failed
    }

    /// The results outside their bounds.
    pub(super) fn missed(&self) -> &[String] {
        &self.missed
    }

    /// Replaces the text between the marks of a file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written, or has no marks.
    pub(super) fn write_into(&self, path: &Path) -> anyhow::Result<()> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let table = format!("{}\n\n{}\n{}", self.mark(), self.heading(), self.rows.join("\n"));
        let text = between_marks(&text, &table)
            .with_context(|| format!("{} has no lines {BEGIN} and {END}", path.display()))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// `text` with `table` between the marks; `None` without marks.
fn between_marks(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_measurement_that_fails_is_reported_with_its_causes() {
        let mut table = Table::new(String::new(), String::new());
        assert_eq!(table.succeeded("one", Ok(1)), Some(1));
        assert!(table.failed().is_empty());
        let error = anyhow!("connection refused").context("cannot start the server");
        assert_eq!(table.succeeded::<u8>("two", Err(error)), None);
        assert_eq!(table.failed(), ["two: cannot start the server: connection refused"]);
    }

    #[test]
    fn the_written_table_has_a_mark_with_its_commit() {
        let page = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(page.path(), format!("{BEGIN}\n{END}\n")).unwrap();
        Table::new("a machine".to_owned(), "0123456789".to_owned()).write_into(page.path()).unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        assert!(
            text.starts_with(&format!("{BEGIN}\n<!-- figures: 0123456789;\npaths: server benches/src ")),
            "{text}"
        );
        assert!(
            text.contains(&format!(";\nby: {COMMAND} -->\n\nMeasured at commit 0123456789 on a machine.\n"))
        );
    }

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between_marks(&text, "new"), Some(format!("a\n{BEGIN}\nnew\n{END}\nb\n")));
        assert_eq!(between_marks("a", "new"), None);
    }
}
