//! Names of API groups and versions: the parts of an `apiVersion`, and the priority of versions.

use std::cmp::{Ordering, Reverse};

/// Splits an `apiVersion` into group and version: `apps/v1` into (`apps`, `v1`), `v1` into (empty, `v1`).
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Name of the OpenAPI model of a custom kind, such as `com.example.v1.Foo`.
#[must_use]
pub fn model_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// Stability of a version, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stability {
    Alpha,
    Beta,
    Stable,
}

/// Orders version names by descending priority: `v2`, `v1`, `v2beta1`, `v1beta2`, `v1alpha1`, then all other names alphabetically.
#[must_use]
pub fn by_priority(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Parses stability, major and minor number of a name such as `v1` or `v2beta3`.
fn parse(version: &str) -> Option<(Stability, i64, i64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = number(rest)?;
    if rest.is_empty() {
        return Some((Stability::Stable, major, 0));
    }
    let (stability, rest) = match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
        (Some(rest), _) => (Stability::Alpha, rest),
        (None, Some(rest)) => (Stability::Beta, rest),
        (None, None) => return None,
    };
    let (minor, rest) = number(rest)?;
    rest.is_empty().then_some((stability, major, minor))
}

/// Parses the number at the start of a text, without leading zeros; also returns the rest.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.starts_with('0') {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_precede_beta_alpha_and_other_names() {
        let sorted = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v1beta2",
            "v12alpha1",
            "v11alpha2",
            "bar",
            "foo",
            "v01",
            "v1gamma1",
            "v99999999999999999999",
        ];
        let mut shuffled = sorted.to_vec();
        shuffled.reverse();
        shuffled.sort_by(|a, b| by_priority(a, b));
        assert_eq!(shuffled, sorted);
    }
}
