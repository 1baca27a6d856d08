//! LimitPodHardAntiAffinityTopology: required pod anti-affinity may use only the host topology, so that a pod
//! cannot reserve a whole zone.

use crate::plugin::{Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_api::object::{list, text};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

const HOST: &str = "kubernetes.io/hostname";

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    kinds: &[("", "pods")],
    validates: &[Operation::Create, Operation::Update],
    ..Row::new("LimitPodHardAntiAffinityTopology", || Arc::new(LimitPodHardAntiAffinityTopology))
};

struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let subject = review.subject;
        let Some(pod) = new else { return Ok(()) };
        let anti_affinity = &pod["spec"]["affinity"]["podAntiAffinity"];
        let terms = list(&anti_affinity["requiredDuringSchedulingIgnoredDuringExecution"]);
        match terms.iter().map(|term| text(&term["topologyKey"])).find(|key| *key != HOST) {
            None => Ok(()),
            Some(key) => subject.refuse(&format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
            )),
        }
    }
}
