//! No smoke step stops reading early: the command before the pipe then sometimes dies of SIGPIPE, and the step fails.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "smoke-steps",
    summary: "a smoke step reads all that its command writes: `sed -n 1p`, not `head`",
    check,
};

/// Fewest steps that the rule must recognize.
const FEWEST: usize = 101;

/// Folder of the steps.
const FOLDER: &str = ".ci/smoke.d/";

fn check(tree: &Tree) -> Vec<Offence> {
    let mut steps = 0;
    let mut offences = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.starts_with(FOLDER)) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if !line.trim_start().starts_with("step ") {
                continue;
            }
            steps += 1;
            if leaves_early(line) {
                offences.push(Offence::new(
                    &file.path,
                    number,
                    format!("stops reading early: {}", line.trim()),
                ));
            }
        }
    }
    offences.extend(Offence::if_fewer(steps, FEWEST, "smoke steps"));
    offences
}

/// Whether a step pipes into a command that exits before its input ends.
fn leaves_early(line: &str) -> bool {
    let mut readers = line.split('|').skip(1).map(str::trim_start);
    readers.any(|reader| ["head", "grep -q", "grep -m"].iter().any(|early| reader.starts_with(early)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_stops_reading_is_found() {
        let text = "step one 'a | sed -n 1p'\n  step two 'a | grep -q b'\nother 'a | head'\n";
        let files = [(".ci/smoke.d/a.sh", text), (".ci/b.sh", text)];
        let expected = [".ci/smoke.d/a.sh:2: stops reading early: step two 'a | grep -q b'"];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
