//! [`NodeState`]: a node with the sums over its pods.

use crate::node::NodeInfo;
use crate::pod::{NonZero, PodInfo, Uid};
use crate::ports::HostPort;
use crate::resources::RequestedTotal;
use crate::zones::Location;
use std::mem::take;
use std::sync::Arc;

/// A node with the sums over its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    pub(crate) info: Arc<NodeInfo>,
    pub(crate) location: Location,
    requested: RequestedTotal,
    nonzero: NonZero,
    ports: Vec<HostPort>,
    pub(crate) pods: Vec<Arc<PodInfo>>,
    /// Those of `pods` with affinity or anti-affinity terms.
    pods_with_terms: Vec<Arc<PodInfo>>,
    /// The number of `pods` with required anti-affinity terms.
    anti_affinity: usize,
    /// The priorities of `pods`, ascending, each with its number of pods.
    priorities: Vec<(i32, usize)>,
    pub(crate) generation: u64,
}

impl NodeState {
    pub(crate) fn new(info: Arc<NodeInfo>, location: Location) -> Self {
        Self {
            info,
            location,
            requested: RequestedTotal::default(),
            nonzero: NonZero::default(),
            ports: Vec::new(),
            pods: Vec::new(),
            pods_with_terms: Vec::new(),
            anti_affinity: 0,
            priorities: Vec::new(),
            generation: 0,
        }
    }

    /// The node.
    pub fn info(&self) -> &NodeInfo {
        &self.info
    }

    /// The node's place in the topology.
    pub fn location(&self) -> Location {
        self.location
    }

    /// Whether the node object exists. Otherwise the node only holds pods that name it.
    pub(crate) fn exists(&self) -> bool {
        self.location.zone.is_some()
    }

    /// The sum of the requests of its pods.
    pub fn requested(&self) -> &RequestedTotal {
        &self.requested
    }

    /// The sum of the requests of its pods as LeastAllocated counts them.
    pub fn nonzero(&self) -> NonZero {
        self.nonzero
    }

    /// The host ports in use by its pods.
    pub fn ports(&self) -> &[HostPort] {
        &self.ports
    }

    /// The pods on the node, including assumed ones. The order is reproducible but has no meaning.
    pub fn pods(&self) -> &[Arc<PodInfo>] {
        &self.pods
    }

    /// The number of pods on the node.
    pub fn pod_count(&self) -> i64 {
        self.pods.len() as i64
    }

    /// The pods on the node with affinity or anti-affinity terms, required or preferred.
    pub fn pods_with_terms(&self) -> &[Arc<PodInfo>] {
        &self.pods_with_terms
    }

    /// The number of pods on the node with required anti-affinity terms.
    pub fn anti_affinity_pods(&self) -> usize {
        self.anti_affinity
    }

    /// The node without its pods of a priority below `priority`, and those pods; `None` if it has no such
    /// pod. O(pods on the node).
    pub fn without_lower(&self, priority: i32) -> Option<(Self, Vec<Arc<PodInfo>>)> {
        self.priorities.first().filter(|(lowest, _)| *lowest < priority)?;
        let empty = Self::new(Arc::clone(&self.info), self.location);
        let mut stripped = Self { generation: self.generation, ..empty };
        let mut lower = Vec::new();
        for pod in &self.pods {
            if pod.priority < priority {
                lower.push(Arc::clone(pod));
            } else {
                stripped.add(Arc::clone(pod));
            }
        }
        Some((stripped, lower))
    }

    /// The cache's generation at the node's last change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Makes the node, an earlier copy of `other`, equal to it. Pods that are the same cost a comparison of pointers.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        let (mut pods, mut with_terms) = (take(&mut self.pods), take(&mut self.pods_with_terms));
        copy_pods(&mut pods, &other.pods);
        copy_pods(&mut with_terms, &other.pods_with_terms);
        *self = Self {
            info: Arc::clone(&other.info),
            requested: other.requested.clone(),
            ports: other.ports.clone(),
            pods,
            pods_with_terms: with_terms,
            priorities: other.priorities.clone(),
            ..*other
        };
    }

    /// Adds a pod to the node, after the others.
    pub(crate) fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.nonzero.milli_cpu += pod.nonzero.milli_cpu;
        self.nonzero.memory += pod.nonzero.memory;
        self.ports.extend_from_slice(&pod.ports);
        self.anti_affinity += usize::from(!pod.pod_affinity.anti_required.is_empty());
        match self.priorities.binary_search_by_key(&pod.priority, |(priority, _)| *priority) {
            Ok(at) => self.priorities[at].1 += 1,
            Err(at) => self.priorities.insert(at, (pod.priority, 1)),
        }
        if has_terms(&pod) {
            self.pods_with_terms.push(Arc::clone(&pod));
        }
        self.pods.push(pod);
    }

    /// Replaces the pod at this position by a newer version that occupies the same.
    pub(crate) fn replace(&mut self, at: usize, pod: Arc<PodInfo>) {
        if has_terms(&pod)
            && let Some(known) = self.pods_with_terms.iter_mut().find(|known| known.uid == pod.uid)
        {
            known.clone_from(&pod);
        }
        self.pods[at] = pod;
    }

    /// Removes the pod with this uid from the node. O(pods on the node).
    pub(crate) fn remove(&mut self, uid: &Uid) {
        let at = self.pods.iter().position(|pod| pod.uid == *uid);
        self.remove_at(at.expect("a pod is on the node it was added to"));
    }

    /// Removes the pod at this position and returns the pod that took its place, if one did.
    pub(crate) fn remove_at(&mut self, at: usize) -> Option<&PodInfo> {
        let pod = self.pods.swap_remove(at);
        if has_terms(&pod) {
            self.pods_with_terms.retain(|other| other.uid != pod.uid);
        }
        self.anti_affinity -= usize::from(!pod.pod_affinity.anti_required.is_empty());
        let rank = self.priorities.binary_search_by_key(&pod.priority, |(priority, _)| *priority);
        let rank = rank.expect("a pod's priority was counted with it");
        self.priorities[rank].1 -= 1;
        if self.priorities[rank].1 == 0 {
            self.priorities.remove(rank);
        }
        self.requested.subtract(&pod.requests);
        self.nonzero.milli_cpu -= pod.nonzero.milli_cpu;
        self.nonzero.memory -= pod.nonzero.memory;
        for port in &pod.ports {
            let at = self.ports.iter().position(|p| p == port).expect("a pod's ports were added with it");
            self.ports.swap_remove(at);
        }
        self.pods.get(at).map(Arc::as_ref)
    }
}

fn has_terms(pod: &PodInfo) -> bool {
    pod.pod_affinity.has_required() || pod.pod_affinity.has_preferred()
}

fn copy_pods(copy: &mut Vec<Arc<PodInfo>>, pods: &[Arc<PodInfo>]) {
    copy.truncate(pods.len());
    for (copied, pod) in copy.iter_mut().zip(pods) {
        if !Arc::ptr_eq(copied, pod) {
            copied.clone_from(pod);
        }
    }
    copy.extend_from_slice(&pods[copy.len()..]);
}
