//! Executes the operations of a workload on a control plane of its own: an API server and a scheduler in this process, and no kubelet, so
//! that nodes only exist.

use super::beside::KubeScheduler;
use super::devices::{self, Allocator};
use super::document::Workload;
use super::objects::{self, NewObject};
use super::operation::{Churn, CreateNodes, CreatePods, Operation, Stage, UpdateAny};
use super::pods::{Collector, Pods};
use super::report::Measured;
use super::tally::PodSelection;
use super::template::Template;
use anyhow::{Context, bail};
use futures::StreamExt;
use kstore_admission::PluginSwitches;
use kstore_api::gate;
use kstore_api::kind::OptIn;
use kstore_api::version::Minor;
use kstore_apiserver::ServerConfig;
use kstore_client::{ApiError, Client, DeleteParams, Gvr, ListParams};
use kstore_cluster::{ClusterConfig, Components, ControlPlane, server_without_listener};
use kstore_informer::{Key, Revision};
use kstore_nondet::{Nondet, Rng};
use kstore_registry::user::UserInfo;
use kstore_scheduler::{Config, Configuration, Gates, Registry, node};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// The user agent of what a workload does.
const AGENT: &str = "scheduler-perf";
/// Writes of one operation at a time.
const WRITES_IN_FLIGHT: usize = 64;
/// How long an operation waits for pods.
const PATIENCE: Duration = Duration::from_secs(30 * 60);
/// How long a kube-scheduler may take until it tries its first pod.
const START: Duration = Duration::from_secs(60);
/// The namespace of that pod.
const PROBE: &str = "scheduler-perf-probe";
/// How long the tasks of a control plane have after its workload.
const END: Duration = Duration::from_secs(10);
/// The admission plugins that scheduler_perf disables: there is no controller for what the first two need, and templates have numbers as
/// priorities.
const NO_PLUGINS: [&str; 3] = ["ServiceAccount", "TaintNodesByCondition", "Priority"];

/// The gate of gangs in the version of Kubernetes that the workloads have.
pub(super) const GANGS: &str = "GenericWorkload";
/// The version of the API that has PodGroups, which is served if their gate is on.
const GROUPS_API: &str = "scheduling.k8s.io/v1beta1";
/// The controller that makes the claims of pods from templates: scheduler_perf runs it, and no other one.
const CLAIM_CONTROLLER: &str = "resourceclaim-controller";

/// Runs a workload on a new control plane, and returns what it measured. `program` is a kube-scheduler to run instead of the scheduler of
/// this process.
pub(super) async fn run(workload: &Workload, program: Option<&Path>) -> anyhow::Result<Vec<Measured>> {
    let nondet = Nondet::real();
    let scheduler = match program {
        None => Some(Box::new(scheduler(workload)?)),
        Some(_) => None,
    };
    let mut components = Components { scheduler, ..Components::default() };
    if workload.operations.iter().any(uses_claim_templates) {
        components.controllers = Some(Box::default());
        let only = [CLAIM_CONTROLLER.to_owned()];
        components.select_controllers(&only).map_err(anyhow::Error::msg)?;
    }
    let mut server: ServerConfig = server_without_listener(&nondet);
    server.opt_in = opt_in(workload);
    server.admission.switches = PluginSwitches::without(NO_PLUGINS);
    let plane = ControlPlane::start(server, ClusterConfig { components, ..ClusterConfig::default() }).await?;
    let client = plane.client(UserInfo::new("kubernetes-admin", ["system:masters"]), AGENT);
    let pods = Pods::watch(&client, &nondet).await?;
    let mut run = Run {
        client,
        pods,
        rng: nondet.rng.clone(),
        revision: Revision(0),
        collector: None,
        measured: Vec::new(),
        background: JoinSet::new(),
    };
    let outcome = match program {
        None => run.all(&workload.operations).await,
        Some(program) => {
            let mut scheduler = KubeScheduler::start(program, workload, &plane).await?;
            let outcome = tokio::select! {
                biased;
                outcome = run.all_when_ready(&workload.operations) => outcome,
                error = scheduler.ended() => Err(error),
            };
            scheduler.end().await;
            outcome
        }
    };
    run.background.shutdown().await;
    plane.end(Some(Instant::now() + END)).await;
    outcome.map(|()| run.measured)
}

