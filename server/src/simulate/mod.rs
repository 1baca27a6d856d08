//! `kstore-server simulate`: a whole cluster in memory and in virtual time, on this thread. The clock jumps to the next event, so a day
//! takes as long as its work; equal scenarios and seeds give equal reports.

mod chart;
mod compare;
mod observed;
mod report;
mod scenario;

use crate::args::{MetricsServer, ReportOutput, SimulateArgs};
use crate::metrics_server::{WithMetricsServer, keep_objects};
use crate::simulation::{self, Problems};
use crate::{clients, pki};
use anyhow::{Context, anyhow, bail};
use compare::Comparison;
use kstore_api::version::Minor;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::NetworkConfig;
use kstore_client::manifest::{Applier, ManifestObject, sort_for_apply};
use kstore_client::{Client, DeleteParams};
use kstore_cluster::{ClusterConfig, Components, ControlPlane, InitialObjects, server_without_listener};
use kstore_kubelet_sim::sim_api;
use kstore_nondet::Nondet;
use kstore_registry::outbound::{Network, ServiceBackends};
use kstore_registry::provenance::Note;
use kstore_registry::user::UserInfo;
use kstore_storage::storage_key::KeyPlace;
use kstore_store::{Batch, Event, EventKind, KeyRange, Store, WatchRequest, Watcher};
use observed::{Change, Observed};
use report::Report;
use scenario::{Scenario, Step, TimedStep};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Prefix of the keys of all objects.
const ROOT: &str = "/registry/";
/// The user agent of what the scenario does.
const AGENT: &str = "scenario";
/// The user agent of the metrics server's objects.
const METRICS_AGENT: &str = "metrics-server";
/// All controllers but the one of tokens in Secrets: a simulation has no keys of service accounts, since none of its clients sends a token.
const CONTROLLERS: [&str; 2] = ["*", "-serviceaccount-token-controller"];
/// Moments that the picture shows.
const SAMPLES: u32 = 240;
/// Time after which a step that the API server refuses for now fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the stack: the pipeline's futures are boxed, and unoptimised frames of expressions are large.
const STACK: usize = 8 << 20;

