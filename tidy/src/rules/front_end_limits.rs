//! Bounds on clients hold over every front end, or a table says why not: a bound of REST that gRPC does not ask was five times a way to
//! stop the server.

use super::Rule;
use crate::offence::Offence;
use crate::promises::functions;
use crate::text::{line_of, quoted};
use crate::tree::Tree;
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "front-end-limits",
    summary: "apiserver/LIMITS.md names a test of each bound for each front end, and knows each limit that they ask",
    check,
};

const TABLE: &str = "apiserver/LIMITS.md";

/// Files of the named limits.
const LIMITS: [&str; 3] =
    ["storage/src/limits/mod.rs", "storage/src/limits/connections.rs", "etcd/src/limits.rs"];

/// Folders whose limits are bounds on clients.
const FRONT_ENDS: [&str; 2] = ["apiserver/src/rest/", "apiserver/src/grpc/"];

/// Streams to pods and the data of the page exist over REST alone.
const REST_ALONE: [&str; 2] = ["apiserver/src/rest/stream/", "apiserver/src/rest/page_data/"];

/// Fewest rows, and fewest limits that the front ends ask.
const FEWEST: usize = 12;

fn check(tree: &Tree) -> Vec<Offence> {
    let table = match tree.expect(TABLE) {
        Ok(table) => table,
        Err(missing) => return vec![missing],
    };
    let tests: BTreeSet<&str> = functions(tree).into_iter().map(|(_, name)| name).collect();
    let known: BTreeSet<&str> =
        LIMITS.iter().filter_map(|path| tree.file(path)).flat_map(constants).collect();
    let mut offences = Vec::new();
    let mut rows = 0;
    let mut listed = BTreeSet::new();
    for line in table.text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [bound, limits, front_ends @ ..] = cells.as_slice() else { continue };
        if *bound == "bound" {
            continue;
        }
        rows += 1;
        let at = line_of(&table.text, line);
        let mut wrong = |text: String| offences.push(Offence::new(TABLE, at, text));
        for limit in quoted(limits) {
            listed.insert(limit);
            if !known.contains(limit) {
                wrong(format!("there is no limit `{limit}`"));
            }
        }
        for cell in front_ends {
            match quoted(cell).next() {
                _ if cell.starts_with('—') => {}
                Some(test) if tests.contains(test) => {}
                Some(test) => wrong(format!("there is no test `{test}`")),
                None => wrong(format!("{bound}: a cell has neither a test nor a reason")),
            }
        }
    }
    let mut used = 0;
    for file in tree.sources().filter(|file| is_front_end(&file.path) && !file.is_test()) {
        for (number, line) in file.lines() {
            for limit in limits_of(line) {
                used += 1;
                if !listed.contains(limit) {
                    let text = format!("the limit `{limit}` of a front end has no row in {TABLE}");
                    offences.push(Offence::new(&file.path, number, text));
                }
            }
        }
    }
    offences.extend(Offence::if_fewer(rows, FEWEST, "rows"));
    offences.extend(Offence::if_fewer(used, FEWEST, "limits"));
    offences
}

fn is_front_end(path: &str) -> bool {
    let is_in = |folder: &&str| path.starts_with(*folder);
    FRONT_ENDS.iter().any(&is_in) && !REST_ALONE.iter().any(is_in)
}

/// The names of a file's constants.
fn constants(file: &crate::tree::File) -> impl Iterator<Item = &str> {
    let after = file.text.split("const ").skip(1);
    after.filter_map(|rest| rest.split(':').next()).filter(|name| is_constant(name))
}

/// The limits that a line asks.
fn limits_of(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("limits::").skip(1);
    let names = after.filter_map(|rest| {
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().filter(|name| is_constant(name))
    });
    names.filter(|name| name.len() > 2)
}

fn is_constant(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_without_rows_and_cells_without_tests_are_found() {
        let table = "| bound | limits | REST | gRPC | etcd |\n|---|---|---|---|---|\n\
            | a | `ONE`, `GONE` | `a_test_of_one_bound` | — why | |\n| b | `TWO` | `no_such_test_at_all` | — | — |\n";
        let files = [
            (TABLE, table),
            (LIMITS[0], "pub const ONE: usize = 1;\npub const TWO: usize = 2;\npub const NEW: usize = 3;\n"),
            ("apiserver/src/rest/a.rs", "fn a_test_of_one_bound() { limits::ONE; limits::NEW }\n"),
            ("apiserver/src/rest/stream/b.rs", "fn b() { limits::OWN }\n"),
        ];
        let expected = [
            "apiserver/LIMITS.md:3: there is no limit `GONE`",
            "apiserver/LIMITS.md:3: a: a cell has neither a test nor a reason",
            "apiserver/LIMITS.md:4: there is no test `no_such_test_at_all`",
            "apiserver/src/rest/a.rs:1: the limit `NEW` of a front end has no row in apiserver/LIMITS.md",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