/// The optional APIs that a workload needs: those of the default version, and PodGroups if their gate is on.
fn opt_in(workload: &Workload) -> OptIn {
    let minor = Minor::DEFAULT;
    let has_gate = |name: &str| match workload.gates.get(name) {
        Some(is_on) => *is_on,
        None => gate::find(minor, name).is_some_and(|gate| gate.is_on),
    };
    OptIn::of(minor, &[(GROUPS_API, has_gate(GANGS))].into(), has_gate)
}

/// Whether an operation creates a template of claims, which a controller turns into claims.
fn uses_claim_templates(operation: &Operation) -> bool {
    let Operation::CreateAny { template, namespace, count } = operation else { return false };
    let first = objects::of_template(template, namespace, 0, *count);
    first.is_ok_and(|object| &*object.resource.resource == "resourceclaimtemplates")
}

/// The scheduler that a workload asks for.
fn scheduler(workload: &Workload) -> anyhow::Result<Config> {
    let defaults = Gates::default();
    let gates = Gates::of(|name| {
        let own = if name == "GangScheduling" { GANGS } else { name };
        workload.gates.get(own).copied().unwrap_or_else(|| defaults.is_on(name))
    });
    let Some(path) = &workload.scheduler_config else { return Ok(Config::gated(gates)) };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let read = Configuration::parse(&text, &Registry::in_tree_with(gates));
    Ok(read.with_context(|| format!("cannot use {shown}"))?.into())
}

/// A workload under way.
struct Run {
    client: Client,
    pods: Pods,
    rng: Rng,
    /// The newest revision of the operations' writes.
    revision: Revision,
    /// The measurement of startCollectingMetrics.
    collector: Option<(String, Collector)>,
    measured: Vec<Measured>,
    /// Churn, and deletions that the next operation does not wait for.
    background: JoinSet<anyhow::Result<()>>,
}

impl Run {
    /// Executes the operations when the scheduler, which has just started, has tried a pod of another namespace.
    async fn all_when_ready(&mut self, operations: &[Operation]) -> anyhow::Result<()> {
        let probe = CreatePods {
            count: 1,
            namespace: PROBE.to_owned(),
            template: None,
            is_measured: false,
            waits: false,
            volumes: None,
            steady: None,
        };
        self.create_pods(&probe, std::slice::from_ref(&probe.namespace)).await?;
        self.pods.shows(self.revision).await?;
        let selection = PodSelection { namespaces: vec![probe.namespace], ..PodSelection::default() };
        let tried = tokio::time::timeout(START, self.pods.all(&selection, Stage::Attempted)).await;
        tried.map_err(|_| anyhow::anyhow!("the kube-scheduler has not tried a pod within {START:?}"))?;
        delete_pods(self.client.clone(), self.pods.keys(&selection), None).await?;
        self.all(operations).await
    }

    async fn all(&mut self, operations: &[Operation]) -> anyhow::Result<()> {
        for (index, operation) in operations.iter().enumerate() {
            let done = tokio::time::timeout(PATIENCE, self.one(operation)).await;
            let done = done.unwrap_or_else(|_| Err(self.pods.unfinished(PATIENCE)));
            done.with_context(|| format!("op {index}"))?;
            while let Some(ended) = self.background.try_join_next() {
                ended.context("an operation in the background panicked")??;
            }
        }
        Ok(())
    }

