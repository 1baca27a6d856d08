//! Objects in the informers' caches: the parts of a pod and a node that the kubelet reads, with their keys.

use crate::amounts::Amounts;
use crate::image;
use crate::node::admission::NodeProperties;
use crate::pod_object::{ContainerSpec, PodObject, PodSpec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kstore_api::lenient;
use kstore_client::ProjectedMeta;
use kstore_host_runtime::HostPrograms;
use kstore_informer::{Key, Object, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod in the cache.
#[derive(Clone, Debug)]
pub(crate) struct PodRecord {
    key: Key,
    revision: Revision,
    pub(crate) pod: PodObject,
    /// The labels, if PodBehaviors may select by them.
    pub(crate) labels: BTreeMap<String, String>,
}

impl PodRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let pod: PodObject = lenient::from_slice(json)?;
        let labels = BTreeMap::new();
        Ok(Self { key: pod.metadata.key(), revision: pod.metadata.revision(), pod, labels })
    }

    /// Decodes a pod with its labels.
    pub(crate) fn decode_labelled(json: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labelled {
            metadata: ProjectedMeta<BTreeMap<String, String>>,
        }
        let Labelled { metadata } = lenient::from_slice(json)?;
        Ok(Self { labels: metadata.labels, ..Self::decode(json)? })
    }

    /// The pod with the programs of this machine that the images of its containers are mapped to. `has_cluster`: this process has the
    /// network of the cluster.
    pub(crate) fn with_programs(self: Arc<Self>, programs: &HostPrograms, has_cluster: bool) -> Arc<Self> {
        let program = |spec: &ContainerSpec| {
            programs.program([&spec.image, &image::full_name(&spec.image)], has_cluster)
        };
        if !self.pod.containers().any(|spec| program(spec).is_some()) {
            return self;
        }
        let mut pod = self.pod.clone();
        let PodSpec { init_containers, containers, ephemeral_containers, .. } = &mut pod.spec;
        for spec in init_containers.iter_mut().chain(containers).chain(ephemeral_containers) {
            spec.program = program(spec).map(Arc::new);
        }
        let (key, labels) = (self.key.clone(), self.labels.clone());
        Arc::new(Self { key, revision: self.revision, pod, labels })
    }
}

impl PodRecord {
    /// The pod as one whose containers a container runtime runs.
    pub(crate) fn as_real(self: Arc<Self>) -> Arc<Self> {
        let mut pod = self.pod.clone();
        pod.spec.is_real = true;
        let (key, labels) = (self.key.clone(), self.labels.clone());
        Arc::new(Self { key, revision: self.revision, pod, labels })
    }
}

impl Object for PodRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.pod.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

/// A node in the cache.
#[derive(Debug)]
pub(crate) struct NodeRecord {
    key: Key,
    revision: Revision,
    object: NodeObject,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeObject {
    metadata: ProjectedMeta<BTreeMap<String, String>, BTreeMap<String, String>, IgnoredAny, Time>,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pod_cidr: String,
    taints: Vec<Taint>,
}

impl NodeRecord {
    pub(crate) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let object: NodeObject = lenient::from_slice(json)?;
        Ok(Self { key: object.metadata.key(), revision: object.metadata.revision(), object })
    }

    pub(crate) fn status(&self) -> &NodeStatus {
        &self.object.status
    }

    /// The properties that decide about pods; `None` before the node has a status.
    pub(crate) fn properties(&self) -> Option<NodeProperties> {
        let NodeObject { metadata, spec, status } = &self.object;
        let allocatable = status.allocatable.as_ref()?;
        Some(NodeProperties {
            name: metadata.name.clone(),
            labels: metadata.labels.clone(),
            taints: spec.taints.clone(),
            allocatable: Amounts::of(Some(allocatable)),
            pressures: Vec::new(),
        })
    }

    /// A label of the Node.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.object.metadata.labels.get(name).map(String::as_str)
    }

    /// An annotation of the Node.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.object.metadata.annotations.get(name).map(String::as_str)
    }

    /// When the Node was created.
    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.object.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// The address of the node in its own status.
    pub(crate) fn internal_ip(&self) -> Option<&str> {
        let addresses = self.object.status.addresses.iter().flatten();
        addresses.filter(|one| one.type_ == "InternalIP").map(|one| one.address.as_str()).next()
    }

    /// The taints of the Node.
    pub(crate) fn taints(&self) -> &[Taint] {
        &self.object.spec.taints
    }

    /// The subnet for pods in the Node object, or an empty text.
    pub(crate) fn pod_cidr(&self) -> &str {
        &self.object.spec.pod_cidr
    }
}

impl Object for NodeRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.object.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_of_mapped_images_have_their_program_and_other_pods_are_not_copied() {
        let images = ["ops/**=/bin/sh", "docker.io/library/web:*=/bin/true"];
        let programs =
            HostPrograms::refused(images.iter().map(|text| text.parse().unwrap()).collect(), "not here");
        let record = |images: [&str; 2]| {
            let text = format!(
                r#"{{"spec": {{"initContainers": [{{"image": "{}"}}], "containers": [{{"image": "{}"}}]}}}}"#,
                images[0], images[1]
            );
            Arc::new(PodRecord::decode(text.as_bytes()).unwrap())
        };
        let mapped = record(["ops/init:1", "web"]).with_programs(&programs, true);
        let programs_of: Vec<_> = mapped.pod.containers().map(|spec| spec.program.clone().unwrap()).collect();
        assert_eq!(programs_of[0].path.to_str(), Some("/bin/sh"));
        assert_eq!(programs_of[1].path.to_str(), Some("/bin/true"));
        assert_eq!(programs_of[1].refusal.as_deref(), Some("not here"));
        let half = record(["other", "ops/a/b"]).with_programs(&programs, true);
        let is_mapped: Vec<_> = half.pod.containers().map(|spec| spec.program.is_some()).collect();
        assert_eq!(is_mapped, [false, true]);
        let other = record(["other", "web:1/x"]);
        assert!(Arc::ptr_eq(&other, &Arc::clone(&other).with_programs(&programs, true)));
    }
}