/// Carries out `simulate`.
pub(crate) fn simulate(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let documents = simulation::read(std::slice::from_ref(&args.scenario))?;
    let scenario = Scenario::read(documents).map_err(Problems)?;
    let until = args.until.or(scenario.until).context("give --until, or spec.until in the scenario")?;
    let seed = args.seed.or(scenario.seed).unwrap_or(1);
    if let Some(late) = scenario.steps.iter().find(|step| step.at > until) {
        bail!("a step is at {:?}, after the end of the simulation at {until:?}", late.at);
    }
    // Read before the work, which may take long.
    let earlier = args.against.as_deref().map(earlier_report).transpose()?;
    let thread = std::thread::Builder::new().name("simulation".to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || block_on(scenario, until, seed)).context("cannot start a thread")?;
    let observed = thread.join().map_err(|_| anyhow!("the simulation panicked"))??;
    let report = Report::of(&observed, until, seed);
    if let Some(path) = &args.chart {
        let drawn = std::fs::write(path, chart::draw(&observed.samples));
        drawn.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let comparison = earlier.map(|earlier| Comparison::of(&earlier, &report.value()));
    match args.output {
        ReportOutput::Text => print!("{}", report.text()),
        ReportOutput::Json => print!("{}", report.json(comparison.as_ref())),
    }
    if let (ReportOutput::Text, Some(comparison), Some(path)) = (args.output, comparison, &args.against) {
        print!("{}", comparison.text(&path.display().to_string()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The report of an earlier simulation in a file.
fn earlier_report(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    compare::read(&text).map_err(|why| anyhow!("--against {}: {why}", path.display()))
}

fn block_on(scenario: Scenario, until: Duration, seed: u64) -> anyhow::Result<Observed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.context("cannot start the runtime")?.block_on(run(scenario, until, seed))
}

/// Runs a scenario on the current runtime, whose time is virtual.
async fn run(mut scenario: Scenario, until: Duration, seed: u64) -> anyhow::Result<Observed> {
    let nondet = Nondet::simulated(seed);
    let stages = Arc::new(std::mem::take(&mut scenario.stages));
    let nodes = kstore_kubelet_sim::Config { nodes: 0, has_sim_api: true, stages, ..Default::default() };
    let mut components = Components { nodes: Some(Box::new(nodes)), ..Components::all(0) };
    components.select_controllers(&CONTROLLERS.map(str::to_owned)).map_err(|problem| anyhow!(problem))?;
    let initial_objects = InitialObjects::Shared;
    let config = ClusterConfig { components, initial_objects, ..ClusterConfig::default() };
    let (backends, choice) = (ServiceBackends::default(), MetricsServer::Installed);
    let metrics = WithMetricsServer::new(Network::new(backends.clone()), choice, &backends, Minor::DEFAULT);
    let server = server_without_listener(&nondet);
    let network = NetworkConfig { outbound: Arc::new(metrics.clone()), ..server.network };
    let plane = ControlPlane::start(ServerConfig { network, ..server }, config).await?;
    if scenario.reads_usage() {
        metrics.begin(|| clients::client(&plane, pki::METRICS_SERVER), &plane.phases().core);
        let (admin, loops) =
            (clients::client(&plane, pki::ADMIN).agent(METRICS_AGENT), &plane.phases().loops);
        loops.spawn("metrics-server", keep_objects(admin, (choice, Minor::DEFAULT), loops.stop()));
    }
    let store = plane.store().context("the cluster has no store of its own")?.clone();
    let client = plane.client(UserInfo::new("kubernetes-admin", ["system:masters"]), AGENT);
    sim_api::install(&client, &[]).await?;
    let mut run = Run {
        watcher: watch(&store)?,
        store,
        client,
        nondet: nondet.clone(),
        observed: Observed::from(nondet.clock.now()),
    };
    let outcome = run.all(scenario, until).await;
    plane.end(Some(Instant::now() + PATIENCE)).await;
    outcome.map(|()| run.observed)
}

/// A simulation under way.
struct Run {
    store: Store,
    watcher: Watcher,
    client: Client,
    nondet: Nondet,
    observed: Observed,
}

impl Run {
    async fn all(&mut self, scenario: Scenario, until: Duration) -> anyhow::Result<()> {
        let begin = Instant::now();
        let Scenario { simulation, mut objects, steps, .. } = scenario;
        sort_for_apply(&mut objects);
        for object in simulation.into_iter().chain(objects) {
            self.apply(object).await?;
        }
        let every = (until / SAMPLES).max(Duration::from_secs(1));
        let (mut steps, mut sample) = (VecDeque::from(steps), Duration::ZERO);
        loop {
            let times = [steps.front().map(|step| step.at), Some(sample).filter(|at| *at <= until)];
            let Some(next) = times.into_iter().flatten().min() else { break };
            self.pass(begin + next).await?;
            while let Some(TimedStep { step, .. }) = steps.pop_front_if(|step| step.at <= next) {
                self.step(step).await?;
            }
            if sample <= next {
                self.observed.sample(self.nondet.clock.now());
                sample += every;
            }
        }
        self.pass(begin + until).await?;
        self.observed.advance(self.nondet.clock.now());
        Ok(())
    }

    /// Counts what happens until `end`.
    async fn pass(&mut self, end: Instant) -> anyhow::Result<()> {
        loop {
            match tokio::time::timeout_at(end, self.watcher.next()).await {
                Err(_) => return Ok(()),
                Ok(Some(Ok(batch))) => self.count(&batch),
                // The watch fell behind, which a watch that is always read does only with very large commits.
                Ok(Some(Err(_))) => self.watcher = watch(&self.store)?,
                Ok(None) => bail!("the cluster has ended"),
            }
        }
    }

    fn count(&mut self, batch: &Batch) {
        let now = self.nondet.clock.now();
        let note = batch.events.iter().find_map(|event| Note::decode(event.note.as_deref()?));
        let writer = note.map_or_else(|| "the store".to_owned(), |note| writer(&note.user, &note.agent));
        for event in batch.events.iter() {
            count_event(&mut self.observed, event, &writer, now);
        }
    }

    async fn step(&mut self, step: Step) -> anyhow::Result<()> {
        match step {
            Step::Apply(object) => self.apply(object).await,
            Step::Change(target, change) => {
                let api = self.client.dynamic(target.resource.clone());
                let done = api.patch(&target.namespace, &target.name, "", &Step::patch(&change)).await;
                done.map(drop).with_context(|| format!("cannot change {} {}", target.resource, target.name))
            }
            Step::Delete(target) => {
                let api = self.client.dynamic(target.resource.clone());
                let done = api.delete(&target.namespace, &target.name, &DeleteParams::default()).await;
                done.map(drop).with_context(|| format!("cannot delete {} {}", target.resource, target.name))
            }
        }
    }

    /// Applies an object. Tries again for a while: its kind or its namespace may be about to be served.
    async fn apply(&mut self, object: ManifestObject) -> anyhow::Result<()> {
        let (applier, end) = (Applier::new(&self.client), Instant::now() + PATIENCE);
        loop {
            match applier.apply(object.clone()).await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() >= end => return Err(error.into()),
                Err(_) => self.pass(Instant::now() + Duration::from_secs(1)).await?,
            }
        }
    }
}

/// Watches all objects from now on.
fn watch(store: &Store) -> anyhow::Result<Watcher> {
    let request = WatchRequest::new(KeyRange::prefix(ROOT)).from(store.revision().next());
    store.watch(request).map_err(|_| anyhow!("the cluster has ended"))
}

fn count_event(observed: &mut Observed, event: &Event, writer: &str, now: jiff::Timestamp) {
    let Some(place) = std::str::from_utf8(event.key()).ok().and_then(KeyPlace::of) else { return };
    let key = format!("{}/{}", place.namespace, place.name);
    let is_read = matches!(place.plural, "pods" | "nodes" | "nodegroups");
    let object = match event.kind {
        EventKind::Put if is_read => serde_json::from_slice::<Value>(event.kv.value()).ok(),
        EventKind::Put | EventKind::Delete => None,
    };
    let key = key.trim_start_matches('/');
    observed.take(&Change { plural: place.plural, key, object: object.as_ref(), writer }, now);
}

/// The name of a writer in reports: all kubelets are one.
fn writer(user: &str, agent: &str) -> String {
    match user.strip_prefix("system:node:") {
        Some(_) => "kubelets".to_owned(),
        None => agent.split('/').next().unwrap_or_default().to_owned(),
    }
}