    async fn one(&mut self, operation: &Operation) -> anyhow::Result<()> {
        match operation {
            Operation::CreateNodes(nodes) => self.create_nodes(nodes).await,
            Operation::CreateNamespaces { prefix, count, template } => {
                let name = |index: usize| format!("{prefix}-{index}");
                self.create(*count, |index| {
                    let namespace = objects::namespace(template.as_deref(), &name(index), index, *count);
                    Ok(vec![namespace?])
                })
                .await
            }
            Operation::CreatePods(pods) => {
                self.create_pods(pods, std::slice::from_ref(&pods.namespace)).await
            }
            Operation::CreatePodSets { count, namespace_prefix, pods } => {
                let namespaces: Vec<_> = (0..*count).map(|set| format!("{namespace_prefix}-{set}")).collect();
                self.create_pods(pods, &namespaces).await
            }
            Operation::DeletePods { pods, per_second, waits } => {
                self.pods.shows(self.revision).await?;
                let deletion = delete_pods(self.client.clone(), self.pods.keys(pods), *per_second);
                match waits {
                    true => deletion.await,
                    false => {
                        self.background.spawn(deletion);
                        Ok(())
                    }
                }
            }
            Operation::Churn(churn) => {
                self.ensure_namespace(&churn.namespace).await?;
                let churning = keep_churning(self.client.clone(), churn.clone());
                self.background.spawn(async move { churning.await.context("churn") });
                Ok(())
            }
            Operation::Barrier { pods, stage } => {
                self.pods.shows(self.revision).await?;
                self.pods.all(pods, *stage).await;
                Ok(())
            }
            Operation::Sleep(time) => {
                tokio::time::sleep(*time).await;
                Ok(())
            }
            Operation::StartCollecting { name, pods } => self.start_collecting(name, pods),
            Operation::StopCollecting => {
                let (topic, collector) =
                    self.collector.take().context("startCollectingMetrics is missing")?;
                self.measured.push(Measured { topic, throughput: collector.stop().await });
                Ok(())
            }
            Operation::CreateAny { template, namespace, count } => {
                self.ensure_namespace(namespace).await?;
                let object = |index| objects::of_template(template, namespace, index, *count);
                self.create(*count, |index| Ok(vec![object(index)?])).await
            }
            Operation::UpdateAny(update) => self.update_any(update).await,
            Operation::CreateResourceDriver { driver, nodes, devices } => {
                self.create_driver(driver, nodes, *devices).await
            }
            Operation::AllocResourceClaims { namespace } => self.allocate_claims(namespace).await,
            Operation::WaitForPodGroups { namespace, count } => self.has_groups(namespace, *count).await,
        }
    }

    fn start_collecting(&mut self, name: &str, pods: &PodSelection) -> anyhow::Result<()> {
        if self.collector.is_some() {
            bail!("metrics are being collected already: stopCollectingMetrics is missing");
        }
        self.collector = Some((name.to_owned(), self.pods.collect(pods.clone())));
        Ok(())
    }

    /// Checks that a namespace has so many PodGroups. What earlier operations have created is there: their writes have ended.
    async fn has_groups(&self, namespace: &str, count: usize) -> anyhow::Result<()> {
        let groups = self.list(Gvr::new("scheduling.k8s.io", "v1beta1", "podgroups"), namespace).await?;
        match groups.len() {
            found if found >= count => Ok(()),
            found => bail!("namespace {namespace} has {found} of {count} PodGroups"),
        }
    }

    async fn create_nodes(&mut self, nodes: &CreateNodes) -> anyhow::Result<()> {
        self.create(nodes.count, |index| objects::node(nodes, index)).await
    }

    /// Creates the pods in each of the namespaces, and waits until as many got a node.
    async fn create_pods(&mut self, pods: &CreatePods, namespaces: &[String]) -> anyhow::Result<()> {
        for namespace in namespaces {
            self.ensure_namespace(namespace).await?;
        }
        let selection = PodSelection { namespaces: namespaces.to_vec(), ..PodSelection::default() };
        let counted = self.pods.count(selection.clone());
        let collector = pods.is_measured.then(|| self.pods.collect(selection.clone()));
        for namespace in namespaces {
            self.create(pods.count, |index| objects::pod(pods, namespace, index)).await?;
        }
        if let Some(lasts) = pods.steady {
            for namespace in namespaces {
                self.keep_steady(pods, namespace, lasts).await?;
            }
        } else if pods.waits {
            counted.reaches((pods.count * namespaces.len()) as u64).await;
        }
        if let Some(collector) = collector {
            let topic = namespaces.first().cloned().unwrap_or_default();
            self.measured.push(Measured { topic, throughput: collector.stop().await });
        }
        Ok(())
    }

