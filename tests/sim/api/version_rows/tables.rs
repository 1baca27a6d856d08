//! [`Tables`]: the tables of fields and gates as their files state them, so that a test expects what a row says and not what the code
//! under test makes of it. The notation is that of `api/src/schema/mod.rs` and `api/src/gate/mod.rs`.

use kstore_api::version::{Minor, Versions};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Whether a member has one value, a list or a map of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    One,
    List,
    Map,
}

/// One line of a type.
#[derive(Debug)]
pub(super) struct Line {
    name: String,
    /// The type of the value or of its elements: the name of a scalar, or that of a type, such as `core/v1.PodSpec`.
    elem: String,
    shape: Shape,
    versions: Versions,
    gates: Vec<String>,
}

/// The lines of a type, and the types whose members it has inline.
#[derive(Debug, Default)]
struct Lines {
    own: Vec<Line>,
    inline: Vec<String>,
}

/// All types by package and name, and the gates with their cells.
#[derive(Debug, Default)]
pub(super) struct Tables {
    types: BTreeMap<String, Lines>,
    gates: BTreeMap<String, Vec<String>>,
}

/// The versions that the marks `since=` and `until=` of a line state.
fn marked(words: &[&str]) -> Versions {
    let mark = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)).map(str::parse::<Minor>);
    let first = mark("since=").map_or(Minor::V33, |minor| minor.expect("a mark names a version"));
    let last = mark("until=").map_or(Minor::V37, |minor| minor.expect("a mark names a version"));
    Versions::between(first, last)
}

impl Line {
    fn read(words: &[&str], package: &str) -> Self {
        let mut elem = words[2];
        let mut shape = Shape::One;
        loop {
            (elem, shape) = match (elem.strip_prefix("[]"), elem.strip_prefix("{}"), elem.strip_prefix('*')) {
                (Some(rest), ..) => (rest, Shape::List),
                (_, Some(rest), _) => (rest, Shape::Map),
                (.., Some(rest)) => (rest, shape),
                _ => break,
            };
        }
        let gates = words.iter().find_map(|word| word.strip_prefix("gate=")).unwrap_or_default();
        Self {
            name: words[0].to_owned(),
            elem: full_name(elem, package),
            shape,
            versions: marked(words),
            gates: gates.split('+').filter(|gate| !gate.is_empty()).map(str::to_owned).collect(),
        }
    }

    fn in_shape(&self, value: Value) -> Value {
        match self.shape {
            Shape::One => value,
            Shape::List => json!([value]),
            Shape::Map => json!({"k": value}),
        }
    }

    /// The values of a member, each with what its path has behind the member's name.
    fn items<'v>(&self, value: &'v Value) -> Vec<(String, &'v Value)> {
        match (self.shape, value) {
            (Shape::List, Value::Array(items)) => {
                items.iter().enumerate().map(|(at, item)| (format!("[{at}]"), item)).collect()
            }
            (Shape::Map, Value::Object(items)) => {
                items.iter().map(|(key, item)| (format!(".{key}"), item)).collect()
            }
            _ => vec![(String::new(), value)],
        }
    }
}

/// A type's name with its package; names of scalars begin with a small letter and have none.
fn full_name(word: &str, package: &str) -> String {
    let is_scalar = !word.contains('/') && word.starts_with(|c: char| c.is_lowercase());
    if is_scalar || word.contains('/') { word.to_owned() } else { format!("{package}.{word}") }
}

