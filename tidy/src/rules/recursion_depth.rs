//! Code that clients feed does not call itself without counting its depth: a value or a program that nests a hundred thousand levels ends
//! the process, whatever its size.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "recursion-depth",
    summary: "functions on values and programs of clients count their depth, or are known to be bounded",
    check,
};

/// Folders in which code reads what clients send, without a type that bounds its depth.
const FOLDERS: [&str; 10] = [
    "api/src/patch/",
    "api/src/yaml/",
    "storage/src/",
    "registry/src/",
    "access/src/",
    "admission/src/",
    "pipeline/src/",
    "apiserver/src/",
    "container-sim/src/",
    "kubelet-sim/src/",
];

/// Fewest files that the rule must read.
const FEWEST: usize = 400;

/// Words of a parameter that counts.
const COUNTS: [&str; 4] = ["depth", "level", "nesting", "left:"];

/// Functions that call themselves on what is bounded already: file, name, and by what.
const BOUNDED: [(&str, &str, &str); 27] = [
    ("api/src/patch/apply/configuration.rs", "find_atomics", "decoded values"),
    ("api/src/patch/apply/creation.rs", "shape_of", "decoded values"),
    ("api/src/patch/apply/merge.rs", "restore", "decoded values"),
    ("api/src/patch/apply/set.rs", "from_json", "decoded values"),
    ("api/src/patch/apply/typed.rs", "literal", "decoded values"),
    ("api/src/patch/apply/walk.rs", "collect", "decoded values"),
    ("api/src/patch/apply/walk.rs", "remove", "decoded values"),
    ("api/src/patch/strategic/mod.rs", "in_go", "decoded values"),
    ("api/src/patch/strategic/mod.rs", "without_directives", "decoded values"),
    ("api/src/patch/strategic/reference.rs", "plain", "decoded values, in tests"),
    ("api/src/yaml/encode.rs", "put_list", "decoded values"),
    ("api/src/yaml/encode.rs", "put_map", "decoded values"),
    ("api/src/yaml/mod.rs", "key", "an alias, whose target is none"),
    ("access/src/authz/coverage.rs", "covers_rest", "the number of dimensions of a rule"),
    ("registry/src/entry/partial_decode.rs", "of", "paths in our code"),
    ("registry/src/decode/fuzzing.rs", "have_same_shape", "decoded values, in fuzz targets"),
    ("apiserver/src/fuzzing/mod.rs", "run", "a variable of this name"),
    ("storage/src/encryption/config/document.rs", "unknown_fields", "a configuration file"),
    ("registry/src/provenance/changes.rs", "set", "the depth of a trace"),
    ("registry/src/provenance/changes.rs", "updates", "the depth of a trace"),
    ("apiserver/src/rest/trace.rs", "add_writes", "the depth of a trace"),
    ("apiserver/src/rest/trace.rs", "without", "the depth of a trace"),
    ("container-sim/src/log/read.rs", "step", "an end that the next call finds"),
    ("container-sim/src/shell/tools/awk/parse.rs", "expr", "a counter of its reader"),
    ("container-sim/src/shell/tools/awk/parse.rs", "unary", "a counter of its reader"),
    ("container-sim/src/shell/files.rs", "make_folders", "the length of a path"),
    ("container-sim/src/shell/files.rs", "walk", "the length of a path"),
];

fn check(tree: &Tree) -> Vec<Offence> {
    let is_ours = |file: &&File| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    let files: Vec<_> = tree.sources().filter(is_ours).filter(|file| !file.is_test()).collect();
    let mut offences = Vec::new();
    let mut met = Vec::new();
    for file in &files {
        for (number, name) in recursive(file.code()) {
            let known = BOUNDED.iter().position(|(path, known, _)| *path == file.path && *known == name);
            match known {
                Some(row) => met.push(row),
                None => {
                    let text = format!(
                        "`{name}` calls itself without a parameter that counts its depth: count it, or say in the rule what bounds it"
                    );
                    offences.push(Offence::new(&file.path, number, text));
                }
            }
        }
    }
    if files.len() >= FEWEST {
        for (row, (path, name, _)) in BOUNDED.iter().enumerate().filter(|(row, _)| !met.contains(row)) {
            let text =
                format!("`{name}` does not call itself any more: strike line {} of the rule's list", row + 1);
            offences.push(Offence::new(path, 1, text));
        }
    }
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "files"));
    offences
}

/// The functions of a file that call themselves and have no parameter that counts: line and name.
fn recursive(code: &str) -> Vec<(usize, &str)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = format!("{indent}}}");
        // The signature ends with the line that opens the body; a declaration in a trait has none.
        let Some(open) = lines[index..].iter().position(|line| line.ends_with('{') || line.ends_with(';'))
        else {
            continue;
        };
        if lines[index + open].ends_with(';') {
            continue;
        }
        let signature = lines[index..=index + open].join(" ");
        let body = lines[index + open + 1..].iter().take_while(|line| **line != close);
        let counts = COUNTS.iter().any(|word| signature.to_lowercase().contains(word));
        let is_method = belongs_to_type(&lines[..index], indent.len());
        if !counts && body.clone().any(|line| calls(line, name, is_method)) {
            found.push((index + 1, name));
        }
    }
    found
}

/// Whether a function with this indentation belongs to a type or trait: it calls another function by the name alone.
fn belongs_to_type(before: &[&str], indent: usize) -> bool {
    let outer = before.iter().rev().find(|line| {
        !line.trim().is_empty() && line.len() - line.trim_start().len() < indent && line.ends_with('{')
    });
    outer.is_some_and(|line| line.contains("impl") || line.contains("trait "))
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, rest) = line.split_once("fn ")?;
    let is_function = before.is_empty() || before.ends_with(' ') && !before.contains(['"', '/', '(']);
    let is_visible = before.starts_with("pub(") && before.ends_with(' ');
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    ((is_function || is_visible) && matches!(&rest[end..=end], "(" | "<")).then_some(&rest[..end])
}

/// Whether a line calls the function of this name in which it is: a method on its own value, a function by its name alone.
fn calls(line: &str, name: &str, is_method: bool) -> bool {
    let line = line.split("//").next().unwrap_or_default();
    line.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = &line[..at];
        // A method of a trait may call that of its type.
        let is_forwarded = line[at + name.len()..].starts_with("(self");
        let is_part = before.ends_with(|c: char| c.is_ascii_alphanumeric() || ['_', '.', ':'].contains(&c));
        match is_method {
            true => before.ends_with("self.") || before.ends_with("Self::") && !is_forwarded,
            false => before.ends_with("Self::") || !is_part && !before.trim_end().ends_with("fn"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_without_a_count_is_found() {
        let text = "\
fn walk(value: &Value) {
    for inner in value {
        walk(inner);
    }
}

impl A {
    pub(super) fn sum(&self, depth: usize) -> usize {
        self.sum(depth - 1)
    }

    fn other(&self) {
        self.inner.other();
        // other()
        another();
    }

    fn method(&self) {
        if true {
            self.method()
        }
    }

    fn forwards(value: u8) {
        forwards(value)
    }

    fn number(&self) -> usize;
}
";
        assert_eq!(recursive(text), [(1, "walk"), (18, "method")]);
        let files = [
            ("container-sim/src/a.rs", "fn a() {\n    a()\n}\n"),
            ("store/src/a.rs", "fn a() {\n    a()\n}\n"),
        ];
        let found = crate::rules::offences_of(RULE, files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("container-sim/src/a.rs:1: `a` calls itself"), "{found:?}");
    }
}
