//! [`is_copy`]: annotations in which tools keep the whole object that they wrote. Those of a Secret have its values, and are hidden with
//! them.

/// Names of such annotations, after the slash: of kubectl (Argo CD writes the same one), kapp, Rancher's and Banzai Cloud's
/// appliers, and kopf, whose operators choose the part before the slash.
const COPIES: [&str; 7] = [
    "last-applied-configuration",
    "last-applied",
    "last-handled-configuration",
    "original",
    "original-diff",
    "original-diff-full",
    "applied",
];

/// Whether an annotation of this name has a copy of the object, such as `kubectl.kubernetes.io/last-applied-configuration` and
/// `kapp.k14s.io/original`.
pub fn is_copy(annotation: &str) -> bool {
    let name = annotation.rsplit_once('/').map_or(annotation, |(_, name)| name);
    COPIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_an_object_are_known_by_the_name_after_the_slash() {
        for copy in [
            "kubectl.kubernetes.io/last-applied-configuration",
            "kapp.k14s.io/original",
            "objectset.rio.cattle.io/applied",
            "banzaicloud.com/last-applied",
            "kopf.zalando.org/last-handled-configuration",
            "operator.example.com/last-handled-configuration",
        ] {
            assert!(is_copy(copy), "{copy}");
        }
        for other in ["team", "kapp.k14s.io/identity", "example.com/originals", "applied/by"] {
            assert!(!is_copy(other), "{other}");
        }
    }
}
