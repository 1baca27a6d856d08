//! Imports between the top modules of a crate, as far as a reader of the text finds them: paths that begin with
//! `crate::`, and paths of `super` that lead to the crate's root. What the root re-exports counts as an import of the
//! module that it comes from. Tests may import everything, so they are left out.

use crate::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The top modules of a crate, and their imports.
pub(crate) struct CrateImports {
    /// Path of the root's file.
    pub(crate) root: String,
    /// Names of the top modules.
    pub(crate) modules: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
}

/// A path in a top module that leads to another one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The importing module.
    pub(crate) from: String,
    /// The imported module; none if the root itself defines the name.
    pub(crate) to: Option<String>,
    /// The first name after the root.
    pub(crate) name: String,
    /// File and line of the path.
    pub(crate) file: String,
    pub(crate) line: usize,
}

impl CrateImports {
    /// The imports of the crate in a folder; none if the folder has no root of a crate.
    pub(crate) fn of(tree: &Tree, folder: &str) -> Option<Self> {
        let source = format!("{folder}/src/");
        let root = ["lib.rs", "main.rs"].iter().find_map(|name| tree.file(&format!("{source}{name}")))?;
        let files = tree.sources().filter(|file| file.path.starts_with(&source));
        let files = files.filter_map(|file| Some((top_module(&file.path[source.len()..])?, file)));
        let (tests, files): (Vec<_>, Vec<_>) = files.partition(|(_, file)| file.is_test());
        let modules: BTreeSet<String> = files.iter().map(|(module, _)| (*module).to_owned()).collect();
        // The compiler lets only tests import a module of tests.
        let is_of_tests =
            |name: &str| !modules.contains(name) && tests.iter().any(|(module, _)| *module == name);
        let exports = exports(&code_of(root));
        let mut imports = Vec::new();
        for (module, file) in files {
            let depth = depth(&file.path[source.len()..]);
            for (line, name) in names_of_root(&code_of(file), depth) {
                if is_of_tests(&name) {
                    continue;
                }
                let to = if modules.contains(&name) { Some(&name) } else { exports.get(&name) };
                let to = to.cloned();
                if to.as_deref() != Some(module) {
                    imports.push(Import { from: module.to_owned(), to, name, file: file.path.clone(), line });
                }
            }
        }
        Some(Self { root: root.path.clone(), modules, imports })
    }

    /// The groups of modules that import each other, directly or through others; the largest first. A module alone is
    /// no group.
    pub(crate) fn circles(&self) -> Vec<Vec<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.modules.iter().map(|module| (module.as_str(), self.reached_from(module))).collect();
        let mut circles: BTreeSet<Vec<&str>> = BTreeSet::new();
        for (module, below) in &reached {
            let leads_back = |other: &&str| reached.get(*other).is_some_and(|back| back.contains(module));
            let circle: Vec<_> = below.iter().copied().filter(leads_back).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The modules to which imports lead from `start`.
    fn reached_from<'a>(&'a self, start: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(module) = open.pop() {
            let imports = self.imports.iter().filter(|import| import.from == module);
            let next = imports.filter_map(|import| import.to.as_deref());
            open.extend(next.filter(|to| reached.insert(*to)));
        }
        reached
    }
}

/// The top module of a file, given its path below `src`; none for the root and for other binaries.
fn top_module(below: &str) -> Option<&str> {
    let top = below.split('/').next()?.trim_end_matches(".rs");
    (!matches!(top, "lib" | "main" | "bin")).then_some(top)
}

/// How many times `super` leads from a file to the root: 1 for a top module.
fn depth(below: &str) -> usize {
    let module = below.trim_end_matches(".rs").trim_end_matches("/mod");
    module.split('/').count()
}

/// A file's text without comments, its test module and what only tests import. Lines keep their numbers.
fn code_of(file: &File) -> String {
    let mut only_tests = false;
    let line = |line: &str| {
        let is_left_out = line.trim_start().starts_with("//") || (only_tests && line.ends_with(';'));
        only_tests = line.trim() == "#[cfg(test)]";
        format!("{}\n", if is_left_out { "" } else { line })
    };
    file.code().lines().map(line).collect()
}

