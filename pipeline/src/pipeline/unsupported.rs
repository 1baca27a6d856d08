//! Warnings for objects that are stored and have no effect here, although they would have one in a Kubernetes
//! cluster: a table of kinds with the warning for their writers. Without the warning, a test of such an
//! object would pass with any content. Remove a kind's row once the feature works. Pure. Kubernetes' own
//! warnings are in `kstore_api::validate::warnings`.
//!
//! The server records no Events about these objects: no real cluster has such an Event, and tests count
//! Events. The header reaches the writer, and clients print or log it.

use super::Answer;
use kstore_registry::request::{Action, Target};
use kstore_registry::user::UserInfo;
use serde_json::Value;

/// The components that run in the apiserver's process. The apiserver warns only about features that these
/// components lack: another process may run a kube-controller-manager that has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalComponents {
    /// kstore's controllers.
    pub controllers: bool,
    /// What the simulated nodes read, for warnings about what they do not understand.
    pub simulation: Option<SimulationCheck>,
}

/// What simulated nodes read besides Kubernetes' objects: annotations, and the kinds of a group.
#[derive(Clone, Copy, Debug)]
pub struct SimulationCheck {
    /// The prefix of the annotations' names. Built-in objects without it are not checked.
    pub prefix: &'static str,
    /// The API group of the kinds, which are custom ones.
    pub group: &'static str,
    /// What is wrong with the annotations in an object of this kind, or with an object of the group, each in a sentence.
    pub problems: fn(kind: &str, object: &Value) -> Vec<String>,
}

impl LocalComponents {
    /// Every component.
    pub const ALL: Self = Self { controllers: true, simulation: None };
}

/// A kind whose objects no controller here acts on, with its warning.
struct Row {
    group: &'static str,
    kind: &'static str,
    text: &'static str,
}

const fn row(group: &'static str, kind: &'static str, text: &'static str) -> Row {
    Row { group, kind, text }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("storage.k8s.io", "VolumeAttachment", "this server runs no controller for VolumeAttachments: this one is stored and attaches nothing"),
];

/// The warning for `user`, who wrote an object to `target`. Components get no warnings.
pub(super) fn warning(
    local: LocalComponents,
    user: &UserInfo,
    target: &Target,
    action: &Action,
) -> Option<&'static str> {
    if !writes_object(target, action) || is_component(user) {
        return None;
    }
    let resource = target.resource;
    let row = ROWS.iter().find(|row| (row.group, row.kind) == (resource.group, resource.kind))?;
    local.controllers.then_some(row.text)
}

/// The warnings for `user` about what simulated nodes do not understand in an object that it wrote: annotations, and kinds of their own.
/// Service accounts of the cluster's own controllers, which copy the annotations of others, get none.
pub(super) fn simulation_warnings(
    local: LocalComponents,
    user: &UserInfo,
    target: &Target,
    action: &Action,
    answer: &Answer,
) -> Vec<String> {
    let (Some(check), Answer::Object(written)) = (local.simulation, answer) else { return Vec::new() };
    let is_silent = is_component(user) || user.username.starts_with("system:serviceaccount:kube-system:");
    let entry = &written.entry;
    let is_read = entry.mentions(check.prefix) || target.custom.is_some() && entry.mentions(check.group);
    if is_silent || !writes_object(target, action) || !is_read {
        return Vec::new();
    }
    (check.problems)(target.resource.kind, &entry.parse_without_managed_fields())
}

/// Whether an action writes the whole object. Writes to the status are by components that do act on the
/// object.
fn writes_object(target: &Target, action: &Action) -> bool {
    let writes = match action {
        Action::Create(..) | Action::Update(..) | Action::Patch(..) => true,
        Action::Get(_)
        | Action::List(_)
        | Action::Watch(_)
        | Action::Delete(..)
        | Action::DeleteCollection(..) => false,
    };
    writes && target.subresource.is_empty()
}

/// Whether a user is a component of the cluster. Service accounts are not: arbitrary pods use them.
fn is_component(user: &UserInfo) -> bool {
    user.username.starts_with("system:") && !user.username.starts_with("system:serviceaccount:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use kstore_registry::request::{Body, WriteOptions};

    fn warned(local: LocalComponents, user: &str, kind: (&str, &str)) -> Option<&'static str> {
        let resource = kind::lookup_api_version(kind.0, kind.1).unwrap();
        let target =
            Target { resource, custom: None, subresource: "", namespace: "a".into(), name: "x".into() };
        let action = Action::Create(Body::json(bytes::Bytes::new()), WriteOptions::default());
        warning(local, &UserInfo::new(user, [""; 0]), &target, &action)
    }

    #[test]
    fn every_row_has_a_stored_kind_and_its_warning_names_it() {
        for row in ROWS {
            let version = kind::versions(row.group).next().unwrap();
            let resource = kind::resources_of(row.group, version).find(|resource| resource.kind == row.kind);
            assert!(resource.is_some_and(|resource| resource.is_stored()), "{}", row.kind);
            assert!(row.text.contains(row.kind), "{}", row.text);
        }
    }

    #[test]
    fn writers_are_warned_of_objects_that_are_stored_and_not_enforced() {
        let all = LocalComponents::ALL;
        let attachment = ("storage.k8s.io/v1", "VolumeAttachment");
        let text =
            "this server runs no controller for VolumeAttachments: this one is stored and attaches nothing";
        assert_eq!(warned(all, "ann", attachment), Some(text));
        assert_eq!(warned(all, "ann", ("networking.k8s.io/v1", "NetworkPolicy")), None);
        assert_eq!(warned(all, "ann", ("resource.k8s.io/v1", "ResourceClaim")), None);
        assert_eq!(warned(all, "ann", ("v1", "ConfigMap")), None);
        assert_eq!(warned(all, "ann", ("v1", "LimitRange")), None);
        assert!(warned(all, "system:serviceaccount:a:b", attachment).is_some());
        assert_eq!(warned(all, "system:apiserver", attachment), None);
    }

    #[test]
    fn features_of_components_in_other_processes_yield_no_warning() {
        let attachment = ("storage.k8s.io/v1", "VolumeAttachment");
        assert_eq!(warned(LocalComponents::default(), "ann", attachment), None);
    }
}
