//! Programs that use the informer without kstore do not pull in another kstore crate or a Kubernetes client.

use super::Rule;
use crate::cargo;
use crate::offence::Offence;
use crate::tree::Tree;
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "informer-dependencies",
    summary: "the informer depends on no transport and no Kubernetes client",
    check: the_informer_depends_on_no_transport_and_no_kubernetes_client,
};

const TREE: [&str; 4] = ["--package", "kstore-informer", "--edges", "normal"];
const MANIFEST: &str = "informer/Cargo.toml";

/// Our crates in the informer's tree: all of them, and no others.
const OURS: [&str; 3] = ["kstore-informer", "kstore-metrics-text", "kstore-nondet"];

/// Crates of transports and of Kubernetes clients.
const FOREIGN: [&str; 8] =
    ["kube-client", "kube-core", "k8s-openapi", "tonic", "prost", "hyper", "http", "rustls"];

fn the_informer_depends_on_no_transport_and_no_kubernetes_client(tree: &Tree) -> Vec<Offence> {
    cargo::tree(tree, &TREE).map_or_else(|failed| vec![failed], |output| unwanted(&output))
}

fn unwanted(output: &str) -> Vec<Offence> {
    let crates: BTreeSet<&str> = output.lines().map(cargo::name).collect();
    let is_unwanted =
        |name: &str| FOREIGN.contains(&name) || (name.starts_with("kstore-") && !OURS.contains(&name));
    let unwanted = crates.iter().filter(|name| is_unwanted(name));
    let mut offences: Vec<_> =
        unwanted.map(|name| Offence::new(MANIFEST, 1, format!("the informer depends on {name}"))).collect();
    let ours = OURS.iter().filter(|name| crates.contains(*name)).count();
    offences.extend(Offence::if_fewer(ours, OURS.len(), "of our crates in the informer's tree"));
    offences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_and_our_other_crates_are_found() {
        let output = "kstore-informer v0.1.0 (/x)\nkstore-metrics-text v0.1.0 (/x)\nkstore-nondet v0.1.0 (/x)\ntokio v1.0.0\n\
             http-body v1.0.0\n";
        assert_eq!(unwanted(output), []);
        let with = format!("{output}http v1.0.0\nkstore-store v0.1.0 (/x)\n");
        let texts: Vec<_> = unwanted(&with).into_iter().map(|offence| offence.text).collect();
        assert_eq!(texts, ["the informer depends on http", "the informer depends on kstore-store"]);
        assert_eq!(unwanted("kstore-informer v0.1.0").len(), 1, "a tree without nondet proves nothing");
    }
}
