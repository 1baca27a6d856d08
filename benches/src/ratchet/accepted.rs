//! [`Accepted`]: the file of accepted counts: read, change, write. Pure.
//!
//! Lines that begin with `#` are comments, except the one that names the platform. Each other line is a path's
//! name, its instructions and the reason of this count, separated by tabs.

use anyhow::{Context, bail, ensure};
use std::fmt;

/// The beginning of the line that names the platform of the counts.
const PLATFORM: &str = "# counted on: ";

/// The explanation at the top of a new file.
const EXPLANATION: &str = "\
# Accepted instruction counts, one line per path: name, instructions, why this count was accepted. The bench `ratchet` counts and fails
# if a path takes more than 3 % above its line. Do not edit a line; accept a new count with its reason:
#   .ci/checks/ratchet --accept NAME --why \"TEXT\"";

/// Accepted counts and the platform on which they were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// Comments at the top of the file, without the line of the platform.
    comments: Vec<String>,
    /// Processor, compiler and library that the counts depend on.
    pub(super) platform: String,
    /// The lines, in the order of the file.
    pub(super) lines: Vec<Line>,
}

/// The accepted count of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The path's name.
    pub(super) name: String,
    /// Instructions of one operation.
    pub(super) instructions: u64,
    /// Why this count was accepted.
    why: String,
}

impl Accepted {
    /// Counts of this platform, none yet, with these comments or the usual ones.
    pub(super) fn new(comments: Vec<String>, platform: &str) -> Self {
        let usual = || EXPLANATION.lines().map(str::to_owned).collect();
        let comments = if comments.is_empty() { usual() } else { comments };
        Self { comments, platform: platform.to_owned(), lines: Vec::new() }
    }

    /// Reads a file.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let platform = text.lines().find_map(|line| line.strip_prefix(PLATFORM));
        let platform = platform.with_context(|| format!("a line begins with `{PLATFORM}`"))?;
        let mut lines: Vec<Line> = Vec::new();
        for text in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let line = Line::parse(text).with_context(|| format!("the line `{text}`"))?;
            ensure!(lines.iter().all(|other| other.name != line.name), "two lines for `{}`", line.name);
            lines.push(line);
        }
        Ok(Self { comments: comments(text), platform: platform.to_owned(), lines })
    }

    /// The accepted instructions of a path.
    pub(super) fn instructions(&self, name: &str) -> Option<u64> {
        self.lines.iter().find(|line| line.name == name).map(|line| line.instructions)
    }

    /// The same with another count for a path; other lines stay as they are.
    #[must_use]
    pub(super) fn with(mut self, name: &str, instructions: u64, why: &str) -> Self {
        let line = Line { name: name.to_owned(), instructions, why: why.to_owned() };
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(former) => *former = line,
            None => self.lines.push(line),
        }
        self
    }
}

/// The comments of a file, without the line of the platform.
pub(super) fn comments(text: &str) -> Vec<String> {
    let is_comment = |line: &&str| line.starts_with('#') && !line.starts_with(PLATFORM);
    text.lines().filter(is_comment).map(str::to_owned).collect()
}

impl Line {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let [name, instructions, why] = text.split('\t').collect::<Vec<_>>()[..] else {
            bail!("it has not three fields, separated by tabs: name, instructions, why");
        };
        ensure!(!why.trim().is_empty(), "it does not say why");
        let instructions = instructions.parse().context("instructions are a number")?;
        ensure!(instructions > 0, "no path takes no instructions");
        Ok(Self { name: name.to_owned(), instructions, why: why.to_owned() })
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for comment in &self.comments {
            writeln!(f, "{comment}")?;
        }
        writeln!(f, "{PLATFORM}{}", self.platform)?;
        self.lines
            .iter()
            .try_for_each(|line| writeln!(f, "{}\t{}\t{}", line.name, line.instructions, line.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# About.\n# counted on: x86_64, rustc 1\nget\t100\tthe first count\nput\t200\tthe first count\n";

    #[test]
    fn a_file_is_written_as_it_was_read() {
        let accepted = Accepted::parse(FILE).unwrap();
        assert_eq!(accepted.platform, "x86_64, rustc 1");
        assert_eq!((accepted.instructions("put"), accepted.instructions("post")), (Some(200), None));
        assert_eq!(accepted.to_string(), FILE);
    }

    #[test]
    fn accepting_changes_only_the_line_of_its_path() {
        let accepted = Accepted::parse(FILE).unwrap().with("get", 120, "a checksum per read");
        assert_eq!(
            accepted.to_string(),
            FILE.replace("get\t100\tthe first count", "get\t120\ta checksum per read")
        );
        let accepted = Accepted::parse(FILE).unwrap().with("post", 3, "a new path");
        assert_eq!(accepted.to_string(), format!("{FILE}post\t3\ta new path\n"));
    }

    #[test]
    fn a_new_file_explains_itself_and_is_readable() {
        let accepted = Accepted::new(Vec::new(), "x86_64").with("get", 1, "the first count");
        assert_eq!(Accepted::parse(&accepted.to_string()).unwrap(), accepted);
        assert!(accepted.to_string().contains("--why"));
    }

    #[test]
    fn malformed_files_are_refused() {
        for (from, to) in [
            ("# counted on: x86_64, rustc 1\n", ""),
            ("put\t200\tthe first count", "put\t200"),
            ("put\t200\tthe first count", "put\t200\t "),
            ("put\t200", "put\tmany"),
            ("put\t200", "put\t0"),
            ("put\t200", "get\t200"),
        ] {
            assert!(Accepted::parse(&FILE.replace(from, to)).is_err(), "{from:?} replaced by {to:?}");
        }
    }
}
