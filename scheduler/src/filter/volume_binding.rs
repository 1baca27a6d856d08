//! The claims that a pod names exist and are not being deleted. The only part of upstream's VolumeBinding that is looked at:
//! volumes are not bound, nor matched with nodes. Asked before any node.

use kstore_informer::Key;

use crate::claim::Claims;
use crate::pod::PodInfo;

/// Why the pod can be on no node, in upstream's words; `None` if its claims stand.
pub fn refusal(pod: &PodInfo, claims: &Claims) -> Option<String> {
    pod.claims.iter().find_map(|name| match claims.get(&Key::new(pod.key.namespace(), name)) {
        None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
        Some(true) => Some(format!("persistentvolumeclaim \"{name}\" is being deleted")),
        Some(false) => None,
    })
}

/// Whether news of a claim may have changed what is said of `pod`.
pub fn may_help(pod: &PodInfo, claim: &Key) -> bool {
    claim.namespace() == pod.key.namespace() && pod.claims.iter().any(|name| name == claim.name())
}
