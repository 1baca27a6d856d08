//! The sandboxes and containers of clients of CRI, and their states. Without I/O; time is an argument.

use super::mounts::HostMounts;
use super::pod::{EndpointContainer, EndpointPod, has_labels};
use super::{EndpointView, problem};
use crate::config::Network;
use crate::image;
use crate::limits::{ENDPOINT_BYTES, ENDPOINT_CONTAINERS, ENDPOINT_SANDBOXES, SANDBOX_CONTAINERS};
use crate::node::address::Pool;
use crate::pod::container::{Container, Ended, Phase, Run};
use crate::pod::{Pod, Stage};
use crate::pod_object::Kind;
use crate::probe::{Health, Verdict};
use crate::record::PodRecord;
use crate::stream::{Disks, Feed, Latest, Outputs, Snapshot};
use jiff::Timestamp;
use kstore_proto::cri::v1::{
    ContainerConfig, ContainerResources, ContainerState, ContainerStatus, ImageSpec, LinuxContainerResources,
    LinuxPodSandboxStatus, Namespace, PodIp, PodSandboxConfig, PodSandboxNetworkStatus, PodSandboxState,
    PodSandboxStatus,
};
use prost::Message as _;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// A sandbox of a client.
pub(super) struct Sandbox {
    pub(super) status: PodSandboxStatus,
    pub(super) address: Option<IpAddr>,
    pub(super) pod: EndpointPod,
    record: Arc<PodRecord>,
    machine: Pod,
    disks: Arc<Disks>,
    outputs: Arc<Outputs>,
    pub(super) mounts: Arc<HostMounts>,
    feed: Feed,
    /// Cancelled when the sandbox is removed.
    pub(super) stop: CancellationToken,
    bytes: usize,
}

/// A container of a client.
pub(super) struct Entry {
    pub(super) status: ContainerStatus,
    pub(super) sandbox: String,
    /// Notified when its log file is to be opened anew.
    pub(super) reopen: Arc<Notify>,
    bytes: usize,
}

/// A run that has begun.
pub(super) struct Begun {
    pub(super) feed: Feed,
    pub(super) index: usize,
    pub(super) run: String,
    pub(super) name: String,
    pub(super) record: Arc<PodRecord>,
    pub(super) outputs: Arc<Outputs>,
    pub(super) reopen: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

/// All sandboxes and containers of clients.
pub(super) struct Table {
    node: String,
    pub(super) sandboxes: BTreeMap<String, Sandbox>,
    pub(super) containers: BTreeMap<String, Entry>,
    pool: Pool,
    /// Bytes of all messages that are kept.
    bytes: usize,
}

/// Nanoseconds since 1970.
pub(super) fn nanos(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// The id of a run in the simulation, by the id of the container.
pub(super) fn run_of(id: &str) -> String {
    format!("sim://{id}")
}

/// The key that `id` is, or of which it is the beginning and no other key has it.
pub(super) fn key_of<'k, T>(all: &'k BTreeMap<String, T>, id: &str) -> Option<&'k str> {
    if id.is_empty() {
        return None;
    }
    let mut found =
        all.range(id.to_owned()..).map(|(key, _)| key.as_str()).take_while(|key| key.starts_with(id));
    let first = found.next()?;
    (first == id || found.next().is_none()).then_some(first)
}

impl Table {
    /// No sandboxes, whose addresses will be of this network.
    pub(super) fn new(node: String, network: Network) -> Self {
        let (sandboxes, containers) = (BTreeMap::new(), BTreeMap::new());
        Self { node, sandboxes, containers, pool: Pool::new(network), bytes: 0 }
    }