/// The names that paths from the root begin with, and their lines.
fn names_of_root(code: &str, depth: usize) -> Vec<(usize, String)> {
    let supers = "super::".repeat(depth);
    let mut found = Vec::new();
    for start in ["crate::", supers.as_str()] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            let is_longer = before.is_ascii_alphanumeric() || "_$:".contains(before);
            let rest = &code[at + start.len()..];
            if is_longer || rest.starts_with("super::") {
                continue;
            }
            let line = 1 + code[..at].bytes().filter(|byte| *byte == b'\n').count();
            found.extend(first_names(rest).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The names with which the paths of a use tree begin.
fn first_names(tree: &str) -> Vec<String> {
    let first = |path: &str| path.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let names: Vec<String> = match tree.strip_prefix('{') {
        Some(group) => parts(group).into_iter().map(first).collect(),
        None => vec![first(tree)],
    };
    names.into_iter().filter(|name| !name.is_empty() && name != "self").collect()
}

/// The parts of a group up to its closing brace, without the space around them.
fn parts(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(group[start..at].trim());
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(group[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// The names that a root imports, and so exports to its modules at least, each with the module that it comes from.
fn exports(code: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default();
        if !matches!(before.trim(), "" | "pub" | "pub(crate)") {
            continue;
        }
        let tree = code[at + "use ".len()..].split(';').next().unwrap_or_default();
        let tree = tree.trim().trim_start_matches("crate::").trim_start_matches("self::");
        let module = first_names(tree).into_iter().next().unwrap_or_default();
        let mut last = Vec::new();
        last_names(tree, &mut last);
        exports.extend(last.into_iter().map(|name| (name, module.clone())));
    }
    exports
}

/// The names under which the paths of a use tree are known.
fn last_names(tree: &str, names: &mut Vec<String>) {
    match tree.split_once('{') {
        Some((_, group)) => parts(group).into_iter().for_each(|part| last_names(part, names)),
        None => names.extend(tree.rsplit([':', ' ']).next().map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "//! A.\nmod a;\nmod b;\nmod c;\npub use a::{Low, deep::{Deep, Other as Alias}};\n\
                        pub(crate) use b::Middle;\npub struct Own;\n#[cfg(test)]\nmod tests;\n";

    fn imports(files: [(&str, &str); 3]) -> Vec<String> {
        let [a, b, c] = files;
        let tree = Tree::of([("x/src/lib.rs", ROOT), a, b, c, ("x/src/tests.rs", "use crate::c::C;\n")]);
        let found = CrateImports::of(&tree, "x").unwrap();
        assert_eq!((&found.root[..], found.modules.len()), ("x/src/lib.rs", 3));
        let text = |import: &Import| {
            let Import { from, to, name, file, line } = import;
            format!("{file}:{line}: {from} → {} ({name})", to.as_deref().unwrap_or("the root"))
        };
        found.imports.iter().map(text).collect()
    }

    #[test]
    fn paths_from_the_root_are_found_in_all_their_forms() {
        let b = "//! B.\nuse crate::a::Low;\n// use crate::c::C;\nuse crate::{\n    Alias, Deep,\n    c::{C, D},\n};\n\
                 fn x() { crate::c::x(); crate::b::y(); super::c::z(); crate::tests::t(); }\nuse super::Own;\n";
        let expected = [
            "x/src/b.rs:2: b → a (a)",
            "x/src/b.rs:4: b → a (Alias)",
            "x/src/b.rs:4: b → a (Deep)",
            "x/src/b.rs:4: b → c (c)",
            "x/src/b.rs:8: b → c (c)",
            "x/src/b.rs:8: b → c (c)",
            "x/src/b.rs:9: b → the root (Own)",
        ];
        assert_eq!(
            imports([("x/src/a/mod.rs", "//! A.\n"), ("x/src/b.rs", b), ("x/src/c.rs", "")]),
            expected
        );
    }

    #[test]
    fn paths_within_a_module_and_of_tests_are_no_imports() {
        let deep = "use super::Low;\nuse super::super::Middle;\n#[cfg(test)]\nuse crate::c::C;\n\
                    macro_rules! m { () => { $crate::c::C } }\n#[cfg(test)]\nmod tests {\n    use crate::c::C;\n}\n";
        let files =
            [("x/src/a/deep.rs", deep), ("x/src/b/mod.rs", ""), ("x/src/c/tests.rs", "use crate::a::Low;\n")];
        let tree = Tree::of([("x/src/lib.rs", ROOT), files[0], files[1], files[2]]);
        let found = CrateImports::of(&tree, "x").unwrap();
        let all: Vec<_> = found.imports.iter().map(|import| (import.line, import.to.as_deref())).collect();
        assert_eq!(all, [(2, Some("b"))]);
    }

    #[test]
    fn circles_are_groups_that_import_each_other() {
        let tree = Tree::of([
            ("x/src/main.rs", ""),
            ("x/src/a.rs", "use crate::b;\n"),
            ("x/src/b.rs", "use crate::c::X;\n"),
            ("x/src/c.rs", "use crate::a;\n"),
            ("x/src/d.rs", "use crate::a;\n"),
        ]);
        assert_eq!(CrateImports::of(&tree, "x").unwrap().circles(), [["a", "b", "c"]]);
        assert!(CrateImports::of(&tree, "y").is_none());
    }
}
