//! The source text of the rules: its items (functions and constants), and the items that each of them names.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

/// A function, constant, static or type of a source file.
pub(super) struct Item {
    /// Path of the file below `src`.
    pub(super) file: String,
    /// Line of the file on which the item begins.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Items of source files, and the names that the files import.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) items: Vec<Item>,
    by_name: BTreeMap<(String, String), Vec<usize>>,
    /// Per file: an imported name, and the path that it stands for.
    imports: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Files by the path of their module.
    files: BTreeMap<Vec<String>, String>,
}

/// Most re-exports that lead from a name to its item.
const MAX_EXPORTS: usize = 5;

static ITEM: LazyLock<Regex> = LazyLock::new(|| {
    let visibility = r"^(?:pub(?:\([^)]*\))? )?";
    let kinds = r"(const fn|fn|const|static|type|struct|enum|trait|impl|macro_rules!|mod|use)\b";
    Regex::new(&format!(r"{visibility}{kinds}\s*(?:<[^>]*>\s*)?([A-Za-z_0-9]*)")).unwrap()
});
static IMPORT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^(?:pub(?:\([^)]*\))? )?use ([^;]+);").unwrap());
static TEXT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*""#).unwrap());
static NAMED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b([a-z_]\w*(?:::\w+)+|[A-Za-z_]\w*)\b").unwrap());

impl Sources {
    /// The sources of these modules of this crate, without tests.
    pub(super) fn of_modules(modules: &[&str]) -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = Self::default();
        for module in modules {
            sources.add_folder(&src, module);
        }
        sources
    }

    fn add_folder(&mut self, src: &Path, folder: &str) {
        let mut entries: Vec<_> =
            std::fs::read_dir(src.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            let name = path.file_name().unwrap().to_str().unwrap();
            let below = format!("{folder}/{name}");
            let is_test = matches!(name, "tests" | "tests.rs") || name.ends_with("_tests.rs");
            match path.is_dir() {
                _ if is_test => {}
                true => self.add_folder(src, &below),
                false if name.ends_with(".rs") => self.add(&below, &std::fs::read_to_string(&path).unwrap()),
                false => {}
            }
        }
    }

    /// Adds a file.
    pub(super) fn add(&mut self, file: &str, text: &str) {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> =
            code.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line }).collect();
        let starts: Vec<usize> = (0..lines.len()).filter(|at| ITEM.is_match(lines[*at])).collect();
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        for (start, end) in starts.iter().copied().zip(ends) {
            let found = ITEM.captures(lines[start]).unwrap();
            let name = match &found[1] {
                "use" | "mod" => continue,
                "impl" => implementing(lines[start]),
                _ => &found[2],
            };
            let key = (file.to_owned(), name.to_owned());
            self.by_name.entry(key).or_default().push(self.items.len());
            let text = lines[start..end].join("\n");
            self.items.push(Item { file: file.to_owned(), line: start + 1, text });
        }
        let mut imports = BTreeMap::new();
        for found in IMPORT.captures_iter(&lines.join("\n")) {
            read_use_tree(&[], &found[1], &mut imports);
        }
        self.imports.insert(file.to_owned(), imports);
        self.files.insert(module_of(file), file.to_owned());
    }

    /// The items that can run for an item: itself, and those that it names, directly or through others.
    pub(super) fn reached_from(&self, file: &str, name: &str) -> BTreeSet<usize> {
        let mut open = self.by_name.get(&(file.to_owned(), name.to_owned())).cloned().unwrap_or_default();
        let mut reached = BTreeSet::new();
        while let Some(at) = open.pop() {
            if reached.insert(at) {
                open.extend(self.named_by(&self.items[at]));
            }
        }
        reached
    }

    fn named_by(&self, item: &Item) -> Vec<usize> {
        let text = TEXT.replace_all(&item.text, "\"\"");
        let paths: BTreeSet<&str> = NAMED.find_iter(&text).map(|found| found.as_str()).collect();
        paths.into_iter().flat_map(|path| self.resolve(&item.file, path)).collect()
    }

    /// The items that a path in a file stands for, with the methods of a type.
    fn resolve(&self, file: &str, path: &str) -> Vec<usize> {
        let parts: Vec<String> = path.split("::").map(str::to_owned).collect();
        let absolute = self.absolute(file, &parts);
        let found = self.find(&absolute, 0);
        match absolute.split_last() {
            Some((_, owner)) if found.is_empty() && parts.len() > 1 => self.find(owner, 0),
            _ => found,
        }
    }

    /// A path from the root.
    fn absolute(&self, file: &str, parts: &[String]) -> Vec<String> {
        let module = module_of(file);
        let join = |base: &[String], rest: &[String]| [base, rest].concat();
        match parts[0].as_str() {
            "crate" => parts[1..].to_vec(),
            "self" => join(&module, &parts[1..]),
            "super" => {
                let up = parts.iter().take_while(|part| *part == "super").count();
                join(&module[..module.len().saturating_sub(up)], &parts[up..])
            }
            first => match self.imports[file].get(first) {
                Some(import) if import[0] != first => join(&self.absolute(file, import), &parts[1..]),
                Some(import) => join(&join(&module, import), &parts[1..]),
                None => join(&module, parts),
            },
        }
    }

    fn find(&self, path: &[String], depth: usize) -> Vec<usize> {
        let Some((name, module)) = path.split_last() else { return Vec::new() };
        let Some(file) = self.files.get(module).filter(|_| depth <= MAX_EXPORTS) else { return Vec::new() };
        match (self.by_name.get(&(file.clone(), name.clone())), self.imports[file].get(name)) {
            (Some(items), _) => items.clone(),
            (None, Some(import)) => self.find(&self.absolute(file, import), depth + 1),
            (None, None) => Vec::new(),
        }
    }
}

/// The type whose methods begin in a line: they are reached with their type.
fn implementing(line: &str) -> &str {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^impl(?:<[^>]*>)? (?:.* for )?").unwrap());
    let rest = HEAD.find(line).map_or(line, |found| &line[found.end()..]);
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    &rest[..end]
}

fn module_of(file: &str) -> Vec<String> {
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    module.split('/').map(str::to_owned).collect()
}

/// The names that a use tree imports.
fn read_use_tree(base: &[String], tree: &str, imports: &mut BTreeMap<String, Vec<String>>) {
    let tree = tree.trim();
    if let Some(group) = tree.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        split_outside_brackets(group).into_iter().for_each(|part| read_use_tree(base, part, imports));
    } else if let Some((first, rest)) = tree.split_once("::") {
        read_use_tree(&[base, &[first.to_owned()]].concat(), rest, imports);
    } else if !tree.is_empty() {
        let (name, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = if name == "self" { base.to_vec() } else { [base, &[name.to_owned()]].concat() };
        let known =
            if alias.is_empty() { path.last().cloned().unwrap_or_default() } else { alias.to_owned() };
        imports.insert(known, path);
    }
}

/// The parts of a text between commas outside brackets and texts, up to the bracket that closes the text.
pub(super) fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut quoted, mut escaped) = (Vec::new(), 0_usize, 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => {
                parts.push(text[start..at].trim());
                return parts;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}
