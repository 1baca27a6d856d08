//! No library names the commands of the program or of etcd's tools: what a library says is read in other programs, too. `server` adds the
//! commands to what the libraries report.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "program-in-library",
    summary: "no text of a library names a command of `kstore-server` or etcd's tools",
    check,
};

/// Folders that are not libraries for other programs; in `metrics-server` the name is the manager of its objects.
const PROGRAMS: [&str; 7] =
    ["server/", "tests/", "benches/", "testing/", "tidy/", "metrics-server/", "fuzz/"];

/// Names of programs in texts.
const NAMES: [&str; 3] = ["kstore-server", "etcdctl", "etcdutl"];

/// Fewest files that the rule must read.
const FEWEST: usize = 500;

fn check(tree: &Tree) -> Vec<Offence> {
    let libraries = tree.sources().filter(|file| file.path.contains("/src/") && !file.is_test());
    let files: Vec<_> =
        libraries.filter(|file| !PROGRAMS.iter().any(|folder| file.path.starts_with(folder))).collect();
    let mut offences = Vec::new();
    for file in &files {
        let lines = (1..).zip(file.code().lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (number, line) in lines.filter(|(_, line)| NAMES.iter().any(|name| line.contains(name))) {
            let text = format!("names a program in a library, `server` knows the command: {}", line.trim());
            offences.push(Offence::new(&file.path, number, text));
        }
    }
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "files"));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_the_text_of_a_library_is_found() {
        let text = "//! As `etcdctl`.\n\n// kstore-server\nconst A: &str = \"run `kstore-server store`\";\n";
        let expected = ["store/src/a.rs:4: names a program in a library, `server` knows the command: \
             const A: &str = \"run `kstore-server store`\";"];
        assert_eq!(
            crate::rules::offences_of(RULE, [("store/src/a.rs", text), ("server/src/a.rs", text)]),
            expected
        );
    }
}
