//! The files of the workspace, read once; every rule judges the same tree.

use crate::offence::Offence;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file of the workspace except build outputs, sorted by path.
pub(crate) struct Tree {
    /// Root folder of the workspace.
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<File>,
}

/// A file of the tree.
pub(crate) struct File {
    /// Path relative to the root, with `/` between its parts.
    pub(crate) path: String,
    /// The text; empty if the file is not UTF-8.
    pub(crate) text: String,
}

impl Tree {
    /// Reads every file below `root`, except build outputs and git's own.
    pub(crate) fn load(root: &Path) -> Result<Self, String> {
        let mut folders = vec![root.to_owned()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            let unreadable = |error| format!("{}: {error}", folder.display());
            for entry in fs::read_dir(&folder).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let (path, name) = (entry.path(), entry.file_name());
                if entry.file_type().map_err(unreadable)?.is_dir() {
                    if name != "target" && name != ".git" {
                        folders.push(path);
                    }
                    continue;
                }
                let below = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                // A link may lead nowhere; a file without text cannot break a rule about text.
                let bytes = fs::read(&path).unwrap_or_default();
                files.push(File { path: below, text: String::from_utf8(bytes).unwrap_or_default() });
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { root: root.to_owned(), files })
    }

    /// The Rust files.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file at a path relative to the root.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The file at a path, or the offence that it is missing.
    pub(crate) fn expect(&self, path: &str) -> Result<&File, Offence> {
        self.file(path).ok_or_else(|| Offence::new(path, 1, "the file is missing"))
    }

    /// A tree of the given paths and texts, for tests of rules.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let file = |(path, text): (&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self { root: PathBuf::new(), files: files.into_iter().map(file).collect() }
    }
}

impl File {
    /// Whether the file has tests only.
    pub(crate) fn is_test(&self) -> bool {
        let path = self.path.as_str();
        path.starts_with("tests/")
            || path.ends_with("/tests.rs")
            || path.ends_with("_tests.rs")
            || path.contains("/tests/")
    }

    /// The file's text without a test module at its end.
    pub(crate) fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
    }

    /// The lines of code that are not comments, with their numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = (1..).zip(self.code().lines());
        numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// An offence for each line of code for which `is_wrong` holds; its text is the line.
    pub(crate) fn wrong_lines(&self, is_wrong: impl Fn(&str) -> bool) -> Vec<Offence> {
        let wrong = self.lines().filter(|(_, line)| is_wrong(line));
        wrong.map(|(number, line)| Offence::new(&self.path, number, line.trim())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_at_the_test_module_and_lines_skip_comments() {
        let tree =
            Tree::of([("a/src/x.rs", "//! X.\nfn x() {}\n// y\n#[cfg(test)]\nmod tests {\nfn z() {}\n}\n")]);
        let file = tree.file("a/src/x.rs").unwrap();
        assert_eq!(file.lines().collect::<Vec<_>>(), [(2, "fn x() {}")]);
        assert_eq!(
            file.wrong_lines(|line| line.contains("fn")),
            [Offence::new("a/src/x.rs", 2, "fn x() {}")]
        );
    }

    #[test]
    fn tests_are_recognized_by_their_paths() {
        let is_test = |path: &str| Tree::of([(path, "")]).files[0].is_test();
        assert!(
            ["tests/src/lib.rs", "a/src/tests.rs", "a/src/x_tests.rs", "a/tests/x.rs"]
                .into_iter()
                .all(is_test)
        );
        assert!(!["a/src/lib.rs", "testing/src/lib.rs", "a/src/contests.rs"].into_iter().any(is_test));
    }
}
