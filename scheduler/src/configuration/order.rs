//! The order in which kube-scheduler reports the errors of a file: [`sorted`]. Pure.

use kstore_api::field::{ErrorList, FieldError, FieldErrorKind};

/// The members of the file in the order in which kube-scheduler checks them.
const MEMBERS: [&str; 8] = [
    "clientConnection",
    "leaderElection",
    "parallelism",
    "profiles",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "extenders",
];

/// Where an error stands: member, its item, part of the item, item of the part.
type Place = (usize, usize, usize, usize);

/// The texts of the errors in kube-scheduler's order. Errors of one place keep theirs.
pub(super) fn sorted(errors: &ErrorList) -> Vec<String> {
    let mut errors: Vec<&FieldError> = errors.iter().collect();
    errors.sort_by_key(|error| place(error));
    errors.into_iter().map(ToString::to_string).collect()
}

fn place(error: &FieldError) -> Place {
    let (member, rest) = split(&error.field);
    let at = MEMBERS.iter().position(|known| *known == member.0).unwrap_or(MEMBERS.len());
    if member.0 != "profiles" {
        // The rules of all extenders together come after those of each.
        return (at, member.1.unwrap_or(usize::MAX), 0, 0);
    }
    let (part, deeper) = split(rest);
    let is_common_sort =
        part.0 == "plugins" && deeper.starts_with("queueSort") && !deeper.contains(".enabled[");
    let rank = match part.0 {
        "schedulerName" if error.kind == FieldErrorKind::Duplicate => 4,
        "schedulerName" => 0,
        "percentageOfNodesToScore" => 1,
        "plugins" => 2,
        _ => 3,
    };
    match is_common_sort {
        true => (at, usize::MAX, 0, 0),
        false => (at, member.1.unwrap_or(usize::MAX), rank, part.1.unwrap_or_default()),
    }
}

/// The first part of a path, with its index if it has one, and the rest.
fn split(path: &str) -> ((&str, Option<usize>), &str) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, index) = first.split_once('[').unwrap_or((first, ""));
    ((name, index.trim_end_matches(']').parse().ok()), rest)
}
