//! Updates of a pod that are checked again. Of all that the controls check, only images can change later, and
//! ephemeral containers can be added.

use kstore_api::object::list;
use serde_json::Value;

/// Whether an update can introduce a violation.
pub(super) fn is_significant(pod: &Value, old: &Value) -> bool {
    let (spec, old) = (&pod["spec"], &old["spec"]);
    let are_changed = ["containers", "initContainers"].into_iter().any(|name| {
        let (own, old) = (list(&spec[name]), list(&old[name]));
        own.len() != old.len() || own.iter().zip(old).any(|(own, old)| own["image"] != old["image"])
    });
    are_changed
        || list(&spec["ephemeralContainers"]).iter().any(|own| {
            let before = list(&old["ephemeralContainers"]).iter().find(|old| old["name"] == own["name"]);
            before.is_none_or(|before| before["image"] != own["image"])
        })
}
