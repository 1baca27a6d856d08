//! The containers of a real container runtime, as the state machines of pods see them: commands become orders, which tasks execute, and
//! their reports become events. Without I/O.

use crate::pod_object::PodObject;
use crate::probe::Health;
use crate::runtime::{Command, DueEvent, Event, Runtime};
use jiff::Timestamp;
use kstore_informer::Key;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a task is to do with the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing: the sandbox of the pod was made before this process.
    Adopt,
    /// Make the sandbox of the pod.
    Sandbox,
    /// Provide the image of a container.
    Image(usize),
    /// Create and start a run of a container.
    Start(usize, u32),
    /// Stop a container within this time.
    Stop(usize, Duration),
    /// Remove the sandbox with its containers.
    RemoveSandbox,
    /// The same, and the files of the pod, which is deleted.
    Forget,
}

/// An order for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodOrder {
    /// Namespace and name of the pod.
    pub(crate) pod: Key,
    pub(crate) uid: Arc<str>,
    pub(crate) order: Order,
}

/// The pods of the node whose containers a runtime runs.
pub(crate) struct CriRuntime {
    node: String,
    orders: Vec<PodOrder>,
    events: BTreeMap<(Timestamp, u64), (Arc<str>, Event)>,
    sequence: u64,
    /// The addresses of the pods, which the runtime chose.
    addresses: BTreeMap<IpAddr, Arc<str>>,
    pods: BTreeMap<Arc<str>, Key>,
}

impl CriRuntime {
    /// The pods of this node, of which there are none yet.
    pub(crate) fn new(node: String) -> Self {
        let (events, addresses, pods) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { node, orders: Vec::new(), events, sequence: 0, addresses, pods }
    }

    /// Whether the pods of a node are here.
    pub(crate) fn has_node(&self, node: &str) -> bool {
        self.node == node
    }

    /// Whether a pod is here.
    pub(crate) fn has_pod(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// The uid of the pod with an address.
    pub(crate) fn pod_at(&self, address: IpAddr) -> Option<&str> {
        self.addresses.get(&address).map(|uid| &**uid)
    }

    /// The orders since the last call.
    pub(crate) fn take_orders(&mut self) -> Vec<PodOrder> {
        std::mem::take(&mut self.orders)
    }

    /// Takes the report of a task about what happened at `at`. No effect for a pod that is forgotten.
    pub(crate) fn report(&mut self, uid: &str, event: Event, at: Timestamp) {
        let Some((uid, _)) = self.pods.get_key_value(uid) else { return };
        let uid = Arc::clone(uid);
        if let Event::Sandbox(ip) = &event {
            self.hold(&uid, *ip);
        }
        self.sequence += 1;
        self.events.insert((at, self.sequence), (uid, event));
    }

    /// Records the address of a pod in place of an earlier one.
    fn hold(&mut self, uid: &Arc<str>, ip: Option<IpAddr>) {
        self.addresses.retain(|_, owner| *owner != *uid);
        if let Some(ip) = ip {
            self.addresses.insert(ip, Arc::clone(uid));
        }
    }

    fn order(&mut self, pod: &PodObject, order: Order) {
        let (key, uid) = (pod.metadata.key(), Arc::from(pod.metadata.uid.as_str()));
        self.orders.push(PodOrder { pod: key, uid, order });
    }
}

impl Runtime for CriRuntime {
    fn submit(&mut self, pod: &PodObject, command: Command, now: Timestamp) {
        let uid: Arc<str> = pod.metadata.uid.as_str().into();
        self.pods.entry(Arc::clone(&uid)).or_insert_with(|| pod.metadata.key());
        match command {
            Command::Sandbox => self.order(pod, Order::Sandbox),
            Command::AdoptSandbox(ip) => {
                self.hold(&uid, Some(ip));
                self.order(pod, Order::Adopt);
            }
            Command::Image(index) => self.order(pod, Order::Image(index)),
            Command::Start(index, run) => self.order(pod, Order::Start(index, run)),
            // Its task looks whether it still runs.
            Command::Adopt(index, ..) => {
                self.order(pod, Order::Adopt);
                self.report(&uid, Event::Adopted(index, Health::of_process()), now);
            }
            Command::Stop(index, grace) | Command::Shorten(index, grace) => {
                self.order(pod, Order::Stop(index, grace));
            }
            Command::RemoveSandbox => {
                self.hold(&uid, None);
                self.order(pod, Order::RemoveSandbox);
            }
        }
    }

    fn exit(&mut self, pod: &PodObject, container: usize, code: i32, oom: bool, now: Timestamp) {
        self.report(&pod.metadata.uid, Event::Exited { container, code, oom, message: String::new() }, now);
    }

    fn take_due(&mut self, now: Timestamp) -> Option<DueEvent> {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((at, _), (uid, event)) = entry.remove_entry();
        Some(DueEvent { at, uid, event })
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    fn forget(&mut self, uid: &str) {
        self.events.retain(|_, (of, _)| **of != *uid);
        self.addresses.retain(|_, of| **of != *uid);
        if let Some((uid, pod)) = self.pods.remove_entry(uid) {
            self.orders.push(PodOrder { pod, uid, order: Order::Forget });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn commands_become_orders_and_reports_become_events_until_the_pod_is_forgotten() {
        let text = "{metadata: {name: p, namespace: n, uid: u}, spec: {containers: [{name: c}]}}";
        let pod: PodObject = serde_yaml_ng::from_str(text).unwrap();
        let mut runtime = CriRuntime::new("real-0".to_owned());
        let ip: IpAddr = "10.88.0.2".parse().unwrap();
        runtime.submit(&pod, Command::Sandbox, at(1));
        runtime.submit(&pod, Command::Start(0, 0), at(1));
        let orders: Vec<_> = runtime.take_orders().into_iter().map(|order| order.order).collect();
        assert_eq!(orders, [Order::Sandbox, Order::Start(0, 0)]);
        runtime.report("u", Event::Sandbox(Some(ip)), at(3));
        runtime.report("other", Event::Sandbox(Some(ip)), at(2));
        assert_eq!((runtime.pod_at(ip), runtime.next_due()), (Some("u"), Some(at(3))));
        assert_eq!(runtime.take_due(at(2)), None);
        let due = runtime.take_due(at(3)).unwrap();
        assert_eq!((due.at, due.event), (at(3), Event::Sandbox(Some(ip))));
        runtime.report("u", Event::ImagePresent(0), at(4));
        runtime.forget("u");
        assert_eq!((runtime.pod_at(ip), runtime.next_due(), runtime.has_pod("u")), (None, None, false));
        assert_eq!(runtime.take_orders()[0].order, Order::Forget);
        runtime.report("u", Event::ImagePresent(0), at(5));
        assert_eq!(runtime.next_due(), None);
    }
}