    /// Takes the addresses of new sandboxes from this network.
    pub(super) fn set_network(&mut self, network: Network) {
        self.pool = Pool::new(network);
        self.sandboxes.values().filter_map(|sandbox| sandbox.address).for_each(|ip| self.pool.reserve(ip));
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Status> {
        if self.bytes + bytes > ENDPOINT_BYTES {
            return Err(Status::resource_exhausted(format!(
                "the sandboxes and containers of this endpoint would have more than {ENDPOINT_BYTES} bytes of configuration: remove some"
            )));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Makes a sandbox with this id.
    pub(super) fn run(
        &mut self,
        id: String,
        config: PodSandboxConfig,
        handler: String,
        now: Timestamp,
    ) -> Result<&Sandbox, Status> {
        let Some(metadata) = config.metadata.clone().filter(|metadata| !metadata.name.is_empty()) else {
            return Err(Status::invalid_argument(
                "the configuration of a sandbox needs metadata with a name",
            ));
        };
        if let Some((id, _)) =
            self.sandboxes.iter().find(|(_, sandbox)| sandbox.status.metadata.as_ref() == Some(&metadata))
        {
            let name = &metadata.name;
            return Err(Status::already_exists(format!(
                "sandbox {id} has the name {name:?} with the same attempt"
            )));
        }
        if self.sandboxes.len() >= ENDPOINT_SANDBOXES {
            let text = format!("there are {ENDPOINT_SANDBOXES} sandboxes: remove some");
            return Err(Status::resource_exhausted(text));
        }
        let bytes = config.encoded_len();
        let pod = EndpointPod { sandbox: Arc::new(config), containers: Vec::new() };
        let record = pod.record(&id, &self.node).map_err(|why| problem(&why))?;
        self.charge(bytes)?;
        let Some(address) = self.pool.take() else {
            self.bytes -= bytes;
            return Err(Status::resource_exhausted(
                "the network of pods has no free address: remove sandboxes",
            ));
        };
        let machine = machine(address, now);
        let (disks, outputs) = (Arc::<Disks>::default(), Arc::<Outputs>::default());
        let status = sandbox_status(&id, &pod, address, handler, now);
        let (record, mounts) = (Arc::new(record), Arc::default());
        let snapshot = Snapshot {
            record: Arc::clone(&record),
            machine: machine.clone(),
            disks: Arc::clone(&disks),
            outputs: Some(Arc::clone(&outputs)),
            reachable: true,
            gone: false,
            endpoint: Some(EndpointView { pod: Arc::new(pod.clone()), mounts: Arc::clone(&mounts) }),
        };
        let feed = Arc::new(Latest::new(snapshot));
        let stop = CancellationToken::new();
        let address = Some(address);
        let sandbox =
            Sandbox { status, address, pod, record, machine, disks, outputs, mounts, feed, stop, bytes };
        Ok(self.sandboxes.entry(id).or_insert(sandbox))
    }

    /// Marks a sandbox as stopped, and gives its address back.
    pub(super) fn stop_sandbox(&mut self, id: &str) {
        let Some(sandbox) = self.sandboxes.get_mut(id) else { return };
        sandbox.status.state = PodSandboxState::SandboxNotready.into();
        sandbox.status.network = None;
        if let Some(address) = sandbox.address.take() {
            self.pool.give_back(address);
        }
        sandbox.machine.ip = None;
        sandbox.publish(false);
    }

    /// Removes a stopped sandbox with its containers, which have ended.
    pub(super) fn remove_sandbox(&mut self, id: &str) {
        let Some(sandbox) = self.sandboxes.remove(id) else { return };
        sandbox.publish(true);
        sandbox.stop.cancel();
        self.bytes -= sandbox.bytes;
        let gone: Vec<_> = self.containers_of(id).map(|(id, _)| id.clone()).collect();
        gone.iter().for_each(|id| self.remove(id));
    }

    /// The containers of a sandbox.
    pub(super) fn containers_of<'t>(
        &'t self,
        sandbox: &'t str,
    ) -> impl Iterator<Item = (&'t String, &'t Entry)> {
        self.containers.iter().filter(move |(_, entry)| entry.sandbox == sandbox)
    }

    /// Creates a container with this id, whose image has this name and id.
    pub(super) fn create(
        &mut self,
        (id, sandbox_id): (String, &str),
        config: ContainerConfig,
        image: String,
        now: Timestamp,
    ) -> Result<&Entry, Status> {
        let Some(metadata) = config.metadata.clone().filter(|metadata| !metadata.name.is_empty()) else {
            return Err(Status::invalid_argument(
                "the configuration of a container needs metadata with a name",
            ));
        };
        let same = || self.containers_of(sandbox_id).filter(|(_, entry)| entry.has_name(&metadata.name));
        if let Some((id, _)) = same().find(|(_, entry)| entry.status.metadata.as_ref() == Some(&metadata)) {
            let text = format!("container {id} has the name {:?} with the same attempt", metadata.name);
            return Err(Status::already_exists(text));
        }
        if let Some((id, _)) = same().find(|(_, entry)| !entry.has_ended()) {
            return Err(Status::failed_precondition(format!(
                "container {id} has the name {:?} and has not ended: stop or remove it first",
                metadata.name
            )));
        }
        if self.containers.len() >= ENDPOINT_CONTAINERS {
            return Err(Status::resource_exhausted(format!(
                "there are {ENDPOINT_CONTAINERS} containers: remove some"
            )));
        }
        let bytes = config.encoded_len();
        self.charge(bytes)?;
        let node = self.node.clone();
        let sandbox = self.sandboxes.get_mut(sandbox_id).expect("the caller has looked it up");
        let status = container_status(&id, &config, &sandbox.pod, &image, now);
        if let Err(why) = sandbox.add(EndpointContainer { config: Arc::new(config), image }, &node) {
            self.bytes -= bytes;
            return Err(why);
        }
        let entry = Entry { status, sandbox: sandbox_id.to_owned(), reopen: Arc::default(), bytes };
        Ok(self.containers.entry(id).or_insert(entry))
    }

    /// Begins the run of a container.
    pub(super) fn begin(&mut self, id: &str, now: Timestamp) -> Result<Begun, Status> {
        let entry = self.containers.get_mut(id).expect("the caller has looked it up");
        let sandbox =
            self.sandboxes.get_mut(&entry.sandbox).expect("a container is removed before its sandbox");
        if !sandbox.is_ready() {
            return Err(Status::failed_precondition(format!("sandbox {} is not ready", entry.sandbox)));
        }
        if entry.status.state != i32::from(ContainerState::ContainerCreated) {
            let state =
                ContainerState::try_from(entry.status.state).unwrap_or(ContainerState::ContainerUnknown);
            let text =
                format!("container {id} is in the state {}: only a created one starts", state.as_str_name());
            return Err(Status::failed_precondition(text));
        }
        let name = entry.name().to_owned();
        let Some(index) = sandbox.index(&name) else {
            return Err(Status::internal("the container has no place"));
        };
        let run = run_of(id);
        let started = Run {
            id: run.clone(),
            started_at: now,
            health: Health::of_process(),
            verdict: Verdict { started: true, ready: true, condemned: None, next: None },
            probes: Vec::new(),
        };
        let container = &mut sandbox.machine.containers[index];
        container.restarts = entry.status.metadata.as_ref().map_or(0, |metadata| metadata.attempt);
        container.ever_started = true;
        container.phase = Phase::Running(started);
        entry.status.state = ContainerState::ContainerRunning.into();
        entry.status.started_at = nanos(now);
        sandbox.publish(false);
        Ok(Begun {
            feed: Arc::clone(&sandbox.feed),
            index,
            run,
            name,
            record: Arc::clone(&sandbox.record),
            outputs: Arc::clone(&sandbox.outputs),
            reopen: Arc::clone(&entry.reopen),
            stop: sandbox.stop.clone(),
        })
    }

    /// Asks the process of a running container to end.
    pub(super) fn ask_to_stop(&mut self, id: &str) {
        let Some(sandbox) = self.containers.get(id).and_then(|entry| self.sandboxes.get_mut(&entry.sandbox))
        else {
            return;
        };
        let run = run_of(id);
        for container in &mut sandbox.machine.containers {
            if let Phase::Running(running) = &container.phase
                && running.id == run
            {
                container.phase = Phase::Stopping(running.clone());
                sandbox.publish(false);
                return;
            }
        }
    }

    /// Ends a container. Returns whether it ran.
    pub(super) fn end(
        &mut self,
        id: &str,
        (code, is_oom): (i32, bool),
        message: String,
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.containers.get_mut(id) else { return false };
        if entry.has_ended() {
            return false;
        }
        let has_run = entry.is_running();
        let reason = match (is_oom, code) {
            (true, _) => "OOMKilled",
            (false, 0) => "Completed",
            (false, _) => "Error",
        };
        entry.status.state = ContainerState::ContainerExited.into();
        entry.status.finished_at = nanos(now);
        entry.status.exit_code = code;
        reason.clone_into(&mut entry.status.reason);
        entry.status.message.clone_from(&message);
        let run = run_of(id);
        let Some(sandbox) = self.sandboxes.get_mut(&entry.sandbox) else { return has_run };
        for container in &mut sandbox.machine.containers {
            let Some(running) = container.run().filter(|running| running.id == run) else { continue };
            let started_at = running.started_at;
            let (id, reason, message) = (run.clone(), reason.to_owned(), message.clone());
            container.last = container.ended.take();
            container.ended = Some(Ended { id, code, reason, message, started_at, finished_at: now });
            container.phase = Phase::Exited;
        }
        sandbox.publish(false);
        has_run
    }

    /// Removes a container that has ended or was never started.
    pub(super) fn remove(&mut self, id: &str) {
        if let Some(entry) = self.containers.remove(id) {
            self.bytes -= entry.bytes;
        }
    }

    /// Changes the limits that a container's status shows.
    pub(super) fn set_resources(&mut self, id: &str, resources: LinuxContainerResources) {
        if let Some(entry) = self.containers.get_mut(id) {
            entry.status.resources = Some(ContainerResources { linux: Some(resources) });
        }
    }
}

impl Sandbox {
    /// The current and later states of its pod.
    pub(super) fn feed(&self) -> Feed {
        Arc::clone(&self.feed)
    }

    /// What its containers print.
    pub(super) fn outputs(&self) -> Arc<Outputs> {
        Arc::clone(&self.outputs)
    }

    /// The namespace of its pod.
    pub(super) fn namespace(&self) -> &str {
        self.status.metadata.as_ref().map_or("", |metadata| metadata.namespace.as_str())
    }

    /// Whether containers can be started in it.
    pub(super) fn is_ready(&self) -> bool {
        self.status.state == i32::from(PodSandboxState::SandboxReady)
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.pod.containers.iter().position(|container| container.name() == name)
    }

    /// Adds a container, or replaces an ended one of this name.
    fn add(&mut self, container: EndpointContainer, node: &str) -> Result<(), Status> {
        let mut pod = self.pod.clone();
        let index = self.index(container.name());
        match index {
            Some(index) => pod.containers[index] = container,
            None if pod.containers.len() >= SANDBOX_CONTAINERS => {
                let text =
                    format!("the sandbox has containers of {SANDBOX_CONTAINERS} names: use another sandbox");
                return Err(Status::resource_exhausted(text));
            }
            None => pod.containers.push(container),
        }
        let id = &self.status.id;
        self.record = Arc::new(pod.record(id, node).map_err(|why| problem(&why))?);
        self.pod = pod;
        match index {
            Some(index) => self.machine.containers[index].phase = Phase::Waiting,
            None => self.machine.containers.push(Container::new(Kind::Regular)),
        }
        self.publish(false);
        Ok(())
    }

    /// Shows the newest state to streams and programs.
    fn publish(&self, gone: bool) {
        self.feed.set(Snapshot {
            record: Arc::clone(&self.record),
            machine: self.machine.clone(),
            disks: Arc::clone(&self.disks),
            outputs: Some(Arc::clone(&self.outputs)),
            reachable: true,
            gone,
            endpoint: Some(EndpointView {
                pod: Arc::new(self.pod.clone()),
                mounts: Arc::clone(&self.mounts),
            }),
        });
    }
}

impl Entry {
    /// Its name in its sandbox.
    pub(super) fn name(&self) -> &str {
        self.status.metadata.as_ref().map_or("", |metadata| metadata.name.as_str())
    }

    fn has_name(&self, name: &str) -> bool {
        self.name() == name
    }

    pub(super) fn is_running(&self) -> bool {
        self.status.state == i32::from(ContainerState::ContainerRunning)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.status.state == i32::from(ContainerState::ContainerExited)
    }
}

/// The state machine of a pod whose sandbox is ready.
fn machine(address: IpAddr, now: Timestamp) -> Pod {
    Pod {
        stage: Stage::Active,
        containers: Vec::new(),
        ip: Some(address),
        started_at: now,
        rejection: None,
        resize: None,
        restarts_all: false,
        eviction: None,
        faults: crate::fault::starts::StartFaults::default(),
        mount: crate::pod::mounts::MountWait::default(),
    }
}

fn sandbox_status(
    id: &str,
    pod: &EndpointPod,
    address: IpAddr,
    handler: String,
    now: Timestamp,
) -> PodSandboxStatus {
    let config = &pod.sandbox;
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    let options = context.and_then(|context| context.namespace_options.clone()).unwrap_or_default();
    // A pod in the network of the machine has no address of its own.
    let ip = if pod.has_host_network() { String::new() } else { address.to_string() };
    PodSandboxStatus {
        id: id.to_owned(),
        metadata: config.metadata.clone(),
        state: PodSandboxState::SandboxReady.into(),
        created_at: nanos(now),
        network: Some(PodSandboxNetworkStatus { ip, additional_ips: Vec::<PodIp>::new() }),
        linux: Some(LinuxPodSandboxStatus { namespaces: Some(Namespace { options: Some(options) }) }),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        runtime_handler: handler,
    }
}

fn container_status(
    id: &str,
    config: &ContainerConfig,
    pod: &EndpointPod,
    image: &str,
    now: Timestamp,
) -> ContainerStatus {
    let log_path = match (pod.sandbox.log_directory.as_str(), config.log_path.as_str()) {
        ("", _) | (_, "") => String::new(),
        (folder, path) => format!("{}/{path}", folder.trim_end_matches('/')),
    };
    let resources = config.linux.as_ref().and_then(|linux| linux.resources);
    ContainerStatus {
        id: id.to_owned(),
        metadata: config.metadata.clone(),
        state: ContainerState::ContainerCreated.into(),
        created_at: nanos(now),
        image: Some(ImageSpec {
            image: image.to_owned(),
            user_specified_image: config
                .image
                .as_ref()
                .map(|image| image.user_specified_image.clone())
                .unwrap_or_default(),
            ..ImageSpec::default()
        }),
        image_ref: image::digest_reference(image),
        image_id: super::images::id_of(image),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        mounts: config.mounts.clone(),
        log_path,
        resources: resources.map(|linux| ContainerResources { linux: Some(linux) }),
        ..ContainerStatus::default()
    }
}

/// Whether a status has what a filter asks: the id or its beginning, the state, and the labels.
pub(super) fn is_wanted(
    (id, state, labels): (&str, i32, &BTreeMap<String, String>),
    (wanted_id, wanted_state, wanted_labels): (&str, Option<i32>, &BTreeMap<String, String>),
) -> bool {
    id.starts_with(wanted_id)
        && wanted_state.is_none_or(|wanted| wanted == state)
        && has_labels(labels, wanted_labels)
}
