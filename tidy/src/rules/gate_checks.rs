//! Every check of the gate runs: it has a line with its budget, a script, and a place in the order of the run.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "gate-checks",
    summary: "a check has a budget in .ci/checks.tsv, a script in .ci/checks, and a place in .ci/run",
    check,
};

/// Fewest checks that the rule must recognize.
const FEWEST: usize = 15;

const TABLE: &str = ".ci/checks.tsv";
const SCRIPTS: &str = ".ci/checks/";
const RUN: &str = ".ci/run";

fn check(tree: &Tree) -> Vec<Offence> {
    let (table, run) = match (tree.expect(TABLE), tree.expect(RUN)) {
        (Ok(table), Ok(run)) => (table, run),
        (Err(missing), _) | (_, Err(missing)) => return vec![missing],
    };
    let mut offences = Vec::new();
    let mut names = Vec::new();
    for (number, line) in (1..).zip(table.text.lines()).filter(|(_, line)| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, when, budget] = fields[..] else {
            offences.push(Offence::new(
                TABLE,
                number,
                "the line is not `name<TAB>when<TAB>seconds`".to_owned(),
            ));
            continue;
        };
        if !matches!(when, "gate" | "all") || budget.parse::<u32>().is_err() {
            offences.push(Offence::new(
                TABLE,
                number,
                format!("`{when}`, `{budget}`: gate or all, and seconds"),
            ));
        }
        if tree.file(&format!("{SCRIPTS}{name}")).is_none() {
            offences.push(Offence::new(TABLE, number, format!("there is no script {SCRIPTS}{name}")));
        }
        let is_ordered = |line: &str| {
            let mut words = line.split_whitespace();
            matches!(words.next(), Some("one_by_one" | "beside")) && words.any(|word| word == name)
        };
        if !run.text.lines().any(is_ordered) {
            offences.push(Offence::new(TABLE, number, format!("{RUN} does not run `{name}`")));
        }
        names.push(name);
    }
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(SCRIPTS) else { continue };
        if !names.contains(&name) {
            offences.push(Offence::new(&file.path, 1, format!("{TABLE} has no line for it")));
        }
    }
    offences.extend(Offence::if_fewer(names.len(), FEWEST, "checks"));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_without_budget_script_or_place_is_found() {
        let files = [
            (".ci/checks/fmt", ""),
            (".ci/checks/lost", ""),
            (".ci/checks/stray", ""),
            (".ci/checks.tsv", "# name\tgate\t1\nfmt\tgate\t10\nlost\tall\t10\ngone\tnever\tx\nshort\n"),
            (".ci/run", "one_by_one fmt gone\n# lost\n"),
        ];
        assert_eq!(
            super::super::offences_of(RULE, files),
            [
                ".ci/checks.tsv:3: .ci/run does not run `lost`",
                ".ci/checks.tsv:4: `never`, `x`: gate or all, and seconds",
                ".ci/checks.tsv:4: there is no script .ci/checks/gone",
                ".ci/checks.tsv:5: the line is not `name<TAB>when<TAB>seconds`",
                ".ci/checks/stray:1: .ci/checks.tsv has no line for it",
            ]
        );
    }
}
