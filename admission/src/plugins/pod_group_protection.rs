//! PodGroupProtection: new PodGroups get the finalizer that keeps them while pods name them, and no pod joins a group that is being
//! deleted. The controller podgroup-protection removes the finalizer. The plugin has nothing to do on servers that do not serve PodGroups.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::meta;
use kstore_api::object::text;
use kstore_registry::kinds::Kinds;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

/// The group of PodGroups and Workloads.
pub(super) const GROUP: &str = "scheduling.k8s.io";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods"), (GROUP, "podgroups")],
    subresources: &[""],
    mutates: &[Operation::Create],
    validates: &[Operation::Create],
    ..Row::new("PodGroupProtection", || Arc::new(PodGroupProtection))
};

struct PodGroupProtection;

impl Plugin for PodGroupProtection {
    fn mutate(&self, review: &Review<'_>, object: &mut Value) -> Result<(), Undecided> {
        if !review.subject.resource.is(GROUP, "podgroups") {
            return Ok(());
        }
        let mut finalizers: Vec<String> = meta::finalizers(object).map(str::to_owned).collect();
        if !finalizers.iter().any(|name| name == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
            meta::set_finalizers(object, finalizers.iter().map(String::as_str));
        }
        Ok(())
    }

    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let Review { cluster, subject, .. } = *review;
        let name = new.map_or("", |pod| text(&pod["spec"]["schedulingGroup"]["podGroupName"]));
        if name.is_empty() || !subject.resource.is("", "pods") {
            return Ok(());
        }
        let Some(groups) = served(&cluster.kinds(), "podgroups") else { return Ok(()) };
        match cluster.get(groups, subject.namespace, name).filter(|group| meta::is_being_deleted(group)) {
            Some(_) => {
                let why =
                    format!("cannot create Pod referencing PodGroup {name:?} because it is being deleted");
                subject.refuse(&why)
            }
            None => Ok(()),
        }
    }
}

/// The row of a kind of the group that the server serves.
pub(super) fn served(kinds: &Kinds, plural: &str) -> Option<&'static kstore_api::resource::Resource> {
    kinds.rows().opt_in().rows().iter().copied().find(|row| row.is(GROUP, plural))
}
