//! The asynchronous edge: one informer of pods and one of nodes for all simulated nodes, the clock, and the
//! writes in flight. It wakes for an event or the next deadline and decides nothing.

use super::apply::{BEHAVIORS, FAULTS, GROUPS, LOADS, apply_batch};
use super::follow::{Followers, Report};
use super::stages::{NodeAddress, Player, PlayerParts, StageNodes};
use super::write::{Failure, Write, Written, batches, singles};
use super::{Manager, Notice, Regarding};
use crate::config::Config;
use crate::fault::object::FaultRecord;
use crate::fault::{Handle, Order};
use crate::group::record::GroupRecord;
use crate::identities::{AGENT, Identities};
use crate::load::record::LoadRecord;
use crate::pod_behavior::record::BehaviorRecord;
use crate::record::{NodeRecord, PodRecord};
use crate::sim_api;
use crate::stream::{
    EndpointAddresses, EndpointParts, Latest, ManagerMessage, NetworkAccess, PodQuery, Policies, RealNode,
    ServiceCache, Streams, UsageCaches, endpoint_owner_of, serve_endpoint,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kstore_client::{Client, ClientSink, WatchParams};
use kstore_container_sim::time::between;
use kstore_informer::{
    Builder, Causes, Delta, EventType, Fence, Informer, ListerWatcher, Object, Recorder, Reference,
    Subscription, Supervisor, TaskGroup,
};
use kstore_nondet::{Nondet, Rng};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The agent of the writes of stages.
const STAGES_AGENT: &str = "stages";

/// Runs the nodes of `config` until `stop` is cancelled; then stops its tasks and returns. All state is in
/// the API, so a later run continues. To inject faults, use a [`Simulator`].
pub async fn run(client: Client, nondet: Nondet, config: Config, stop: CancellationToken) {
    let (simulator, _handle) = Simulator::new(client, nondet, config);
    simulator.run(stop).await;
}

/// Simulated nodes that are not running yet.
pub struct Simulator {
    client: Client,
    /// The user as which stages write.
    stage_client: Option<Client>,
    nondet: Nondet,
    config: Config,
    /// Locked by the current generation.
    orders: Arc<Mutex<mpsc::Receiver<Order>>>,
}

impl Simulator {
    /// The nodes of `config`, and a handle that injects faults into them while they run.
    pub fn new(client: Client, nondet: Nondet, config: Config) -> (Self, Handle) {
        let (handle, orders) = Handle::new();
        let orders = Arc::new(Mutex::new(orders));
        (Self { client: client.agent(AGENT), stage_client: None, nondet, config, orders }, handle)
    }

    /// Lets stages write through this client: a user with all rights, since stages change objects of any kind. Without it they write as
    /// the simulation's user.
    #[must_use]
    pub fn with_stage_client(self, client: Client) -> Self {
        Self { stage_client: Some(client), ..self }
    }

    /// Runs the nodes until `stop` is cancelled; then stops its tasks and returns. If a task panics, all
    /// tasks restart from the API's state after a back-off; restarts are counted. Stopped nodes run again
    /// then.
    // Boxed, so that the code of the future is generated in this crate and not in every program that runs it.
    pub fn run(self, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let supervisor = Supervisor::new("kubelet-sim", &self.config.metrics);
        Box::pin(supervisor.run(stop, move |tasks| self.generation().simulate(tasks)))
    }

    /// A copy whose writes the API server refuses after the end of a term of leadership.
    #[must_use]
    pub fn fenced(&self, fence: &Fence) -> Self {
        let copy = self.generation();
        let stage_client = copy.stage_client.map(|client| client.fence(fence));
        Self { client: copy.client.fence(fence), stage_client, ..copy }
    }

    /// A copy for one generation.
    fn generation(&self) -> Self {
        let Self { client, stage_client, nondet, config, orders } = self;
        let (client, nondet, config) = (client.clone(), nondet.clone(), config.clone());
        Self { client, stage_client: stage_client.clone(), nondet, config, orders: Arc::clone(orders) }
    }

    /// Starts an informer as one of `tasks`.
    fn informer<S: ListerWatcher>(&self, name: &str, source: S, tasks: &TaskGroup) -> Informer<S::Obj> {
        let builder = Builder::new(source).name(name).rng(&self.nondet.rng).metrics(&self.config.metrics);
        let builder = builder.caches(&self.config.caches);
        let (informer, driver) = builder.build(tasks.stop());
        tasks.spawn(driver);
        informer
    }

    /// Starts the informers of what decides about the usage of pods.
    fn usage_caches(&self, tasks: &TaskGroup) -> UsageCaches {
        let loads = self.client.dynamic(sim_api::resource(LOADS));
        let loads = loads.project(WatchParams::default(), LoadRecord::decode);
        let behaviors = self.client.dynamic(sim_api::resource(BEHAVIORS));
        let behaviors = behaviors.project(WatchParams::default(), BehaviorRecord::decode);
        UsageCaches {
            loads: self.informer("kubelet-service-loads", loads, tasks),
            behaviors: self.informer("kubelet-pod-behaviors", behaviors, tasks),
        }
    }

    /// Starts the players of all kinds that have stages, which follow the nodes that the result gets.
    fn play_stages(
        &self,
        first: BTreeMap<String, NodeAddress>,
        recorder: &Recorder,
        rng: &Rng,
        tasks: &TaskGroup,
    ) -> Option<Arc<StageNodes>> {
        let stages = Arc::clone(&self.config.stages);
        if stages.is_empty() {
            return None;
        }
        let nodes = Arc::new(StageNodes::new(first));
        let parts = PlayerParts {
            stages: Arc::clone(&stages),
            client: self.stage_client.as_ref().unwrap_or(&self.client).agent(STAGES_AGENT),
            recorder: recorder.clone(),
            nodes: Arc::clone(&nodes),
            clock: self.nondet.clock,
            seed: rng.fork("stages").next_u64(),
            version: self.config.version.as_str().into(),
        };
        for kind in stages.kinds() {
            let player = Player::new(kind.clone(), parts.clone());
            let Some(source) = player.source() else {
                tracing::error!(%kind, "stages of this kind are not played: it is not built in");
                continue;
            };
            let objects = self.informer(&format!("stages-{}", kind.kind.to_lowercase()), source, tasks);
            tasks.spawn(player.run(objects.subscribe(), tasks.stop().clone()));
        }
        Some(nodes)
    }

    fn network_access(&self, rng: &Rng, tasks: &TaskGroup) -> NetworkAccess {
        let policies = self
            .config
            .enforces_network_policies
            .then(|| Policies::new(self.client.clone(), rng.fork("network-policies"), tasks.clone()));
        let (api_server, egress) = (self.config.api_server.clone(), Arc::clone(&self.config.egress));
        let services = ServiceCache::new(self.client.clone(), rng.fork("services"), tasks.clone());
        NetworkAccess { api_server, policies, services, egress }
    }

    /// The container runtime of the node that has one, if one has; the outer `None` if it cannot be used.
    fn real_node(&self, rng: &Rng) -> Option<Option<RealNode>> {
        let real = self.config.cri.clone().map(|cri| RealNode::new(cri, rng)).transpose();
        real.inspect_err(
            |error| tracing::error!(%error, "the folder of the container runtime's pods cannot be written"),
        )
        .ok()
    }

    /// The pods that have a node, and the nodes.
    fn pods_and_nodes(&self, tasks: &TaskGroup) -> (Informer<PodRecord>, Informer<NodeRecord>) {
        let bound = WatchParams::default().fields("spec.nodeName!=");
        let decode = if self.config.has_sim_api { PodRecord::decode_labelled } else { PodRecord::decode };
        let pods = self.client.api::<Pod>().project(bound, decode);
        let nodes = self.client.api::<Node>().project(WatchParams::default(), NodeRecord::decode);
        (self.informer("kubelet-pods", pods, tasks), self.informer("kubelet-nodes", nodes, tasks))
    }

    /// The groups and faults of the API of simulations.
    fn simulation(&self, tasks: &TaskGroup) -> (Subscription<GroupRecord>, Subscription<FaultRecord>) {
        let groups = self.client.dynamic(sim_api::resource(GROUPS));
        let groups = groups.project(WatchParams::default(), GroupRecord::decode);
        let faults = self.client.dynamic(sim_api::resource(FAULTS));
        let faults = faults.project(WatchParams::default(), FaultRecord::decode);
        let groups = self.informer("kubelet-node-groups", groups, tasks);
        (groups.subscribe(), self.informer("kubelet-node-faults", faults, tasks).subscribe())
    }

    async fn simulate(self, tasks: TaskGroup) {
        let stop = tasks.stop();
        let orders = Arc::clone(&self.orders).lock_owned().await;
        let (pods, nodes) = self.pods_and_nodes(&tasks);
        if nodes.synced().await.is_err() || stop.is_cancelled() {
            return;
        }
        let (groups, faults) = self.config.has_sim_api.then(|| self.simulation(&tasks)).unzip();
        let usage_caches = self.config.has_sim_api.then(|| self.usage_caches(&tasks));
        let behaviors = usage_caches.as_ref().map(|caches| caches.behaviors.clone());
        let loads = usage_caches.as_ref().map(|caches| caches.loads.subscribe());
        let rng = self.nondet.rng.fork("kubelet-sim");
        let (metrics, identities) = (self.config.metrics.clone(), self.config.identities.clone());
        let (registered, minor) = (self.config.registered.clone(), self.config.minor);
        let access = self.network_access(&rng, &tasks);
        let Some(real) = self.real_node(&rng) else { return };
        let (recorder, writing) = Recorder::build(ClientSink::new(&self.client), AGENT, &self.nondet, stop);
        recorder.metrics(&metrics);
        let manager = Manager::new(self.config.clone(), &rng, &nodes.list(), self.nondet.clock.now());
        let stage_nodes = self.play_stages(manager.stage_nodes(), &recorder, &rng, &tasks);
        let serving = Arc::new(Latest::new(manager.serving()));
        let (streams, messages) = Streams::new(
            (self.client.clone(), identities.clone(), minor),
            self.nondet.clock,
            rng.fork("tunnel"),
            (serving.clone(), access),
        );
        let streams = streams
            .with_usage_caches(usage_caches)
            .with_programs(self.config.programs.clone())
            .with_runtime(real);
        let (followers, reports) = Followers::new(
            (self.client.clone(), identities.clone(), minor),
            (rng.fork("sources"), self.nondet.clock),
            tasks.clone(),
        );
        let endpoint_addresses = EndpointAddresses::default();
        if let Some(parts) = endpoint_parts(&self.config, &endpoint_addresses) {
            tasks.spawn(serve_endpoint(streams.clone(), parts, tasks.clone()));
        }
        let edge = Edge {
            recorder,
            client: self.client,
            identities,
            nondet: self.nondet,
            manager,
            pods: pods.subscribe(),
            nodes: nodes.subscribe(),
            groups,
            faults,
            behavior_changes: behaviors.as_ref().map(Informer::subscribe),
            loads,
            behaviors,
            orders,
            serving,
            stage_nodes,
            messages,
            followers,
            reports,
            streams: streams.clone(),
            endpoint_addresses,
            programs: JoinSet::new(),
            registered,
            writes: JoinSet::new(),
        };
        // The last events are written before this returns.
        tokio::join!(edge.run(stop), writing, streams.clone().run(stop), streams.watch_runtime(stop));
    }
}

/// What the endpoint for clients of CRI is made of, if there is one.
fn endpoint_parts(config: &Config, addresses: &EndpointAddresses) -> Option<EndpointParts> {
    let endpoint = config.cri_endpoint.as_ref()?;
    Some(EndpointParts {
        socket: Arc::clone(&endpoint.socket),
        node: endpoint.node.clone().unwrap_or_else(|| config.node_name(0)),
        missing_images: config.missing_images.clone(),
        stop_delay: config.delays.stop,
        addresses: Arc::clone(addresses),
    })
}

/// A write and its result.
type Outcome = (Write, Result<Written, Failure>);

struct Edge {
    client: Client,
    identities: Identities,
    nondet: Nondet,
    manager: Manager,
    recorder: Recorder,
    pods: Subscription<PodRecord>,
    nodes: Subscription<NodeRecord>,
    /// Of the API of simulations, if the cluster has it.
    groups: Option<Subscription<GroupRecord>>,
    faults: Option<Subscription<FaultRecord>>,
    behavior_changes: Option<Subscription<BehaviorRecord>>,
    loads: Option<Subscription<LoadRecord>>,
    /// The cache of PodBehaviors until it is synced: no group makes nodes before, so that the first pods have what they say.
    behaviors: Option<Informer<BehaviorRecord>>,
    orders: OwnedMutexGuard<mpsc::Receiver<Order>>,
    /// The nodes that are not stopped.
    serving: Arc<Latest<Vec<String>>>,
    /// The same nodes with their addresses, if objects follow stages.
    stage_nodes: Option<Arc<StageNodes>>,
    messages: mpsc::Receiver<ManagerMessage>,
    /// The watches of referenced objects, and their reports.
    followers: Followers,
    reports: mpsc::Receiver<Report>,
    streams: Streams,
    /// The addresses of the pods of clients of CRI.
    endpoint_addresses: EndpointAddresses,
    /// Running commands of containers: for each running container at most its own, and one of each hook and probe.
    programs: JoinSet<()>,
    /// Cancelled once all nodes have registered.
    registered: CancellationToken,
    writes: JoinSet<Vec<Outcome>>,
}

impl Edge {
    async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let now = self.nondet.clock.now();
            self.manager.expire(now);
            for notice in self.manager.take_notices() {
                let at = self.manager.wrong_time(&notice.node, now);
                match at {
                    Some(at) => record(&self.recorder.at(at), notice),
                    None => record(&self.recorder, notice),
                }
            }
            for order in self.manager.take_source_orders() {
                match self.manager.certificate_order(&order) {
                    Some(certificate) => self.followers.issue(certificate),
                    None => self.followers.obey(order),
                }
            }
            for (feed, order) in self.manager.take_runtime_orders() {
                self.programs.spawn(self.streams.clone().obey_runtime_order(feed, order));
            }
            for (feed, launch) in self.manager.take_launches() {
                self.programs.spawn(self.streams.clone().run_program(feed, launch));
            }
            for (feed, execution) in self.manager.take_executions() {
                self.programs.spawn(self.streams.clone().run_execution(feed, execution));
            }
            for feed in self.manager.take_refreshes() {
                self.programs.spawn(self.streams.clone().refresh(feed));
            }
            while let Some(done) = self.programs.try_join_next() {
                if let Err(error) = done {
                    tracing::error!(%error, "a command of a simulated container failed");
                }
            }
            if !self.registered.is_cancelled() && self.manager.are_registered() {
                self.registered.cancel();
            }
            self.write(now);
            if self.manager.take_serving_changed() {
                self.set_serving();
            }
            self.wait(stop, now).await;
        }
        self.writes.shutdown().await;
        self.programs.shutdown().await;
    }

    /// Begins the writes that are due, each as its node's user.
    fn write(&mut self, now: Timestamp) {
        let writes = self.manager.next_writes(now);
        let batches = if self.identities.are_own() { singles(writes) } else { batches(writes) };
        for batch in batches {
            let client = match batch.first().map(Write::node).unwrap_or_default() {
                "" => self.client.clone(),
                node => self.identities.client(node, &self.client),
            };
            self.writes.spawn(apply_batch(client, batch));
        }
    }

    /// Waits for the first event and processes it. The informers end only when the simulation stops.
    async fn wait(&mut self, stop: &CancellationToken, now: Timestamp) {
        let deadline = self.manager.deadline().map(|at| between(now, at));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(order) = self.orders.recv() => self.obey(order),
            Some(message) = self.messages.recv() => match message {
                ManagerMessage::Query(query) => self.answer(query),
                ManagerMessage::Address(address, answer) => {
                    let of_client = endpoint_owner_of(&self.endpoint_addresses, address);
                    // The requester may have gone away.
                    let _ = answer.send(of_client.unwrap_or_else(|| self.manager.owner_of(address)));
                }
                ManagerMessage::Contents(node, answer) => {
                    // The requester may have gone away.
                    let _ = answer.send(self.manager.contents(&node));
                }
                ManagerMessage::NodePods(address, answer) => {
                    // The requester may have gone away.
                    let _ = answer.send(self.manager.pods_with_node_ports(address));
                }
                ManagerMessage::Exit(exit) => self.manager.exited(&exit, self.nondet.clock.now()),
                ManagerMessage::Executed(done) => self.manager.executed(*done, self.nondet.clock.now()),
                ManagerMessage::Logged(line) => self.manager.logged(&line, self.nondet.clock.now()),
                ManagerMessage::Warned(warning) => self.manager.warned(*warning),
                ManagerMessage::Runtime(report) => {
                    self.manager.runtime_reported(*report, self.nondet.clock.now());
                }
                ManagerMessage::RuntimeState(state) => {
                    self.manager.runtime_state(*state, self.nondet.clock.now());
                }
                ManagerMessage::Refused(why) => self.manager.tunnel_refused(&why),
                ManagerMessage::RefusedNodes(nodes) => {
                    for node in nodes {
                        self.manager.node_refused(&node.name, &node.reason);
                    }
                }
            },
            Some(done) = self.writes.join_next() => self.settle(done),
            Some(Report { key, state, event }) = self.reports.recv() => {
                if let Some(event) = event {
                    self.manager.source_event(&key, &event);
                }
                let is_awaited = self.manager.observe_source(key.clone(), state, self.nondet.clock.now());
                self.followers.pace(&key, is_awaited);
            }
            Some(deltas) = self.nodes.next() => self.manager.observe_nodes(deltas, self.nondet.clock.now()),
            Some(deltas) = self.pods.next() => {
                self.manager.observe_pods(deltas, self.nondet.clock.now());
            }
            Some(deltas) = next_of(&mut self.behavior_changes) => self.manager.observe_behaviors(deltas),
            () = synced(self.behaviors.as_ref()), if self.behaviors.is_some() => self.behaviors = None,
            Some(deltas) = next_of(&mut self.groups), if self.behaviors.is_none() => self.manager.observe_groups(deltas, self.nondet.clock.now()),
            Some(deltas) = next_of(&mut self.loads) => self.manager.observe_loads(deltas),
            Some(deltas) = next_of(&mut self.faults) => self.manager.observe_faults(deltas, self.nondet.clock.now()),
            () = tokio::time::sleep(deadline.unwrap_or_default()), if deadline.is_some() => {}
        }
    }

    fn answer(&mut self, query: PodQuery) {
        if let Some(feed) = self.manager.watch(&query.request) {
            // The requester may have gone away.
            let _ = query.answer.send(feed);
        }
    }

    fn obey(&mut self, order: Order) {
        self.manager.obey(order, self.nondet.clock.now());
        self.set_serving();
    }

    /// Publishes the nodes that are not stopped.
    fn set_serving(&self) {
        self.serving.set(self.manager.serving());
        if let Some(nodes) = &self.stage_nodes {
            nodes.nodes.set(self.manager.stage_nodes());
        }
    }

    fn settle(&mut self, first: Result<Vec<Outcome>, tokio::task::JoinError>) {
        let now = self.nondet.clock.now();
        let mut next = Some(first);
        while let Some(done) = next {
            for (write, outcome) in done.expect("a write neither panics nor is cancelled while this runs") {
                self.manager.written(&write, outcome, now);
            }
            next = self.writes.try_join_next();
        }
    }
}