    /// Deletes each pod of a namespace that gets a node, and creates another one, for some time.
    async fn keep_steady(
        &mut self,
        pods: &CreatePods,
        namespace: &str,
        lasts: Duration,
    ) -> anyhow::Result<()> {
        let selection = PodSelection { namespaces: vec![namespace.to_owned()], ..PodSelection::default() };
        let (end, mut next) = (Instant::now() + lasts, pods.count);
        while let Ok(keys) = tokio::time::timeout_at(end, self.pods.scheduled(&selection)).await {
            let api = self.client.dynamic(Gvr::new("", "v1", "pods"));
            let at_once = DeleteParams { grace: Some(0), ..DeleteParams::default() };
            for key in &keys {
                match api.delete(key.namespace(), key.name(), &at_once).await {
                    Err(error) if !error.is_not_found() => {
                        return Err(error).context(format!("cannot delete pod {key}"));
                    }
                    _ => {}
                }
            }
            let first = next;
            next += keys.len();
            self.create(keys.len(), |index| objects::pod(pods, namespace, first + index)).await?;
            // Then the informer shows none of the deleted pods.
            self.pods.shows(self.revision).await?;
        }
        Ok(())
    }

    async fn create_driver(&mut self, driver: &str, nodes: &str, count: usize) -> anyhow::Result<()> {
        let mut names = Vec::new();
        for node in self.list(Gvr::new("", "v1", "nodes"), "").await? {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            if devices::matches(nodes, name).map_err(anyhow::Error::msg)? {
                names.push(name.to_owned());
            }
        }
        self.create(names.len(), |index| Ok(vec![devices::slice(driver, &names[index], count)?])).await
    }

    /// Allocates the claims of a namespace, or of all namespaces, that have no devices.
    async fn allocate_claims(&mut self, namespace: &str) -> anyhow::Result<()> {
        let resource = |plural| Gvr::new("resource.k8s.io", "v1", plural);
        let (classes, slices) = (
            self.list(resource("deviceclasses"), "").await?,
            self.list(resource("resourceslices"), "").await?,
        );
        let all = self.list(devices::claims(), "").await?;
        let nodes = self.list(Gvr::new("", "v1", "nodes"), "").await?;
        let nodes = nodes.iter().map(|node| node::decode(node.to_string().as_bytes()));
        let mut allocator = Allocator::new(&classes, &slices, &all, nodes.collect::<Result<_, _>>()?)?;
        let api = self.client.dynamic(devices::claims());
        let is_meant = |claim: &&Value| {
            let is_in = namespace.is_empty() || claim["metadata"]["namespace"] == namespace;
            is_in && claim["status"]["allocation"].is_null()
        };
        for claim in all.iter().filter(is_meant) {
            let text = |member: &str| claim["metadata"][member].as_str().unwrap_or_default();
            let name = format!("{}/{}", text("namespace"), text("name"));
            let allocated = allocator.allocate(claim, &self.rng).map_err(anyhow::Error::msg)?;
            let allocated = allocated.with_context(|| format!("no node has devices for claim {name}"))?;
            let written =
                api.replace_text(text("namespace"), text("name"), "status", &allocated.to_string()).await;
            let written = written.with_context(|| format!("cannot allocate claim {name}"))?;
            self.revision = self.revision.max(written.revision());
        }
        Ok(())
    }

    /// The objects of a kind in a namespace, or in all namespaces.
    async fn list(&self, resource: Gvr, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let plural = resource.resource.to_string();
        let listed = self.client.dynamic(resource).list(namespace, &ListParams::default()).await;
        Ok(listed.with_context(|| format!("cannot list {plural}"))?.0)
    }

    /// Creates lists of objects, several lists at a time; the objects of a list one after the other.
    async fn create(
        &mut self,
        count: usize,
        make: impl Fn(usize) -> Result<Vec<NewObject>, String>,
    ) -> anyhow::Result<()> {
        let client = self.client.clone();
        let creating = (0..count).map(|index| {
            let (objects, client) = (make(index), client.clone());
            async move {
                let objects = objects.map_err(anyhow::Error::msg)?;
                // A task each: calls within this process are served by the task that awaits them.
                let task = AbortOnDropHandle::new(tokio::spawn(create_all(client, objects)));
                task.await.context("a write panicked")?
            }
        });
        let mut created = futures::stream::iter(creating).buffer_unordered(WRITES_IN_FLIGHT);
        while let Some(revision) = created.next().await {
            self.revision = self.revision.max(revision?);
        }
        Ok(())
    }

