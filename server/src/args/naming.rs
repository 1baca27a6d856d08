//! The name of a cluster.

/// The name of a cluster without one of its own, and the beginning of all others.
pub(crate) const CLUSTER: &str = "kstore";

/// Parses a name, by kind's rule for names of clusters.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    match !text.is_empty() && text.len() <= 63 && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 63 of the characters a-z, 0-9, `.`, `_` and `-`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_clusters_of_kind() {
        for good in ["a", "blue-2", "1.36"] {
            assert_eq!(name(good).unwrap(), good);
        }
        for bad in ["", "Blue", "a b", "a/b", &"a".repeat(64)] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
