//! Bounds on a response's warnings, as in Kubernetes: each text once, and no more than fits into headers.
//! Pure.

use kstore_api::resource::Resource;
use kstore_api::strategy;
use serde_json::Value;

/// Characters of all warnings together; beyond that each text is cut to [`CHARS_EACH`].
const CHARS_ALL: usize = 4096;
/// Characters of each warning if all together exceed [`CHARS_ALL`].
const CHARS_EACH: usize = 256;

/// The warnings to send, in order. A text with control characters does not fit into a header and is left out,
/// as in Kubernetes.
pub(super) fn bounded(warnings: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::with_capacity(warnings.len());
    for warning in warnings {
        if !warning.is_empty() && !warning.contains(char::is_control) && !once.contains(&warning) {
            once.push(warning);
        }
    }
    let length = |warning: &String| warning.chars().count();
    if once.iter().map(length).sum::<usize>() <= CHARS_ALL {
        return once;
    }
    let mut left = CHARS_ALL;
    let mut cut = Vec::new();
    for warning in once {
        let short: String = warning.chars().take(CHARS_EACH).collect();
        let Some(rest) = left.checked_sub(length(&short)) else { break };
        left = rest;
        cut.push(short);
    }
    cut
}

/// The warning that each authorized request for a deprecated kind gets, also one that reads or is refused.
pub(super) fn of_deprecated_kind(resource: &Resource) -> Vec<String> {
    resource.deprecation().into_iter().collect()
}

/// Drops duplicate owner references. Returns the warning about them; `when` says in it when they were found,
/// if not at once.
pub(super) fn duplicate_owners(object: &mut Value, when: &str) -> Option<String> {
    let dropped = strategy::drop_same_owners(object);
    (!dropped.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_warnings_are_dropped_and_long_ones_are_cut() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(bounded(texts(&["a", "b", "a", "", "two\nlines"])), texts(&["a", "b"]));
        let long = "ä".repeat(4096);
        assert_eq!(bounded(vec![long.clone()]), vec![long.clone()]);
        assert_eq!(bounded(vec![long, "b".into()]), vec!["ä".repeat(256), "b".into()]);
        let many: Vec<String> = (0..40).map(|n| format!("{n:0>300}")).collect();
        let kept = bounded(many);
        assert_eq!((kept.len(), kept[0].len()), (16, 256));
    }
}
