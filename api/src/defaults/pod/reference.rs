//! Grammar of image references, as `ParseNormalizedNamed` of github.com/distribution/reference reads them.

use regex::Regex;
use std::sync::LazyLock;

/// Longest name of a repository, with its domain.
const NAME_MAX: usize = 255;

/// Whether a text is an image reference: a name with an optional domain, tag and digest.
pub(super) fn is_valid(image: &str) -> bool {
    static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
        let part = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
        let host = format!(r"(?:{part}(?:\.{part})*|\[[a-fA-F0-9:]+\])");
        let component = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
        let name = format!("{host}(?::[0-9]+)?/{component}(?:/{component})*");
        let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
        let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
        Regex::new(&format!("^({name})(?::{tag})?(?:@{digest})?$")).expect("the pattern is legal")
    });
    let is_identifier = image.len() == 64 && image.bytes().all(|b| matches!(b, b'a'..=b'f' | b'0'..=b'9'));
    let found = REFERENCE.captures(&normalized(image)).is_some_and(|found| found[1].len() <= NAME_MAX);
    found && !is_identifier
}

/// The reference with its domain: images without one are at Docker Hub, those without a path in its library.
fn normalized(image: &str) -> String {
    let is_domain = |first: &str| {
        first.contains(['.', ':'])
            || first == "localhost"
            || first.bytes().any(|byte| byte.is_ascii_uppercase())
    };
    match image.split_once('/') {
        Some((first, _)) if is_domain(first) => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_valid;

    #[test]
    fn image_references_follow_the_grammar_of_registries() {
        let valid = [
            "nginx",
            "nginx:latest",
            "nginx:1.25",
            "a/b/c:v1",
            "localhost/a",
            "localhost:5000/a/b:x",
            "registry.k8s.io/pause:3.9",
            "REG/a",
            "a__b/c-d.e",
            "[2001:db8::1]:5000/a",
            "a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ];
        for image in valid {
            assert!(is_valid(image), "{image}");
        }
        let invalid = [
            "",
            "ko://github.com/x/y",
            "$(IMG)",
            "{{ .image }}",
            "a b",
            "Upper",
            "a:",
            ":tag",
            "a/",
            "a//b",
            "-a",
            "a@sha256:short",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ];
        for image in invalid {
            assert!(!is_valid(image), "{image}");
        }
    }
}
