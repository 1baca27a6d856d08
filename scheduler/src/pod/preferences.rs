//! Decodes parts of a pod that only scores read: the owner and the names of images.

use super::WorkloadKind;
use serde::Deserialize;

/// An owner reference.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct OwnerDoc {
    api_version: String,
    kind: String,
    name: String,
    controller: Option<bool>,
}

/// The owner that controls the pod, if it is of a kind whose pods are spread by default.
pub(super) fn controller(owners: Vec<OwnerDoc>) -> Option<(WorkloadKind, String)> {
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => WorkloadKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => WorkloadKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => WorkloadKind::StatefulSet,
        _ => return None,
    };
    Some((kind, owner.name))
}

/// The image as nodes report it: with the tag `latest` if it has neither tag nor digest.
pub(super) fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        assert_eq!(with_tag("nginx"), "nginx:latest");
        assert_eq!(with_tag("host:5000/nginx"), "host:5000/nginx:latest");
        assert_eq!(with_tag("host:5000/nginx:1"), "host:5000/nginx:1");
        assert_eq!(with_tag("nginx@sha256:0"), "nginx@sha256:0");
    }
}
