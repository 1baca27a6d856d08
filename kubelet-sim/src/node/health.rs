//! The health of a node: what its conditions show, and the conditions themselves with kubelet's reasons and messages. Pure.

use crate::time::api_time;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, NodeStatus};

/// The types of the conditions that a kubelet owns, in its order.
pub const TYPES: [&str; 4] = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"];

/// The condition that a network plugin writes. A node has it only while a fault asks for it, and after that.
pub const NETWORK: &str = "NetworkUnavailable";

/// What is wrong with a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it is not ready; `None`: it is.
    pub not_ready: Option<String>,
    /// Whether it has too little memory.
    pub lacks_memory: bool,
    /// Whether it has too little disk.
    pub lacks_disk: bool,
    /// Whether it has too few process numbers.
    pub lacks_pids: bool,
    /// Whether its network has no route; `None`: it has never had this fault, and shows no such condition.
    pub lacks_network: Option<bool>,
    /// How often it has booted anew in this process.
    pub boots: u32,
    /// Whether its device plugins have not registered again: it has none of their resources.
    pub lacks_plugins: bool,
}

impl Health {
    /// The names of the pressures, as a kubelet lists them when it rejects a pod.
    pub fn pressures(&self) -> Vec<&'static str> {
        let all = [(self.lacks_memory, TYPES[0]), (self.lacks_disk, TYPES[1]), (self.lacks_pids, TYPES[2])];
        all.into_iter().filter(|(lacks, _)| *lacks).map(|(_, name)| name).collect()
    }

    /// Status, reason and message of each condition, by type.
    fn findings(&self) -> Vec<(&'static str, bool, &'static str, String)> {
        let pressure = |type_, lacks, bad: &'static str, good: &'static str, what: &str| {
            let (reason, degree) = if lacks { (bad, "insufficient") } else { (good, "sufficient") };
            (type_, lacks, reason, format!("kubelet has {degree} {what} available"))
        };
        let [memory, disk, pids, ready] = TYPES;
        let disk_text =
            if self.lacks_disk { "kubelet has disk pressure" } else { "kubelet has no disk pressure" };
        let disk_reason = if self.lacks_disk { "KubeletHasDiskPressure" } else { "KubeletHasNoDiskPressure" };
        let mut all = vec![
            pressure(
                memory,
                self.lacks_memory,
                "KubeletHasInsufficientMemory",
                "KubeletHasSufficientMemory",
                "memory",
            ),
            (disk, self.lacks_disk, disk_reason, disk_text.to_owned()),
            pressure(pids, self.lacks_pids, "KubeletHasInsufficientPID", "KubeletHasSufficientPID", "PID"),
        ];
        all.push(match &self.not_ready {
            None => (ready, true, "KubeletReady", "kubelet is posting ready status".to_owned()),
            Some(why) => (ready, false, "KubeletNotReady", why.clone()),
        });
        match self.lacks_network {
            None => {}
            Some(true) => {
                all.push((NETWORK, true, "NoRouteCreated", "a fault took the node's route away".to_owned()));
            }
            Some(false) => all.push((NETWORK, false, "RouteCreated", "the node has a route".to_owned())),
        }
        all
    }
}

/// The conditions at `now`: those of other writers in `previous`, then the node's own. The transition time changes only with the status.
pub fn conditions(health: &Health, previous: Option<&NodeStatus>, now: Timestamp) -> Vec<NodeCondition> {
    let known = previous.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let findings = health.findings();
    let is_foreign = |c: &&NodeCondition| findings.iter().all(|(type_, ..)| *type_ != c.type_);
    let foreign: Vec<_> = known.iter().filter(is_foreign).cloned().collect();
    let own = findings.into_iter().map(|(type_, holds, reason, message)| {
        let status = if holds { "True" } else { "False" };
        let before = known.iter().find(|c| c.type_ == type_ && c.status == status);
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_heartbeat_time: Some(api_time(now)),
            last_transition_time: before
                .and_then(|c| c.last_transition_time.clone())
                .or_else(|| Some(api_time(now))),
        }
    });
    foreign.into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_have_the_texts_of_a_kubelet_and_keep_foreign_ones_and_transition_times() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let foreign =
            NodeCondition { type_: "Frequent".to_owned(), status: "True".to_owned(), ..Default::default() };
        let previous = NodeStatus { conditions: Some(vec![foreign]), ..NodeStatus::default() };
        let first = conditions(&Health::default(), Some(&previous), at(1));
        let words: Vec<_> = first.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        let expected = [
            "Frequent=True",
            "MemoryPressure=False",
            "DiskPressure=False",
            "PIDPressure=False",
            "Ready=True",
        ];
        assert_eq!(words, expected);
        let previous = NodeStatus { conditions: Some(first), ..NodeStatus::default() };
        let sick = Health {
            not_ready: Some("why".to_owned()),
            lacks_memory: true,
            lacks_network: Some(true),
            ..Health::default()
        };
        let then = conditions(&sick, Some(&previous), at(5));
        let of = |type_: &str| then.iter().find(|c| c.type_ == type_).unwrap();
        assert_eq!(of("Ready").reason.as_deref(), Some("KubeletNotReady"));
        assert_eq!(of("Ready").message.as_deref(), Some("why"));
        assert_eq!(
            of("MemoryPressure").message.as_deref(),
            Some("kubelet has insufficient memory available")
        );
        assert_eq!(of("DiskPressure").message.as_deref(), Some("kubelet has no disk pressure"));
        assert_eq!(of(NETWORK).reason.as_deref(), Some("NoRouteCreated"));
        let since = |type_| of(type_).last_transition_time.as_ref().unwrap().0.as_second();
        assert_eq!((since("Ready"), since("DiskPressure")), (5, 1));
        assert_eq!(sick.pressures(), ["MemoryPressure"]);
    }
}
