//! Containers of a container runtime: [`RealNode`] has what the streams and tasks of its pods share. `orders` makes sandboxes and
//! containers, `follow` follows a container to its end, `look` asks the runtime for its state, `streams` connects clients, `volumes` says
//! what containers see of this machine.

mod follow;
mod look;
mod orders;
mod streams;
mod volumes;

use super::Latest;
use crate::config::CriNode;
use crate::pod_object::PodObject;
use crate::runtime::Event;
use jiff::Timestamp;
use kstore_cri::client::{ContainerUsage, RuntimeClient};
use kstore_host_runtime::ContainerUsages;
use kstore_host_runtime::resources::ResourceUsage;
use kstore_nondet::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
pub(super) use streams::{Errand, connect};
use tokio::sync::Notify;

/// The label with the cluster of a sandbox, by which a node finds its own.
const CLUSTER: &str = "kstore.io/cluster";
/// The label with the process whose end is the end of the sandbox.
const PROCESS: &str = "kstore.io/process";
/// The file with the name of the cluster, in a folder that is kept.
const CLUSTER_FILE: &str = "cluster";

/// What a task has done for a pod.
pub(crate) struct RuntimeReport {
    /// The uid of the pod.
    pub(crate) uid: Arc<str>,
    pub(crate) event: Event,
    /// When it happened.
    pub(crate) at: Timestamp,
}

/// The state of a container runtime.
pub(crate) struct RuntimeState {
    /// The name of its node.
    pub(crate) node: String,
    /// Its name and version; empty if it does not say.
    pub(crate) version: String,
    /// What keeps it from running pods.
    pub(crate) problem: Option<String>,
}

/// The runtime of a node, and what is known of its pods.
pub(crate) struct RealNode {
    client: RuntimeClient,
    config: CriNode,
    /// The labels of its sandboxes and containers.
    labels: BTreeMap<String, String>,
    /// The runtime's name, with which the ids of containers begin.
    name: Mutex<String>,
    /// The ids of the containers that run, by the last look.
    running: Latest<BTreeSet<String>>,
    /// Lets the next look begin at once.
    wake: Notify,
    pods: Mutex<BTreeMap<Arc<str>, Arc<RealPod>>>,
}

/// The sandbox of a pod.
#[derive(Default)]
struct RealPod {
    /// The id and the number of the sandbox, once it is known; locked while it is made or removed.
    sandbox: tokio::sync::Mutex<Option<(String, u32)>>,
}

impl RealNode {
    /// The runtime of a node. Must be called inside a runtime of tokio.
    ///
    /// # Errors
    /// The name of the cluster cannot be read or written.
    pub(crate) fn new(config: CriNode, rng: &Rng) -> std::io::Result<Self> {
        let file = config.folder.file(CLUSTER_FILE)?;
        let cluster = match std::fs::read_to_string(&file) {
            Ok(known) if !known.is_empty() => known,
            Ok(_) | Err(_) => {
                let new = rng.uuid();
                std::fs::write(&file, &new)?;
                new
            }
        };
        let mut labels = BTreeMap::from([(CLUSTER.to_owned(), cluster)]);
        if !config.keeps_pods {
            labels.insert(PROCESS.to_owned(), own_process());
        }
        Ok(Self {
            client: RuntimeClient::new(config.socket.clone()),
            config,
            labels,
            name: Mutex::new("cri".to_owned()),
            running: Latest::new(BTreeSet::new()),
            wake: Notify::new(),
            pods: Mutex::default(),
        })
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<RealPod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the sandbox of a pod.
    fn pod(&self, uid: &Arc<str>) -> Arc<RealPod> {
        Arc::clone(self.pods().entry(Arc::clone(uid)).or_default())
    }

    /// Whether it is the runtime of this node.
    pub(super) fn has_node(&self, node: &str) -> bool {
        self.config.node == node
    }

    /// What the containers use, by the uid of their pod and their name; none if the runtime does not say it.
    pub(super) async fn usage(&self) -> ContainerUsages {
        let all = self.client.usage(&self.labels).await.unwrap_or_default();
        let of = |used: ContainerUsage| {
            ((used.uid, used.name), ResourceUsage { memory: used.memory, cpu: used.cpu })
        };
        all.into_iter().map(of).collect()
    }

    /// The id of a container in statuses.
    fn status_id(&self, id: &str) -> String {
        format!("{}://{id}", self.name.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// This process, as no other one is named: its namespace of processes, its number there, and when it was started.
fn own_process() -> String {
    let id = std::process::id();
    format!("{}.{id}.{}", process_namespace(), started_at(id).unwrap_or_default())
}

/// Whether a process with such a name has ended. That of another namespace is not known, and counts as running.
fn has_ended(process: &str) -> bool {
    let mut parts = process.split('.');
    let (namespace, id, start) = (parts.next(), parts.next().and_then(|id| id.parse().ok()), parts.next());
    match (namespace, id) {
        (Some(namespace), Some(id)) if namespace == process_namespace() => started_at(id).as_deref() != start,
        (_, _) => false,
    }
}

/// The number of this process's namespace of processes.
fn process_namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// When a process was started, in ticks since the start of the machine; `None` if it has ended.
fn started_at(process: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may have spaces.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // Of a process that has ended its parent may not have taken note yet.
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !has_ended).map(str::to_owned)
}

/// Whether the containers of a pod are those of a container runtime.
pub(super) fn is_real(pod: &PodObject) -> bool {
    pod.spec.is_real
}

/// The id of a container by its id in statuses, such as `containerd://ID`.
fn runtime_id(id: &str) -> &str {
    id.split_once("://").map_or(id, |(_, id)| id)
}

/// The time of a runtime in nanoseconds since 1970; `None`: it has not said one.
fn time_of(nanos: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(nanos.into()).ok().filter(|_| nanos > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_if_none_has_its_number_or_another_one_has() {
        let own = own_process();
        assert!(!has_ended(&own), "{own}");
        let [namespace, id, start] = own.split('.').collect::<Vec<_>>().try_into().unwrap();
        assert!(has_ended(&format!("{namespace}.{id}.{start}0")), "the number is used again");
        assert!(has_ended(&format!("{namespace}.4194304.{start}")), "there is no such number");
        for unknown in [format!("1{namespace}.4194304.{start}"), String::new(), "a.b.c".to_owned()] {
            assert!(!has_ended(&unknown), "{unknown}");
        }
    }

    #[test]
    fn ids_and_times_of_a_runtime_are_read() {
        assert_eq!((runtime_id("containerd://ab"), runtime_id("ab")), ("ab", "ab"));
        assert_eq!(time_of(0), None);
        assert_eq!(time_of(1_500_000_000), Some("1970-01-01T00:00:01.5Z".parse().unwrap()));
    }
}
