//! Features that the informer enables are enabled for its users as well: it selects no version of Kubernetes and only
//! the tokio features that it uses.

use super::Rule;
use crate::cargo;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "informer-features",
    summary: "the informer selects no Kubernetes version and only the tokio features that it uses",
    check: the_informer_selects_no_kubernetes_version_and_only_the_tokio_features_it_uses,
};

const TREE: [&str; 7] =
    ["--package", "kstore-informer", "--edges", "normal", "--format", "{p} {f}", "--features"];
const MANIFEST: &str = "informer/Cargo.toml";

/// Features of tokio that the informer does not use.
const FOREIGN: [&str; 7] = ["full", "fs", "io-std", "net", "process", "rt-multi-thread", "signal"];

fn the_informer_selects_no_kubernetes_version_and_only_the_tokio_features_it_uses(
    tree: &Tree,
) -> Vec<Offence> {
    let output = |feature: &str| {
        let arguments: Vec<&str> = TREE.into_iter().chain([feature]).collect();
        cargo::tree(tree, &arguments)
    };
    let both = output("kube").and_then(|kube| Ok((kube, output("testing")?)));
    both.map_or_else(|failed| vec![failed], |(kube, testing)| unwanted(&kube, &testing))
}

/// Offences in the informer's trees with its features `kube` and `testing`.
fn unwanted(kube: &str, testing: &str) -> Vec<Offence> {
    let is_version = |feature: &str| feature.starts_with("v1_");
    let is_foreign = |feature: &str| FOREIGN.contains(&feature);
    let mut offences = enabled(kube, "k8s-openapi", is_version);
    offences.extend(enabled(testing, "tokio", is_foreign));
    offences
}

/// An offence for each feature of a crate that is unwanted.
fn enabled(output: &str, name: &str, is_unwanted: impl Fn(&str) -> bool) -> Vec<Offence> {
    let Some(features) = features(output, name) else {
        return vec![Offence::new(MANIFEST, 1, format!("{name} is not in the informer's tree"))];
    };
    let unwanted = features.into_iter().filter(|feature| is_unwanted(feature));
    unwanted
        .map(|feature| Offence::new(MANIFEST, 1, format!("the informer enables {name}/{feature}")))
        .collect()
}

/// Enabled features of a crate in the output of `cargo tree`; its line is `name v1.2.3 (place) feature,feature`.
fn features<'a>(output: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let line = output.lines().find(|line| cargo::name(line) == name)?;
    let words = line.split(' ').filter(|word| !word.starts_with(['v', '(']) || word.starts_with("v1_"));
    Some(words.skip(1).flat_map(|word| word.split(',')).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_the_tree() {
        let output = "tokio-util v0.7.1 rt\ntokio v1.0.0 default,macros,rt\nk8s-openapi v0.29.0 v1_30,std\n";
        assert_eq!(features(output, "tokio"), Some(vec!["default", "macros", "rt"]));
        assert_eq!(features(output, "k8s-openapi"), Some(vec!["v1_30", "std"]));
        assert_eq!(features(output, "hyper"), None);
    }

    #[test]
    fn versions_and_unused_features_are_found() {
        let texts = |kube: &str, testing: &str| {
            unwanted(kube, testing).into_iter().map(|offence| offence.text).collect::<Vec<_>>()
        };
        assert_eq!(texts("k8s-openapi v0.29.0 std", "tokio v1.0.0 rt,sync"), <[&str; 0]>::default());
        let expected = ["the informer enables k8s-openapi/v1_30", "the informer enables tokio/net"];
        assert_eq!(texts("k8s-openapi v0.29.0 std,v1_30", "tokio v1.0.0 net,rt"), expected);
        let missing = ["k8s-openapi is not in the informer's tree", "tokio is not in the informer's tree"];
        assert_eq!(texts("", ""), missing);
    }
}
