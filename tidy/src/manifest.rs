//! Reads what the rules need from `Cargo.toml` files: names, members, and dependencies on our crates.
//!
//! The reader knows the forms in which cargo accepts a dependency (sections, dotted keys, inline tables, targets,
//! renamed packages), and no more of TOML: no multi-line strings, and no section as an inline table.

use crate::offence::Offence;
use crate::tree::Tree;
use std::collections::BTreeMap;

/// Prefix of the names of our packages.
const PREFIX: &str = "kstore-";

/// A crate of the workspace.
#[derive(Debug, PartialEq)]
pub(crate) struct Package {
    /// Folder of the crate, and its name without our prefix.
    pub(crate) folder: String,
    /// Our crates that it depends on, by folder; in order of the file.
    pub(crate) uses: Vec<Use>,
}

/// A dependency of one of our crates on another.
#[derive(Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) folder: String,
    /// Whether only tests, examples and benches have it.
    pub(crate) is_for_tests: bool,
    /// Line in the manifest.
    pub(crate) line: usize,
}

/// A key with its value; a value that spans lines is joined.
struct Entry<'a> {
    /// Section and key: `[target, cfg(unix), dependencies, rustix, workspace]`.
    path: Vec<&'a str>,
    value: String,
    line: usize,
}

impl Entry<'_> {
    /// Whether the entry has a whole section as an inline table, which this reader does not look into.
    fn is_inline_section(&self) -> bool {
        match self.path.as_slice() {
            ["target"] | ["target", _] => true,
            [kind] | ["target", _, kind] => kind.ends_with("dependencies"),
            _ => false,
        }
    }
}

/// The crates of the workspace, in order of its member list.
pub(crate) fn packages(tree: &Tree) -> Result<Vec<Package>, Offence> {
    let root = &tree.expect("Cargo.toml")?.text;
    let (aliases, members) = (renamed(root), workspace_list(root, "members"));
    let known: Vec<String> = members.iter().cloned().chain(workspace_list(root, "exclude")).collect();
    for file in &tree.files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        if !known.iter().any(|known| known == folder) {
            let text = "the workspace neither has this folder as a member nor excludes it";
            return Err(Offence::new(&file.path, 1, text));
        }
    }
    members.into_iter().map(|folder| package(tree, folder, &aliases)).collect()
}

fn package(tree: &Tree, folder: String, aliases: &BTreeMap<&str, String>) -> Result<Package, Offence> {
    let path = format!("{folder}/Cargo.toml");
    let text = &tree.expect(&path)?.text;
    let name = format!("{PREFIX}{folder}");
    if package_name(text) != name {
        return Err(Offence::new(&path, 1, format!("a folder is a crate: the package's name is not {name}")));
    }
    if let Some(entry) = entries(text).into_iter().find(Entry::is_inline_section) {
        return Err(Offence::new(&path, entry.line, "dependencies are a section of their own"));
    }
    let uses = dependencies(text)
        .into_iter()
        .filter_map(|(name, is_for_tests, line)| {
            let name = aliases.get(name.as_str()).unwrap_or(&name);
            let folder = name.strip_prefix(PREFIX)?.to_owned();
            Some(Use { folder, is_for_tests, line })
        })
        .collect();
    Ok(Package { folder, uses })
}

/// Folders in a list of the workspace: `members` or `exclude`.
fn workspace_list(root: &str, key: &str) -> Vec<String> {
    let list = entries(root).into_iter().find(|entry| entry.path == ["workspace", key]);
    let value = list.map(|entry| entry.value).unwrap_or_default();
    value.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn package_name(text: &str) -> String {
    let entry = entries(text).into_iter().find(|entry| entry.path == ["package", "name"]);
    entry.map(|entry| entry.value.trim_matches('"').to_owned()).unwrap_or_default()
}

/// All dependencies of a manifest: the name, whether only tests have it, and the line.
pub(crate) fn dependencies(text: &str) -> Vec<(String, bool, usize)> {
    let mut found = Vec::new();
    for entry in entries(text) {
        let path = match entry.path.as_slice() {
            ["target", _, rest @ ..] => rest,
            path => path,
        };
        let [kind @ ("dependencies" | "dev-dependencies" | "build-dependencies"), name, attribute @ ..] =
            path
        else {
            continue;
        };
        let package = match attribute {
            ["package"] => Some(entry.value.trim_matches('"').to_owned()),
            _ => package_attribute(&entry.value),
        };
        let name = package.unwrap_or_else(|| (*name).to_owned());
        found.push((name, *kind == "dev-dependencies", entry.line));
    }
    found
}

/// Names under which the workspace's table has a package of another name.
fn renamed(root: &str) -> BTreeMap<&str, String> {
    let entries = entries(root).into_iter();
    let packages = entries.filter_map(|entry| match entry.path.as_slice() {
        ["workspace", "dependencies", name] => Some((*name, package_attribute(&entry.value)?)),
        ["workspace", "dependencies", name, "package"] => {
            Some((*name, entry.value.trim_matches('"').to_owned()))
        }
        _ => None,
    });
    packages.collect()
}

/// The package that an inline table names: `{ package = "name", … }`.
fn package_attribute(value: &str) -> Option<String> {
    let inner = value.strip_prefix('{')?;
    let mut attributes = inner.split([',', '}']).filter_map(|attribute| attribute.split_once('='));
    let (_, name) = attributes.find(|(key, _)| key.trim() == "package")?;
    Some(name.trim().trim_matches('"').to_owned())
}

/// The entries of a manifest, in order.
fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut section: Vec<&str> = Vec::new();
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let mut open = 0;
    for (line, number) in text.lines().zip(1..) {
        let line = without_comment(line).trim();
        if open > 0 {
            if let Some(entry) = entries.last_mut() {
                entry.value.push_str(line);
            }
            open += depth(line);
        } else if let Some(header) = line.strip_prefix('[') {
            section = keys(header.trim_matches(['[', ']']));
        } else if let Some((key, value)) = split_unquoted(line, '=') {
            let path = section.iter().copied().chain(keys(key)).collect();
            entries.push(Entry { path, value: value.trim().to_owned(), line: number });
            open = depth(value);
        }
    }
    entries
}