/// A value of a scalar type that decodes.
fn scalar(elem: &str) -> Value {
    match elem {
        "str" | "quantity" | "intstr" => json!("1"),
        "bool" => json!(true),
        "i32" | "i64" | "f64" => json!(1),
        "bytes" => json!("MQ=="),
        "time" => json!("2026-01-02T03:04:05Z"),
        "microtime" => json!("2026-01-02T03:04:05.000000Z"),
        "items" => json!(["1"]),
        _ => json!({}),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/schema")
}

impl Tables {
    /// Reads the files.
    pub(super) fn read() -> Self {
        let mut tables = Self::default();
        for entry in std::fs::read_dir(folder()).expect("the tables of fields are in a folder") {
            let path = entry.expect("the folder is listed").path();
            if path.extension().is_some_and(|extension| extension == "tbl") {
                tables.add(&std::fs::read_to_string(path).expect("a table is text"));
            }
        }
        let gates = std::fs::read_to_string(folder().join("gates.txt")).expect("the table of gates is text");
        for line in gates.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace().map(str::to_owned);
            let name = words.next().expect("a line names its gate");
            tables.gates.insert(name, words.take(Minor::ALL.len()).collect());
        }
        tables
    }

    fn add(&mut self, text: &str) {
        let (mut package, mut ty) = (String::new(), String::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[0] == "@" {
                words[1].clone_into(&mut package);
            } else if !line.starts_with("  ") {
                ty = format!("{package}.{}", words[0]);
                self.types.entry(ty.clone()).or_default();
            } else {
                let lines = self.types.get_mut(&ty).expect("a field follows its type");
                match words[0] {
                    "^" => lines.inline.push(full_name(words[2], &package)),
                    _ => lines.own.push(Line::read(&words, &package)),
                }
            }
        }
    }

    /// The lines of each member of a type, inlined ones too. Lines of one member have versions without an overlap.
    fn members(&self, ty: &str) -> BTreeMap<&str, Vec<&Line>> {
        let mut members: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
        let Some(lines) = self.types.get(ty) else { return members };
        for line in &lines.own {
            members.entry(&line.name).or_default().push(line);
        }
        for inline in &lines.inline {
            members.extend(self.members(inline));
        }
        members
    }

    /// An object of a type with each member that some version lacks, at any depth, and nothing else; `None` if it has none. `reached`
    /// gets the names of these members with their types. Types inside themselves are those of JSON schemas.
    pub(super) fn probe(&self, ty: &str, within: &[&str], reached: &mut BTreeSet<String>) -> Option<Value> {
        if within.contains(&ty) {
            return None;
        }
        let within = [within, &[ty]].concat();
        let mut object = serde_json::Map::new();
        for (name, lines) in self.members(ty) {
            let line = lines[0];
            let nested = self.probe(&line.elem, &within, reached);
            if is_in_all(&lines) && nested.is_none() {
                continue;
            }
            if !is_in_all(&lines) {
                reached.insert(format!("{ty}.{name}"));
            }
            let value = nested.unwrap_or_else(|| scalar(&line.elem));
            object.insert(name.to_owned(), line.in_shape(value));
        }
        (!object.is_empty()).then_some(Value::Object(object))
    }

    /// The paths of the members of a value that a version lacks; nothing below them.
    pub(super) fn unknown(&self, minor: Minor, ty: &str, value: &Value, path: &str) -> BTreeSet<String> {
        let mut unknown = BTreeSet::new();
        self.walk(ty, value, path, &mut |path, lines| {
            let known = lines.iter().any(|line| line.versions.has(minor));
            if !known {
                unknown.insert(path.to_owned());
            }
            known
        });
        unknown
    }

    /// The paths of the members of a value that a version has behind gates: each with whether all of its gates are on.
    pub(super) fn gated(&self, minor: Minor, ty: &str, value: &Value) -> BTreeMap<String, bool> {
        let mut gated = BTreeMap::new();
        self.walk(ty, value, "", &mut |path, lines| {
            let Some(line) = lines.iter().find(|line| line.versions.has(minor)) else { return false };
            if !line.gates.is_empty() {
                gated.insert(path.to_owned(), line.gates.iter().all(|gate| self.is_on(minor, gate)));
            }
            true
        });
        gated
    }

    /// Whether a gate is on by default. One that the version does not know any more is on for good.
    fn is_on(&self, minor: Minor, gate: &str) -> bool {
        let cell = &self.gates[gate][minor as usize];
        cell == "." || cell.contains('+')
    }

    /// Calls `visit` with the path and lines of each member of a value that a type has; it says whether to look below.
    fn walk(&self, ty: &str, value: &Value, path: &str, visit: &mut dyn FnMut(&str, &[&Line]) -> bool) {
        let members = self.members(ty);
        for (name, member) in value.as_object().into_iter().flatten() {
            let Some(lines) = members.get(name.as_str()) else { continue };
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if visit(&path, lines) {
                for (suffix, item) in lines[0].items(member) {
                    self.walk(&lines[0].elem, item, &format!("{path}{suffix}"), visit);
                }
            }
        }
    }

    /// The members of all types that some version lacks.
    pub(super) fn marked(&self) -> BTreeSet<String> {
        let members = |ty: &'_ String| {
            let lines = self.members(ty).into_iter().filter(|(_, lines)| !is_in_all(lines));
            lines.map(|(name, _)| format!("{ty}.{name}")).collect::<Vec<_>>()
        };
        self.types.keys().flat_map(members).collect()
    }
}

/// Whether every version has one of the lines.
fn is_in_all(lines: &[&Line]) -> bool {
    Minor::ALL.into_iter().all(|minor| lines.iter().any(|line| line.versions.has(minor)))
}
