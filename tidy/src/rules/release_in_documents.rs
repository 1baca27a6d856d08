//! Files that cannot read a constant of Rust state the Kubernetes release with which kstore was compared, or the version that it serves by
//! default.

use super::Rule;
use crate::offence::Offence;
use crate::release::{self, Release};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "release-in-documents",
    summary: "manifests and documents state the Kubernetes release of `kstore_api::version`",
    check,
};

/// Files, and the words in which each states the release.
fn statements(Release { release, minor, programs, default }: &Release) -> [(&'static str, String); 11] {
    let default_minor = default.rsplit('.').next().unwrap_or_default();
    [
        ("Cargo.toml", format!("\"v1_{minor}\"")),
        ("informer/Cargo.toml", format!("K8S_OPENAPI_ENABLED_VERSION={release}.")),
        ("informer/README.md", format!("`v1_{minor}`")),
        ("python/src/kstore/_cluster.py", format!("(1, {default_minor})")),
        (".ci/comparison/fields.py", format!("(1, {default_minor})")),
        ("api/README.md", format!("Kubernetes {release} ")),
        ("api/CONFORMANCE.md", format!("Kubernetes {release} ")),
        ("apiserver/CONFORMANCE.md", format!("Kubernetes {release},")),
        ("docs/kubernetes-api.md", format!("the API of Kubernetes {default}")),
        ("docs/security.md", format!("kube-apiserver {programs}.")),
        ("docs/testing/envtest.md", format!("those of Kubernetes {default}:")),
    ]
}

fn check(tree: &Tree) -> Vec<Offence> {
    let release = match release::of(tree) {
        Ok(release) => release,
        Err(offence) => return vec![offence],
    };
    let stale = statements(&release).into_iter().filter_map(|(path, words)| match tree.expect(path) {
        Ok(file) if file.text.contains(&words) => None,
        Ok(_) => Some(Offence::new(
            path,
            1,
            format!("the file does not state the release in these words: {words}"),
        )),
        Err(missing) => Some(missing),
    });
    stale.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "macro_rules! kubernetes_release {\n() => { \"1.7\" };\n}\n\
                           macro_rules! kubernetes_default {\n() => { \"1.8\" };\n}\npub const MINOR: u64 = 7;\n\
                           pub const PROGRAMS: &str = concat!(\"v\", kubernetes_release!(), \".2\");\n";

    #[test]
    fn stale_and_missing_files_are_found() {
        let security = "Compared with kube-apiserver 1.7.2.";
        let files = [(release::PATH, VERSION), ("docs/security.md", security), ("Cargo.toml", "\"v1_6\"")];
        let offences = crate::rules::offences_of(RULE, files);
        assert_eq!(offences.len(), 10, "all but docs/security.md: {offences:?}");
        assert_eq!(offences[0], "Cargo.toml:1: the file does not state the release in these words: \"v1_7\"");
        assert_eq!(offences[1], "informer/Cargo.toml:1: the file is missing");
    }
}