    /// Creates a namespace unless it exists.
    async fn ensure_namespace(&mut self, name: &str) -> anyhow::Result<()> {
        if name.is_empty() {
            return Ok(());
        }
        let object = objects::namespace(None, name, 0, 1).map_err(anyhow::Error::msg)?;
        match create(&self.client, &object).await {
            Err(error) if !error.is_already_exists() => {
                Err(error).context(format!("cannot create namespace {name}"))
            }
            _ => Ok(()),
        }
    }

    async fn update_any(&mut self, update: &UpdateAny) -> anyhow::Result<()> {
        let mut pace = update.per_second.map(ticks);
        let whole = [String::new()];
        let subresources = if update.subresources.is_empty() { &whole[..] } else { &update.subresources };
        for index in 0..update.count {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let object = objects::of_template(&update.template, &update.namespace, index, update.count);
            let object = object.map_err(anyhow::Error::msg)?;
            let api = self.client.dynamic(object.resource.clone());
            for subresource in subresources {
                let replaced =
                    api.replace_text(&object.namespace, &object.name, subresource, &object.json).await;
                replaced.with_context(|| format!("cannot update {}", object.shown()))?;
            }
        }
        Ok(())
    }
}

/// Creates objects one after the other; returns the newest revision.
async fn create_all(client: Client, objects: Vec<NewObject>) -> anyhow::Result<Revision> {
    let mut newest = Revision(0);
    for object in objects {
        let created = create(&client, &object).await;
        let (_, revision) = created.with_context(|| format!("cannot create {}", object.shown()))?;
        newest = newest.max(revision);
    }
    Ok(newest)
}

/// Creates an object; returns its name and its revision.
async fn create(client: &Client, object: &NewObject) -> Result<(String, Revision), ApiError> {
    let api = client.dynamic(object.resource.clone());
    let mut stored = api.create_text(&object.namespace, &object.name, &object.json).await?;
    if object.has_status {
        stored = api.replace_text(&object.namespace, &object.name, "status", &object.json).await?;
    }
    Ok((stored.name()?, stored.revision()))
}

/// Deletes pods, so many a second, or one after the other. Without kubelets, pods with a node and a grace period stay and are terminating.
async fn delete_pods(client: Client, keys: Vec<Key>, per_second: Option<u32>) -> anyhow::Result<()> {
    let api = client.dynamic(Gvr::new("", "v1", "pods"));
    let mut pace = per_second.map(ticks);
    for key in keys {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        match api.delete(key.namespace(), key.name(), &DeleteParams::default()).await {
            Err(error) if !error.is_not_found() => {
                return Err(error).context(format!("cannot delete pod {key}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// So many ticks a second.
fn ticks(per_second: u32) -> tokio::time::Interval {
    tokio::time::interval(Duration::from_secs(1) / per_second.max(1))
}

/// Creates objects at the interval of the churn, or by turns creates and deletes them.
async fn keep_churning(client: Client, churn: Churn) -> Result<(), ApiError> {
    let mut pace = tokio::time::interval(churn.interval);
    pace.tick().await;
    let rounds = if churn.number == 0 { usize::MAX } else { churn.number };
    let mut created: Vec<Vec<Option<String>>> =
        vec![vec![None; churn.templates.len()]; if churn.recreates { rounds } else { 0 }];
    for round in 0.. {
        if !churn.recreates && round >= rounds {
            break;
        }
        pace.tick().await;
        for (nth, template) in churn.templates.iter().enumerate() {
            let object = churned(template, &churn, round)?;
            match created.get_mut(round % rounds).and_then(|names| names[nth].take()) {
                Some(name) => {
                    let api = client.dynamic(object.resource);
                    match api.delete(&object.namespace, &name, &DeleteParams::default()).await {
                        Err(error) if !error.is_not_found() => return Err(error),
                        _ => {}
                    }
                }
                None => {
                    let (name, _) = create(&client, &object).await?;
                    if let Some(names) = created.get_mut(round % rounds) {
                        names[nth] = Some(name);
                    }
                }
            }
        }
    }
    Ok(())
}

fn churned(template: &Arc<Template>, churn: &Churn, round: usize) -> Result<NewObject, ApiError> {
    objects::of_template(template, &churn.namespace, round, churn.number).map_err(ApiError::Json)
}
