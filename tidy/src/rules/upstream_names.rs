//! Every file of rules that Kubernetes has too names the functions that it follows.

use super::Rule;
use crate::offence::Offence;
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "upstream-names",
    summary: "a file of Kubernetes' rules names the functions of Kubernetes that it follows, in its first comment",
    check,
};

/// Fewest files that the rule must recognize.
const FEWEST: usize = 100;

/// Rules below these folders are searched by the names of Kubernetes' functions.
const FOLDERS: [&str; 2] = ["api/src/validate/", "api/src/defaults/"];

/// A controller is a folder of this one; its `mod.rs` names the functions.
const CONTROLLERS: &str = "controllers/src/";

/// Files of those folders that follow no function of Kubernetes: lists of modules, helpers, and controllers that
/// Kubernetes leaves to others.
const OWN: [&str; 24] = [
    "api/src/defaults/mod.rs",
    "api/src/defaults/pod/reference.rs",
    "api/src/defaults/pod/whole.rs",
    "api/src/validate/batch/mod.rs",
    "api/src/validate/check.rs",
    "api/src/validate/former.rs",
    "api/src/validate/groups/admission/mod.rs",
    "api/src/validate/groups/certificates/pem.rs",
    "api/src/validate/groups/mod.rs",
    "api/src/validate/groups/reference.rs",
    "api/src/validate/mod.rs",
    "api/src/validate/shown.rs",
    "api/src/validate/warning/other.rs",
    "api/src/validate/warning/workload.rs",
    "api/src/validate/workload/mod.rs",
    "controllers/src/apply/mod.rs",
    "controllers/src/caches/mod.rs",
    "controllers/src/certificate_signer/mod.rs",
    "controllers/src/device_taint_eviction/mod.rs",
    "controllers/src/load_balancer/mod.rs",
    "controllers/src/policy_type_checking/mod.rs",
    "controllers/src/storage_version_migrator/mod.rs",
    "controllers/src/trust_bundle_publisher/mod.rs",
    "controllers/src/volume_provisioner/mod.rs",
];

fn check(tree: &Tree) -> Vec<Offence> {
    let files: Vec<_> = tree.files.iter().filter(|file| is_port(&file.path)).collect();
    let unnamed =
        files.iter().filter(|file| !OWN.contains(&file.path.as_str()) && !names_functions(&file.text));
    let mut offences: Vec<_> = unnamed
        .map(|file| {
            let text = "names no function of Kubernetes: end the first comment with \"Follows `ValidatePodSpec`.\", \
                        or list the file in the rule";
            Offence::new(&file.path, 1, text)
        })
        .collect();
    offences.extend(Offence::if_fewer(files.len(), FEWEST, "ports of Kubernetes' rules"));
    offences
}

/// Whether a file has rules that Kubernetes has too: tests and their cases have none.
fn is_port(path: &str) -> bool {
    let Some(stem) = path.strip_suffix(".rs") else { return false };
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let is_test = name == "tests" || name == "cases" || name.ends_with("_tests") || stem.contains("/tests/");
    let is_controller = || {
        let folder = stem.strip_prefix(CONTROLLERS).and_then(|below| below.strip_suffix("/mod"));
        folder.is_some_and(|folder| !folder.contains('/'))
    };
    !is_test && (FOLDERS.iter().any(|folder| path.starts_with(folder)) || is_controller())
}

fn names_functions(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("Follows `"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_rules_without_a_function_of_kubernetes_is_found() {
        let named = "//! Validation of pods.\n//!\n//! Follows `ValidatePodSpec`.\n";
        let unnamed = "//! Validation of pods.\n\n// Follows `ValidatePodSpec`.\n";
        let files = [
            ("api/src/validate/pod/mod.rs", named),
            ("api/src/validate/node.rs", unnamed),
            ("api/src/validate/tests/mod.rs", unnamed),
            ("controllers/src/job/mod.rs", unnamed),
            ("controllers/src/job/plan.rs", unnamed),
            ("store/src/lib.rs", unnamed),
        ];
        let found = crate::rules::offences_of(RULE, files);
        let paths: Vec<_> = found.iter().filter_map(|offence| offence.split(':').next()).collect();
        assert_eq!(paths, ["api/src/validate/node.rs", "controllers/src/job/mod.rs"]);
    }
}
