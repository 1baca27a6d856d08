//! Programs of simulated containers make nothing of a size that they choose: memory for output is reserved before it is made.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "bounded-output",
    summary: "the shell of containers collects no output beside its reserved buffers",
    check,
};

const FOLDER: &str = "container-sim/src/shell/";

/// Files that own the reserved buffers.
const BUFFERS: [&str; 2] = ["container-sim/src/shell/memory.rs", "container-sim/src/shell/disk.rs"];

/// Ways to make bytes of a size that is not known here.
const COLLECTS: [&str; 7] = [
    ".repeat(",
    "with_capacity(",
    "vec![0",
    "vec![b'",
    "read_to_end(",
    "read_to_string(",
    "collect::<Vec<u8>>",
];

/// Words of a line whose bytes are reserved or bounded: `room` is the name of a reservation.
const RESERVED: [&str; 2] = ["room", ".take("];

/// Fewest files that the rule must read.
const FEWEST: usize = 12;

fn check(tree: &Tree) -> Vec<Offence> {
    let ours = tree.sources().filter(|file| file.path.starts_with(FOLDER) && !file.is_test());
    let files: Vec<_> = ours.filter(|file| !BUFFERS.contains(&file.path.as_str())).collect();
    let collects = |line: &str| {
        COLLECTS.iter().any(|way| line.contains(way)) && !RESERVED.iter().any(|word| line.contains(word))
    };
    let wrong = files.iter().flat_map(|file| file.wrong_lines(collects)).map(|offence| {
        let text = format!("makes bytes without a reservation: push them into a `Buffer`: {}", offence.text);
        Offence { text, ..offence }
    });
    let mut offences: Vec<_> = wrong.collect();
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "files"));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collected_output_is_found() {
        let text = "fn a() {\n    let b = text.repeat(count);\n}\n";
        let files = [("container-sim/src/shell/a.rs", text), ("container-sim/src/shell/memory.rs", text)];
        let expected = [
            "container-sim/src/shell/a.rs:2: makes bytes without a reservation: push them into a `Buffer`: let b = text.repeat(count);",
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
