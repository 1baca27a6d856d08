//! LimitPodHardAntiAffinityTopology: required pod anti-affinity may use only the host topology, so that a pod
//! cannot reserve a whole zone.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::object::{list, text};
use kstore_api::status::Status;
use serde_json::Value;

const HOST: &str = "kubernetes.io/hostname";

pub(super) struct LimitPodHardAntiAffinityTopology;

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn validate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        new: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        let is_write = matches!(subject.operation, Operation::Create | Operation::Update);
        let Some(pod) = new.filter(|_| is_write && subject.subresource.is_empty()) else { return Ok(()) };
        let anti_affinity = &pod["spec"]["affinity"]["podAntiAffinity"];
        let terms = list(&anti_affinity["requiredDuringSchedulingIgnoredDuringExecution"]);
        match terms.iter().map(|term| text(&term["topologyKey"])).find(|key| *key != HOST) {
            None => Ok(()),
            Some(key) => Err(subject.forbidden(&format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOST} is allowed"
            ))),
        }
    }
}
