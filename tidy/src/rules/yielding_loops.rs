//! Loops over lists of a client's message let other tasks run: a hundred thousand names that are judged without a pause occupy a worker,
//! and health checks wait.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "yielding-loops",
    summary: "loops of async functions over a client's message await something",
    check,
};

/// Folders of functions that get messages of clients.
const FOLDERS: [&str; 2] = ["apiserver/src/grpc/", "etcd/src/"];

/// Fewest loops that the rule must recognize.
const FEWEST: usize = 2;

/// What a loop over a client's list iterates.
const LISTS: [&str; 4] = ["message.", "names", "request.", "operations"];

fn check(tree: &Tree) -> Vec<Offence> {
    let ours = tree.sources().filter(|file| FOLDERS.iter().any(|folder| file.path.starts_with(folder)));
    let (mut offences, mut loops) = (Vec::new(), 0);
    for file in ours.filter(|file| !file.is_test()) {
        let lines: Vec<&str> = file.code().lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_loop(line)) {
            if !is_async(&lines[..index], line) {
                continue;
            }
            loops += 1;
            let indent = &line[..line.len() - line.trim_start().len()];
            let close = format!("{indent}}}");
            let body = lines[index + 1..].iter().take_while(|line| **line != close);
            if !body.clone().any(|line| line.contains(".await")) {
                let text = "a loop over a client's list in an async function awaits nothing: yield, or bound the list before it is decoded";
                offences.push(Offence::new(&file.path, index + 1, text));
            }
        }
    }
    offences.extend(Offence::if_fewer(loops, FEWEST, "loops"));
    offences
}

fn is_loop(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("for ") else { return false };
    let Some((_, list)) = rest.split_once(" in ") else { return false };
    LISTS.iter().any(|name| list.starts_with(name))
}

/// Whether the innermost function before a line is async.
fn is_async(before: &[&str], line: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let function = before.iter().rev().find(|earlier| {
        indent(earlier) < indent(line)
            && earlier.contains("fn ")
            && earlier.contains('(')
            && !earlier.trim_start().starts_with("//")
    });
    function.is_some_and(|function| function.contains("async fn "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_awaits_nothing_is_found_in_async_functions() {
        let text = "\
async fn a(names: Vec<String>) {
    for name in names {
        judge(name);
    }
    for name in names {
        judge(name).await;
    }
}

fn b(names: Vec<String>) {
    for name in names {
        judge(name);
    }
}
";
        let found = crate::rules::offences_of(RULE, [("apiserver/src/grpc/a.rs", text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("apiserver/src/grpc/a.rs:2: a loop"), "{found:?}");
    }
}
