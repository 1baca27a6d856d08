//! What a client is warned of, within Kubernetes' bounds: each text once, and not more in all than fits into headers. Pure.

use kstore_api::meta;
use serde_json::Value;

/// Characters of all warnings together; beyond it each is cut.
const ALL: usize = 4096;
/// Characters that are left of each then.
const EACH: usize = 256;

/// The warnings to send, in order. A text with control characters fits into no header and is left out, as in Kubernetes.
pub(super) fn bounded(warnings: Vec<String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::with_capacity(warnings.len());
    for warning in warnings {
        if !warning.is_empty() && !warning.contains(char::is_control) && !once.contains(&warning) {
            once.push(warning);
        }
    }
    let length = |warning: &String| warning.chars().count();
    if once.iter().map(length).sum::<usize>() <= ALL {
        return once;
    }
    let mut left = ALL;
    let mut cut = Vec::new();
    for warning in once {
        let short: String = warning.chars().take(EACH).collect();
        let Some(rest) = left.checked_sub(length(&short)) else { break };
        left = rest;
        cut.push(short);
    }
    cut
}

/// Drops owner references that an object names twice; what its writer is told then. `when` they were found, if not at once.
pub(super) fn same_owners(object: &mut Value, when: &str) -> Option<String> {
    let dropped = meta::drop_same_owners(object);
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
    fn a_warning_is_said_once_and_all_of_them_fit() {
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
