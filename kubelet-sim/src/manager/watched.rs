//! The newest state of the pods that streams follow.

use super::nodes::NodeEntry;
use super::stages::NodeAddress;
use super::{Manager, Notice, Regarding};
use crate::execution::Execution;
use crate::limits::TWIN_REPORTS;
use crate::pod::PodEvent;
use crate::pod_object::PodObject;
use crate::program::{self, Program};
use crate::runtime::{Event, Runtime as _};
use crate::stream::{
    AddressOwner, Console, ContainerWarning, ExecutionDone, Exit, Feed, Latest, Launch, NodeContents,
    PodExecution, ServerLine,
};
use jiff::Timestamp;
use kstore_client::StreamRequest;
use kstore_container_sim::time::between;
use kstore_informer::{Key, Revision};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

impl Manager {
    /// Whether the nodes that streams reach may have changed since the last call.
    pub(crate) fn take_serving_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_serving_changed)
    }

    /// The nodes that streams reach.
    pub(crate) fn serving(&self) -> Vec<String> {
        let answering = self.nodes.iter().filter(|(_, node)| node.is_linked());
        answering.map(|(name, _)| name.clone()).collect()
    }

    /// The nodes whose objects and pods follow stages, if any do.
    pub(crate) fn stage_nodes(&self) -> BTreeMap<String, NodeAddress> {
        let running = self.nodes.iter().filter(|(_, node)| node.is_linked());
        let address =
            |node: &NodeEntry| NodeAddress { ip: node.identity.ip.clone(), network: node.identity.network };
        running.map(|(name, node)| (name.clone(), address(node))).collect()
    }

    /// Records an event that the server refuses the tunnel for all nodes: for the node that the reason names
    /// in quotes, or else for the first.
    pub(crate) fn tunnel_refused(&mut self, why: &str) {
        let is_named = |node: &&String| why.contains(&format!("\"{node}\""));
        let node = self.nodes.keys().find(is_named).or_else(|| self.nodes.keys().next());
        if let Some(node) = node.cloned() {
            self.node_refused(&node, why);
        }
    }

    /// Records an event that the server does not reach one node through the tunnel.
    pub(crate) fn node_refused(&mut self, node: &str, why: &str) {
        if !self.nodes.contains_key(node) {
            return;
        }
        self.notices.push(Notice {
            node: node.to_owned(),
            regarding: Regarding::Node,
            warning: true,
            reason: "TunnelRefused".into(),
            message: format!("logs, exec, attach and port-forward do not reach the simulated nodes: {why}"),
            cause: Revision(0),
        });
    }

    /// Reports that another client renewed the lease of a node since this process did: most likely a second process with the same nodes.
    pub(super) fn suspect_twin(&mut self, node: &str, now: Timestamp) {
        let is_known = |at: Timestamp| between(at, now) < TWIN_REPORTS;
        if self.twin_reported.is_some_and(is_known) {
            return;
        }
        self.twin_reported = Some(now);
        let message = format!(
            "another client changed the lease of node {node} since this process renewed it: if a second process simulates nodes of the \
             same names, both act on their pods; stop one of the two"
        );
        tracing::error!("{message}");
        self.notices.push(Notice {
            node: node.to_owned(),
            regarding: Regarding::Node,
            warning: true,
            reason: "SimulatedTwice".into(),
            message,
            cause: Revision(0),
        });
    }

    /// Whether all nodes have registered.
    pub(crate) fn are_registered(&self) -> bool {
        self.nodes.values().all(NodeEntry::is_registered)
    }

    /// The current and later states of a stream's pod; `None` if the pod is not on a simulated node.
    pub(crate) fn watch(&mut self, request: &StreamRequest) -> Option<Feed> {
        let key = Key::new(&request.namespace, &request.pod);
        let entry = self.pods.get(&key)?;
        if *entry.uid != *request.uid || entry.node() != request.node {
            return None;
        }
        self.feed(&key)
    }

    /// What has an address.
    pub(crate) fn owner_of(&mut self, address: IpAddr) -> AddressOwner {
        let key = self.runtime.pod_at(address).and_then(|uid| self.keys.get(uid)).cloned();
        if let Some(feed) = key.and_then(|key| self.feed(&key)) {
            return AddressOwner::Pod(feed);
        }
        let IpAddr::V4(ip) = address else { return AddressOwner::Outside };
        let is_of_pods = self.config.pod_network.contains(ip)
            || self.nodes.values().any(|node| node.identity.network.contains(ip));
        match is_of_pods {
            true => AddressOwner::Nobody,
            false if self.nodes.values().any(|node| node.identity.ip == ip.to_string()) => AddressOwner::Node,
            false => AddressOwner::Outside,
        }
    }

    /// What a node has; nothing if it is not simulated.
    pub(crate) fn contents(&mut self, node: &str) -> NodeContents {
        let keys: Vec<Key> = self.by_node.get(node).into_iter().flatten().cloned().collect();
        let pods = keys.iter().filter_map(|key| self.feed(key)).collect();
        let images = self.runtime.simulated.images(node).into_iter();
        NodeContents { pods, images: images.map(|(name, size)| (name.to_owned(), size)).collect() }
    }

    /// The pods of the simulated node with an address that are in its network, or that have ports there.
    pub(crate) fn pods_with_node_ports(&mut self, address: IpAddr) -> Vec<Feed> {
        let address = address.to_string();
        let mut nodes = self.nodes.iter();
        let Some((node, _)) = nodes.find(|(_, entry)| entry.identity.ip == address) else {
            return Vec::new();
        };
        let has_ports = |object: &PodObject| {
            let mut options = object.containers().filter_map(|spec| spec.options.as_deref());
            object.spec.host_network || options.any(|one| one.ports.iter().any(|port| port.host_port > 0))
        };
        let on_node =
            self.pods.iter().filter(|(_, entry)| entry.node() == &**node && has_ports(entry.object()));
        let keys: Vec<Key> = on_node.map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.feed(key)).collect()
    }

    /// The current and later states of the pod.
    pub(super) fn feed(&mut self, key: &Key) -> Option<Feed> {
        let entry = self.pods.get(key)?;
        let reachable = self.nodes.get(entry.node()).is_some_and(NodeEntry::is_linked);
        let feed = || Arc::new(Latest::new(entry.snapshot(reachable, false)));
        Some(self.watched.entry(Arc::clone(&entry.uid)).or_insert_with(feed).clone())
    }

    /// Ends the run of a container whose command has exited. No effect if another run is current.
    pub(crate) fn exited(&mut self, exit: &Exit, now: Timestamp) {
        let Some(entry) = self.pods.get(&exit.pod).filter(|entry| *entry.uid == *exit.uid) else { return };
        let position = entry.object().containers().position(|spec| spec.name == exit.container);
        if let Some(index) = position.filter(|index| entry.runs(*index, &exit.run)) {
            let object = entry.object().clone();
            let at = exit.at.map_or(now, |at| at.min(now));
            self.runtime.exit(&object, index, exit.code.into(), exit.oom, at);
        }
    }

    /// Adds a line to the log of a container that runs no command. No effect if another run is current.
    pub(crate) fn logged(&mut self, line: &ServerLine, now: Timestamp) {
        let Some(entry) = self.pods.get_mut(&line.pod).filter(|entry| *entry.uid == *line.uid) else {
            return;
        };
        let position = entry.object().containers().position(|spec| spec.name == line.container);
        if position.is_some_and(|index| entry.runs(index, &line.run)) {
            entry.outputs.get_or_insert_default().log(line, now);
            self.show(&line.pod);
        }
    }

    /// Records a warning about a container as an Event of its pod.
    pub(crate) fn warned(&mut self, warning: ContainerWarning) {
        let ContainerWarning { pod, uid, index, reason, message } = warning;
        if self.pods.get(&pod).is_some_and(|entry| *entry.uid == *uid) {
            let event = PodEvent { container: index, ..PodEvent::warning(reason, message) };
            self.pod_notice(&pod, event);
        }
    }

    /// Launches the command of a container whose run has begun or was adopted, if the simulated shell knows
    /// the command, the container's image is mapped to a program of this machine, or a container runtime runs it.
    pub(super) fn launch(&mut self, key: &Key, index: usize) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let (Some(run), Some(spec)) = (entry.run_of(index), entry.object().container(index)) else { return };
        let (argv, program) = match program::of(entry.object(), index) {
            Program::Shell(argv) => (argv, None),
            Program::Host => (Vec::new(), spec.program.clone()),
            Program::Real => (Vec::new(), None),
            Program::Image | Program::Scripted | Program::Attached => return,
            Program::NotRun(_) | Program::Missing(_) => return,
        };
        let container = spec.name.clone();
        let console = Console::of(spec).filter(|_| program.is_some());
        let outputs = Arc::clone(entry.outputs.get_or_insert_default());
        outputs.begin(&container, &run);
        if let Some(console) = console {
            outputs.set_console(&container, &run, Arc::new(console));
        }
        let is_real = entry.object().spec.is_real;
        let (pod, uid) = (key.clone(), entry.uid.to_string());
        self.launches.push(Launch { pod, uid, index, container, run, argv, program, is_real, outputs });
    }

    /// The commands to run since the last call, each with its pod's state.
    pub(crate) fn take_launches(&mut self) -> Vec<(Feed, Launch)> {
        let launches = std::mem::take(&mut self.launches);
        launches.into_iter().filter_map(|launch| Some((self.feed(&launch.pod)?, launch))).collect()
    }

    /// The commands to run in containers since the last call, each with its pod's state.
    pub(crate) fn take_executions(&mut self) -> Vec<(Feed, PodExecution)> {
        let executions = std::mem::take(&mut self.executions);
        executions.into_iter().filter_map(|execution| Some((self.feed(&execution.pod)?, execution))).collect()
    }

    /// The pods whose volumes are to be brought up to date since the last call, each with its state.
    pub(crate) fn take_refreshes(&mut self) -> Vec<Feed> {
        let keys = std::mem::take(&mut self.refreshes);
        keys.iter().filter_map(|key| self.feed(key)).collect()
    }

    /// Takes the end of a command that ran in a container.
    pub(crate) fn executed(&mut self, done: ExecutionDone, now: Timestamp) {
        let ExecutionDone { execution, result } = done;
        let PodExecution { pod, uid, execution: Execution { container, run, purpose, .. } } = execution;
        if self.pods.get(&pod).is_some_and(|entry| entry.uid == uid) {
            self.report(&uid, Event::Executed { container, run, purpose, result }, now);
        }
    }

    /// Publishes the pod's newest state to streams that follow it, or removes the entry if there are none.
    pub(super) fn show(&mut self, key: &Key) {
        if self.watched.is_empty() {
            return;
        }
        let Some(entry) = self.pods.get(key) else { return };
        let Some(feed) = self.watched.get(&entry.uid) else { return };
        if Arc::strong_count(feed) == 1 {
            self.watched.remove(&entry.uid);
            return;
        }
        let reachable = self.nodes.get(entry.node()).is_some_and(NodeEntry::is_linked);
        feed.set(entry.snapshot(reachable, false));
    }

    /// Publishes the last state of a deleted pod to its streams.
    pub(super) fn show_gone(&mut self, key: &Key) {
        let Some(entry) = self.pods.get(key) else { return };
        if let Some(feed) = self.watched.remove(&entry.uid) {
            feed.set(entry.snapshot(true, true));
        }
    }
}