/// The next changes of an informer, if there is one.
async fn next_of<T: Object>(source: &mut Option<Subscription<T>>) -> Option<Vec<Delta<T>>> {
    match source {
        Some(source) => source.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until a cache has its first list, or has ended.
async fn synced<T: Object>(informer: Option<&Informer<T>>) {
    if let Some(informer) = informer {
        // An informer that has ended has no list; then the simulation ends, too.
        let _ = informer.synced().await;
    }
}

fn record(recorder: &Recorder, notice: Notice) {
    let Notice { node, regarding, warning, reason, message, cause } = notice;
    let about = match regarding {
        Regarding::Pod { key, uid, field_path } => Reference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            uid: uid.to_string(),
            field_path,
        },
        Regarding::Simulated { kind, name, uid } => {
            let (namespace, name) = name.split_once('/').unwrap_or(("", &name));
            Reference {
                api_version: format!("{}/{}", sim_api::GROUP, sim_api::VERSION),
                kind: format!("{kind:?}"),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: uid.to_string(),
                ..Reference::default()
            }
        }
        Regarding::Node => Reference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: String::new(),
            name: node.clone(),
            uid: node.clone(),
            ..Reference::default()
        },
    };
    let event_type = if warning { EventType::Warning } else { EventType::Normal };
    recorder.host(&node).causes(&Causes::one(cause)).event(&about, event_type, &reason, message);
}
