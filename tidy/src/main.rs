//! House rules that the compiler does not check, applied to the source tree.
//!
//! `cargo run -q -p kstore-tidy` loads the workspace's files once, runs every rule of [`rules::ALL`] on them, and
//! prints each offence as `file:line: rule: what is wrong`. The crate has no dependencies, so that the answer comes
//! within seconds on a machine that has built nothing yet.

mod cargo;
mod circles;
mod crate_table;
mod floors;
mod imports;
mod manifest;
mod members;
mod offence;
mod promises;
mod release;
mod rules;
mod text;
mod tree;

use offence::Offence;
use rules::Rule;
use std::path::Path;
use std::process::ExitCode;
use tree::Tree;

const USAGE: &str = "\
Applies the house rules to the source tree.

Usage: kstore-tidy [OPTIONS] [RULE]...

Arguments:
  [RULE]...  Rules to apply; all, if none is named

Options:
      --circles  Print the modules of each crate that import each other, directly or through others
      --list     List the rules
  -h, --help     Print this text

Each offence is a line `file:line: rule: what is wrong`. The exit code is 1 if there is an offence, and 2 if the
rules could not run.";

/// Fewest Rust files of a tree that was found and read.
const FEWEST_SOURCES: usize = 100;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h")) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--list") {
        for rule in rules::ALL {
            println!("{:24} {}", rule.name, rule.summary);
        }
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "--circles") {
        return match load() {
            Ok(tree) => {
                print!("{}", circles::report(&tree));
                ExitCode::SUCCESS
            }
            Err(reason) => fail(&reason),
        };
    }
    match apply(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(reason) => fail(&reason),
    }
}

fn fail(reason: &str) -> ExitCode {
    eprintln!("error: {reason}");
    ExitCode::from(2)
}

/// Reads the workspace that this crate is a folder of.
fn load() -> Result<Tree, String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("this crate is a folder of the workspace")?;
    let tree = Tree::load(root)?;
    let sources = tree.sources().count();
    if sources < FEWEST_SOURCES {
        return Err(format!("{} has only {sources} Rust files: is it the workspace?", root.display()));
    }
    Ok(tree)
}

/// Applies the named rules, prints their offences and the final line, and returns the number of offences.
fn apply(names: &[String]) -> Result<usize, String> {
    let chosen = choose(names)?;
    let tree = load()?;
    let mut total = 0;
    for rule in &chosen {
        let mut offences: Vec<Offence> = (rule.check)(&tree);
        offences.sort();
        offences.dedup();
        for Offence { path, line, text } in &offences {
            println!("{path}:{line}: {}: {text}", rule.name);
        }
        total += offences.len();
    }
    println!("{}, {}", count(chosen.len(), "rule"), count(total, "offence"));
    Ok(total)
}

/// The rules with these names, or all rules if there are no names.
fn choose(names: &[String]) -> Result<Vec<Rule>, String> {
    if names.is_empty() {
        return Ok(rules::ALL.to_vec());
    }
    let find = |name: &String| rules::ALL.into_iter().find(|rule| rule.name == name);
    names
        .iter()
        .map(|name| {
            find(name).ok_or_else(|| match name.starts_with('-') {
                true => format!("unknown option '{name}': see --help"),
                false => format!("unknown rule '{name}': --list has the rules"),
            })
        })
        .collect()
}

/// A number with its noun.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_chosen_by_name_and_unknown_names_are_refused() {
        let names = |names: &[&str]| choose(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&[]).unwrap().len(), rules::ALL.len());
        let two = names(&["file-length", "biased-select"]).unwrap();
        assert_eq!(two.iter().map(|rule| rule.name).collect::<Vec<_>>(), ["file-length", "biased-select"]);
        assert_eq!(names(&["length"]).err().unwrap(), "unknown rule 'length': --list has the rules");
        assert_eq!(names(&["--all"]).err().unwrap(), "unknown option '--all': see --help");
    }

    #[test]
    fn rule_names_are_unique() {
        for rule in rules::ALL {
            assert_eq!(rules::ALL.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
        }
    }

    #[test]
    fn counts_agree_with_their_nouns() {
        assert_eq!(format!("{}, {}", count(1, "rule"), count(0, "offence")), "1 rule, 0 offences");
    }
}