/// The parts of a dotted key, without the quotes around a part.
fn keys(mut key: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while let Some((part, rest)) = split_unquoted(key, '.') {
        parts.push(part.trim().trim_matches(['"', '\'']));
        key = rest;
    }
    parts.push(key.trim().trim_matches(['"', '\'']));
    parts
}

/// The positions and characters of a line that are outside of quotes.
fn unquoted(line: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    line.char_indices().filter(move |(_, c)| match quote {
        Some(open) => {
            if *c == open {
                quote = None;
            }
            false
        }
        None => {
            if matches!(c, '"' | '\'') {
                quote = Some(*c);
            }
            quote.is_none()
        }
    })
}

fn split_unquoted(line: &str, at: char) -> Option<(&str, &str)> {
    let (position, _) = unquoted(line).find(|(_, c)| *c == at)?;
    Some((&line[..position], &line[position + at.len_utf8()..]))
}

fn without_comment(line: &str) -> &str {
    split_unquoted(line, '#').map_or(line, |(before, _)| before)
}

/// Brackets that a line opens, less those that it closes.
fn depth(line: &str) -> i32 {
    unquoted(line).fold(0, |depth, (_, c)| match c {
        '[' | '{' => depth + 1,
        ']' | '}' => depth - 1,
        _ => depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = r#"
[workspace]
# Comments and "quotes".
members = [
    "one", "two", # "three"
]
[workspace.dependencies]
kstore-one = { path = "one" }
alias = { path = "four", package = "kstore-four" }
"#;

    #[test]
    fn dependencies_are_found_in_every_form() {
        let text = r#"
[package]
name = "kstore-one"
keywords = ["dependencies"]
[dependencies]
plain = "1"
dotted.workspace = true
inline = { workspace = true, features = ["a", "b"] }
long = { workspace = true, features = [
    "kstore-no", "x = y",
] }
"quoted" = "1" # not = "1"
other = { version = "1", package = "renamed" }
[dev-dependencies]
tests = "1"
[target.'cfg(not(target_env = "msvc"))'.dependencies]
target.workspace = true
[target.'cfg(a)'.dev-dependencies]
both = "1"
[build-dependencies.section]
version = "1"
[features]
feature = ["dep:kstore-no"]
"#;
        let names: Vec<_> = dependencies(text)
            .into_iter()
            .map(|(name, is_for_tests, line)| format!("{name}{}:{line}", if is_for_tests { "!" } else { "" }))
            .collect();
        let expected = [
            "plain:6",
            "dotted:7",
            "inline:8",
            "long:9",
            "quoted:12",
            "renamed:13",
            "tests!:15",
            "target:17",
            "both!:19",
            "section:21",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn packages_have_their_members_and_names_behind_aliases() {
        let one = "[package]\nname = \"kstore-one\"\n[dependencies]\nalias.workspace = true\nserde = \"1\"\n";
        let two = "[package]\nname = \"kstore-two\"\n[dev-dependencies]\nkstore-one.workspace = true\n";
        let tree = Tree::of([("Cargo.toml", ROOT), ("one/Cargo.toml", one), ("two/Cargo.toml", two)]);
        let uses = |folder: &str, is_for_tests, line| Use { folder: folder.to_owned(), is_for_tests, line };
        let package = |folder: &str, uses| Package { folder: folder.to_owned(), uses };
        let expected =
            vec![package("one", vec![uses("four", false, 4)]), package("two", vec![uses("one", true, 4)])];
        assert_eq!(packages(&tree), Ok(expected));
    }

    #[test]
    fn what_the_reader_does_not_look_into_is_refused() {
        let refused = |path: &str, text: &str| {
            let tree = Tree::of([("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n"), (path, text)]);
            packages(&tree).unwrap_err().text
        };
        let inline = "dependencies = { kstore-b = \"1\" }\n[package]\nname = \"kstore-a\"\n";
        assert_eq!(refused("a/Cargo.toml", inline), "dependencies are a section of their own");
        let hidden = "the workspace neither has this folder as a member nor excludes it";
        assert_eq!(refused("a/b/Cargo.toml", ""), hidden);
    }

    #[test]
    fn a_package_is_named_like_its_folder() {
        let other = "[package]\nname = \"one\"\n";
        let tree = Tree::of([("Cargo.toml", ROOT), ("one/Cargo.toml", other)]);
        let text = "a folder is a crate: the package's name is not kstore-one";
        assert_eq!(packages(&tree), Err(Offence::new("one/Cargo.toml", 1, text)));
    }
}
