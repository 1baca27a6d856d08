//! Evictions of a node under pressure, in the order and with the texts of a kubelet's eviction manager. Pure.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kstore_api::quantity::{Format, Quantity as Amount};
use std::cmp::Reverse;

/// A resource that is short on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scarce {
    /// Memory.
    Memory,
    /// Local disk.
    Disk,
    /// Process numbers.
    Pids,
}

impl Scarce {
    /// All, in the order in which a kubelet looks at them.
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pids];

    /// The name of the resource in texts.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "ephemeral-storage",
            Self::Pids => "pids",
        }
    }

    /// The threshold, and what a node that is under it has.
    fn amounts(self) -> (&'static str, &'static str) {
        match self {
            Self::Memory => ("100Mi", "80Mi"),
            Self::Disk => ("10Gi", "8Gi"),
            Self::Pids => ("1000", "800"),
        }
    }
}

/// What a container uses and has requested of the scarce resource, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerUse {
    pub(crate) name: String,
    pub(crate) usage: i64,
    pub(crate) request: i64,
}

/// A pod that may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Namespace and name.
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) containers: Vec<ContainerUse>,
}

impl Candidate {
    fn usage(&self) -> i64 {
        self.containers.iter().map(|one| one.usage).fold(0, i64::saturating_add)
    }

    fn request(&self) -> i64 {
        self.containers.iter().map(|one| one.request).fold(0, i64::saturating_add)
    }

    /// The place in the order of evictions: those above their requests first, then by priority, then by how far they are above.
    fn rank(&self, scarce: Scarce) -> (bool, i32, Reverse<i64>, &str) {
        let above = self.usage().saturating_sub(self.request());
        match scarce {
            Scarce::Memory | Scarce::Disk => (above <= 0, self.priority, Reverse(above), &self.name),
            Scarce::Pids => (false, self.priority, Reverse(0), &self.name),
        }
    }
}

/// The pod to evict first.
pub(crate) fn first(scarce: Scarce, candidates: &[Candidate]) -> Option<&Candidate> {
    candidates.iter().min_by_key(|one| one.rank(scarce))
}

/// The message of the eviction.
pub(crate) fn message(scarce: Scarce, evicted: &Candidate) -> String {
    let (name, (threshold, available)) = (scarce.name(), scarce.amounts());
    let mut text = format!(
        "The node was low on resource: {name}. Threshold quantity: {threshold}, available: {available}. "
    );
    for one in evicted.containers.iter().filter(|one| one.usage > one.request && scarce != Scarce::Pids) {
        let (usage, request) = (amount(one.usage), amount(one.request));
        text.push_str(&format!(
            "Container {} was using {usage}, request is {request}, has larger consumption of {name}. ",
            one.name
        ));
    }
    text
}

/// A number of bytes as Kubernetes prints it.
fn amount(bytes: i64) -> String {
    Amount::from_units(bytes, Format::BinarySi).to_string()
}

/// The bytes of a request; zero without one.
pub(crate) fn bytes(quantity: Option<&Quantity>) -> i64 {
    quantity.and_then(|quantity| Amount::parse(&quantity.0).ok()).map_or(0, Amount::units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, priority: i32, usage: i64, request: i64) -> Candidate {
        let mebi = 1 << 20;
        let containers =
            vec![ContainerUse { name: "web".to_owned(), usage: usage * mebi, request: request * mebi }];
        Candidate { name: name.to_owned(), priority, containers }
    }

    #[test]
    fn pods_above_their_requests_go_first_then_by_priority_then_by_excess() {
        let mut all = vec![
            pod("inside", -5, 90, 100),
            pod("important", 1000, 900, 100),
            pod("small", 0, 200, 100),
            pod("large", 0, 300, 100),
            pod("silent", 0, 0, 0),
        ];
        let mut order = Vec::new();
        while let Some(next) = first(Scarce::Memory, &all).cloned() {
            all.retain(|one| *one != next);
            order.push(next.name);
        }
        assert_eq!(order, ["large", "small", "important", "inside", "silent"]);
        let by_priority = [pod("a", 5, 900, 0), pod("b", 1, 0, 0)];
        assert_eq!(first(Scarce::Pids, &by_priority).unwrap().name, "b");
    }

    #[test]
    fn the_message_names_threshold_usage_and_request() {
        let expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. \
                        Container web was using 300Mi, request is 100Mi, has larger consumption of memory. ";
        assert_eq!(message(Scarce::Memory, &pod("a", 0, 300, 100)), expected);
        let expected = "The node was low on resource: pids. Threshold quantity: 1000, available: 800. ";
        assert_eq!(message(Scarce::Pids, &pod("a", 0, 300, 100)), expected);
    }
}
