//! Only the crate `cluster` assembles a control plane: it alone starts controllers, scheduler and simulated nodes, and no crate that ships
//! starts an API server beside it. A second assembly would get the next component, identity or order of end only by chance.

use super::Rule;
use crate::offence::Offence;
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "one-assembly",
    summary: "only `cluster` starts an API server, controllers, scheduler and nodes; others take its `ControlPlane` or `Component`",
    check,
};

/// Functions that start a component beside the API server, with the crates that may call them.
const COMPONENTS: [(&str, &str); 4] = [
    ("kstore_controllers::run", "controllers/"),
    ("kstore_scheduler::run", "scheduler/"),
    ("kstore_kubelet_sim::run", "kubelet-sim/"),
    ("Simulator::new", "kubelet-sim/"),
];

/// Functions that start an API server.
const SERVERS: [&str; 2] = ["ApiServer::start(", "ApiServer::start_from("];

/// Folders that may start an API server alone: its own crate, tests and measurements of it.
const ALONE: [&str; 4] = ["apiserver/", "tests/", "benches/", "fuzz/"];

/// The crate that assembles.
const ASSEMBLY: &str = "cluster/";

/// Fewest files that the rule must read.
const FEWEST: usize = 1000;

fn check(tree: &Tree) -> Vec<Offence> {
    let files: Vec<_> = tree.files.iter().filter(|file| file.path.ends_with(".rs")).collect();
    let others =
        files.iter().filter(|file| !file.path.starts_with(ASSEMBLY) && !file.path.starts_with("tidy/"));
    let mut offences: Vec<Offence> = others.flat_map(|file| starts(file)).collect();
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "files"));
    offences
}

/// The lines of a file that start a part of a control plane and may not.
fn starts(file: &File) -> Vec<Offence> {
    let path = file.path.as_str();
    let is_alone = ALONE.iter().any(|folder| path.starts_with(folder)) || path.contains("/examples/");
    let components =
        COMPONENTS.into_iter().filter(|(_, owner)| !path.starts_with(owner)).map(|(call, _)| call);
    let calls: Vec<&str> = components.chain(SERVERS.into_iter().filter(|_| !is_alone)).collect();
    let code = file.code();
    let lines = (1..).zip(code.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found =
        lines.filter_map(|(number, line)| Some((number, *calls.iter().find(|call| line.contains(**call))?)));
    found
        .map(|(number, call)| Offence::new(path, number, format!("starts a part of a control plane: {call}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_assembly_starts_components_and_servers() {
        let text = "//! A.\nfn a() {\n    kstore_controllers::run(client);\n    Simulator::new(client);\n    ApiServer::start(storage);\n    \
                    // kstore_scheduler::run is in a comment.\n}\n";
        let found = |path: &str, line: usize, call: &str| {
            format!("{path}:{line}: starts a part of a control plane: {call}")
        };
        let files = [
            ("cluster/src/a.rs", text),
            ("kubelet-sim/src/a.rs", text),
            ("server/src/a.rs", text),
            ("tests/src/a.rs", text),
        ];
        let expected = [
            found("kubelet-sim/src/a.rs", 3, "kstore_controllers::run"),
            found("kubelet-sim/src/a.rs", 5, "ApiServer::start("),
            found("server/src/a.rs", 3, "kstore_controllers::run"),
            found("server/src/a.rs", 4, "Simulator::new"),
            found("server/src/a.rs", 5, "ApiServer::start("),
            found("tests/src/a.rs", 3, "kstore_controllers::run"),
            found("tests/src/a.rs", 4, "Simulator::new"),
        ];
        assert_eq!(crate::rules::offences_of(RULE, files), expected);
    }
}
