//! The availability controller of APIServices. It probes every aggregated API server when its APIService, Service or EndpointSlices
//! change, and every 30 seconds. It publishes the result as [`AggregatedApis`] and writes the `Available` conditions. It also keeps
//! the automanaged APIServices of custom groups. All state is rebuilt from stored objects, so the task can restart at any time.

use super::automanaged::{self, Change, Ownership};
use super::availability::Availability;
use super::services::{ApiService, ApiServices};
use super::{AggregatedApi, AggregatedApis, Aggregator, ApiDocuments, api_services};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kstore_api::patch::PatchType;
use kstore_api::status::{Reason, Status};
use kstore_api::{kind, meta};
use kstore_nondet::Backoff;
use kstore_pipeline::pipeline::Pipeline;
use kstore_pipeline::pipeline::definition::definitions;
use kstore_registry::cache::{Batch, Cache, Filter, Watch, WatchEnd, WatchStart};
use kstore_registry::request::{Action, Body, DeleteOptions, Target, WriteOptions, own_request};
use kstore_storage::limits::{
    AGGREGATED_BACKOFF_BASE, AGGREGATED_BACKOFF_CAP, AGGREGATED_DOCUMENTS_EVERY, AGGREGATED_PROBE_EVERY,
    AGGREGATED_REWRITE_AFTER,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;

/// The label of this task in the restart metric.
pub(crate) const TASK: &str = "aggregator";

/// The field manager of the writes of this task.
const MANAGER: &str = "kube-aggregator";

/// The time of the next probe of an API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextProbe {
    At(Instant),
    /// A probe is running.
    Running,
    /// The Service has no address to probe.
    Unreachable,
}

/// The state of one APIService with a Service.
struct ApiServiceState {
    service: Arc<ApiService>,
    /// The stored object, reduced to its status.
    stored: Value,
    /// `None` before the first check.
    availability: Option<Availability>,
    /// The last condition that this server wrote, and when.
    written: Option<(Availability, Instant)>,
    documents: Option<Arc<ApiDocuments>>,
    documents_due: Instant,
    next: NextProbe,
    failures: u32,
}

impl ApiServiceState {
    /// The time from which the condition may be written. Another apiserver on the same storage may reach other addresses and write
    /// the opposite; both would rewrite each other's condition without a pause.
    fn writable_from(&self) -> Option<Instant> {
        let (written, at) = self.written.as_ref()?;
        (Some(written) == self.availability.as_ref()).then(|| *at + AGGREGATED_REWRITE_AFTER)
    }

    /// The new status of the stored object; `None` if its condition is up to date.
    fn new_status(&self, now: &str) -> Option<Value> {
        self.availability.as_ref()?.status(&self.stored, now)
    }
}

/// A write of an APIService that is due.
struct PendingWrite {
    /// Empty for a new object.
    name: Arc<str>,
    subresource: &'static str,
    action: Action,
}

/// The result of one probe.
struct ProbeOutcome {
    service: Arc<ApiService>,
    probe: Result<(), String>,
    /// Discovery and OpenAPI documents, if they were due and the probe succeeded.
    documents: Option<ApiDocuments>,
}

/// The controller's state between events.
struct AvailabilityController {
    aggregator: Arc<Aggregator>,
    pipeline: Arc<Pipeline>,
    services: ApiServices,
    /// Keyed by the name of the APIService, as `states` is.
    ownerships: BTreeMap<Arc<str>, Ownership>,
    /// Whether automanaged APIServices may differ from the served kinds. Comparing them reads all APIServices.
    needs_plan: bool,
    states: BTreeMap<Arc<str>, ApiServiceState>,
    probes: FuturesUnordered<BoxFuture<'static, ProbeOutcome>>,
    /// The time at which failed writes are retried.
    retry: Option<Instant>,
}

/// Runs the availability controller until the storage closes.
pub(crate) async fn run(aggregator: Arc<Aggregator>, pipeline: Arc<Pipeline>) {
    loop {
        let controller = AvailabilityController {
            aggregator: aggregator.clone(),
            pipeline: pipeline.clone(),
            services: ApiServices::default(),
            ownerships: BTreeMap::new(),
            needs_plan: true,
            states: BTreeMap::new(),
            probes: FuturesUnordered::new(),
            retry: None,
        };
        match controller.follow().await {
            WatchEnd::Closed => return,
            end => tracing::debug!(%end, "the availability controller restarts its watch"),
        }
    }
}

impl AvailabilityController {
    /// Processes events until the watch ends; returns why it ended.
    async fn follow(mut self) -> WatchEnd {
        let cache = self.pipeline.cache().clone();
        let mut watch = watch(&cache, vec![Filter::all(api_services()), Filter::all(definitions())]).await;
        for (_, entry) in watch.initial().iter().filter(|(selector, _)| *selector == 0) {
            self.apply_api_service(entry.name(), Some(&entry.parse()));
        }
        // Services and EndpointSlices change often in large clusters, so they are watched only while an APIService names a Service.
        let mut endpoints = None;
        loop {
            if self.states.is_empty() {
                endpoints = None;
            } else if endpoints.is_none() {
                let kinds = [
                    kind::lookup("", "v1", "services"),
                    kind::lookup("discovery.k8s.io", "v1", "endpointslices"),
                ];
                let filters = kinds.into_iter().flatten().map(Filter::all).collect();
                endpoints = Some(self::watch(&cache, filters).await);
            }
            // Boxed, as its writes are large futures.
            Box::pin(self.refresh()).await;
            let due = self.next_due();
            tokio::select! {
                biased;
                batch = watch.next() => match batch {
                    Ok(batch) => self.apply_batch(&batch),
                    Err(end) => return end,
                },
                moved = next_of(&mut endpoints) => match moved {
                    Ok(batch) => self.probe_affected(&batch),
                    Err(_) => endpoints = None,
                },
                Some(answered) = self.probes.next(), if !self.probes.is_empty() => self.record_probe(answered),
                () = sleep_until(due) => {}
            }
        }
    }

    fn apply_batch(&mut self, batch: &Batch) {
        self.needs_plan |= batch.deliveries.iter().any(|delivery| delivery.selector != 0);
        for delivery in batch.deliveries.iter().filter(|delivery| delivery.selector == 0) {
            match (&delivery.change.new, &delivery.change.old) {
                (Some(entry), _) => self.apply_api_service(entry.name(), Some(&entry.parse())),
                (None, Some(entry)) => self.apply_api_service(entry.name(), None),
                (None, None) => {}
            }
        }
    }

    /// Schedules an immediate probe of the API servers whose Service or EndpointSlices changed, as kube-aggregator does.
    fn probe_affected(&mut self, batch: &Batch) {
        let now = Instant::now();
        for delivery in &batch.deliveries {
            let Some(entry) = delivery.change.new.as_ref().or(delivery.change.old.as_ref()) else { continue };
            let (namespace, label) = (entry.namespace(), "kubernetes.io/service-name");
            for state in
                self.states.values_mut().filter(|state| *state.service.backend.namespace == *namespace)
            {
                let name = &*state.service.backend.name;
                let concerns = match entry.resource.plural {
                    "services" => entry.name() == name,
                    _ => meta::label(&entry.parse(), label) == Some(name),
                };
                if concerns && matches!(state.next, NextProbe::At(_)) {
                    state.next = NextProbe::At(now);
                }
            }
        }
    }

    /// Applies the new state of a stored APIService; `None` means that it was deleted.
    fn apply_api_service(&mut self, name: &str, object: Option<&Value>) {
        let Some(object) = object else {
            self.services.remove(name);
            self.ownerships.remove(name);
            self.states.remove(name);
            self.needs_plan = true;
            return;
        };
        self.services.set(object);
        let ownership = Ownership::of(object);
        self.needs_plan |= matches!(ownership, Ownership::Automanaged(_, Some(_)));
        self.ownerships.insert(name.into(), ownership);
        let known = self.states.remove(name);
        let Some(service) = self.services.get(name).cloned() else { return };
        let known = known.filter(|state| state.service.is_as(&service));
        let now = Instant::now();
        let mut state = known.unwrap_or_else(|| ApiServiceState {
            service: service.clone(),
            stored: Value::Null,
            availability: None,
            written: None,
            documents: None,
            documents_due: now,
            next: NextProbe::At(now),
            failures: 0,
        });
        (state.service, state.stored) = (service, json!({ "status": object["status"] }));
        self.states.insert(name.into(), state);
    }

    /// Starts due probes, publishes the current result, and writes conditions and automanaged objects that differ from it.
    async fn refresh(&mut self) {
        let now = Instant::now();
        self.start_due_probes(now);
        self.publish();
        let mut written = Vec::new();
        // A write may fail because the store closes, so people read only of one that still fails when it is retried.
        let is_retry = self.retry.is_some_and(|due| due <= now);
        for due in self.writes() {
            let (name, is_condition) = (due.name.clone(), due.subresource == "status");
            let outcome = write(&self.pipeline, due, is_retry).await;
            written.push(outcome);
            if let Some(state) = self.states.get_mut(&name).filter(|_| is_condition)
                && outcome == WriteOutcome::Done
            {
                state.written = state.availability.clone().map(|written| (written, Instant::now()));
            }
        }
        self.needs_plan = written.iter().any(|written| *written != WriteOutcome::Done);
        let failed = written.contains(&WriteOutcome::Failed);
        let retry = self.retry.filter(|due| *due > now);
        self.retry = failed.then(|| retry.unwrap_or(now + AGGREGATED_BACKOFF_CAP));
    }

    /// Checks every Service in the cluster's state, and starts the probes that are due.
    fn start_due_probes(&mut self, now: Instant) {
        for state in self.states.values_mut() {
            let service = &state.service;
            if let Err(why) = self.aggregator.outbound.check(&*self.aggregator.cluster, &service.backend) {
                state.availability = Some(Availability::unreachable(service, &why));
                state.failures = 0;
                if state.next != NextProbe::Running {
                    state.next = NextProbe::Unreachable;
                }
                continue;
            }
            let is_due = match state.next {
                NextProbe::At(due) => due <= now,
                NextProbe::Unreachable => true,
                NextProbe::Running => false,
            };
            if !is_due {
                continue;
            }
            state.next = NextProbe::Running;
            let wants_documents = state.documents_due <= now;
            let (aggregator, service) = (self.aggregator.clone(), service.clone());
            let known = state.documents.clone();
            let ask = async move {
                let probe = aggregator.probe(&service).await;
                let documents = match wants_documents && probe.is_ok() {
                    true => Some(aggregator.documents(&service, known.as_deref()).await),
                    false => None,
                };
                ProbeOutcome { service, probe, documents }
            };
            self.probes.push(ask.boxed());
        }
    }

    fn record_probe(&mut self, answered: ProbeOutcome) {
        let ProbeOutcome { service, probe, documents } = answered;
        let state = self.states.get_mut(&service.name).filter(|state| state.service.is_as(&service));
        let Some(state) = state else { return };
        let now = Instant::now();
        state.failures = if probe.is_ok() { 0 } else { state.failures.saturating_add(1) };
        let wait = match probe {
            Ok(()) => AGGREGATED_PROBE_EVERY,
            Err(_) => Backoff::doubling(AGGREGATED_BACKOFF_BASE, AGGREGATED_BACKOFF_CAP).wait(state.failures),
        };
        state.next = NextProbe::At(now + wait);
        state.availability = Some(match probe {
            Ok(()) => Availability::passed(),
            Err(why) => Availability::failed(&service, &why),
        });
        if let Some(documents) = documents {
            state.documents_due = now + AGGREGATED_DOCUMENTS_EVERY;
            // Unchanged documents keep their Arc, so that merged documents are not rebuilt.
            if state.documents.as_deref() != Some(&documents) {
                state.documents = Some(Arc::new(documents));
            }
        }
    }

    fn publish(&self) {
        let remotes = self.states.values().map(|state| AggregatedApi {
            service: state.service.clone(),
            is_available: match &state.availability {
                Some(availability) => availability.is_available,
                None => state.service.was_available,
            },
            documents: state.documents.clone(),
        });
        let apis = AggregatedApis { services: self.services.clone(), apis: remotes.collect() };
        if !apis.is_as(&self.aggregator.apis()) {
            self.aggregator.publish(apis);
        }
    }

    /// The time of the next probe, retry or deferred write, if any is scheduled.
    fn next_due(&self) -> Option<Instant> {
        let probes = self.states.values().filter_map(|state| match state.next {
            NextProbe::At(due) => Some(due),
            NextProbe::Running | NextProbe::Unreachable => None,
        });
        let now = Instant::now();
        let deferred = self.states.values().filter_map(|state| {
            // The time of the new status does not matter: only whether there is one.
            state.writable_from().filter(|from| *from > now && state.new_status("").is_some())
        });
        probes.chain(deferred).chain(self.retry).min()
    }

    /// The writes of APIServices that are due; none on a server that shows recorded data, whose APIServices stay as they were.
    fn writes(&self) -> Vec<PendingWrite> {
        let mut writes = Vec::new();
        if self.pipeline.is_frozen() {
            return writes;
        }
        let clock = Instant::now();
        let now = meta::format_time(self.pipeline.nondet().clock.now_seconds());
        for state in self.states.values() {
            let Some(status) = state.new_status(&now) else { continue };
            if state.writable_from().is_some_and(|from| from > clock) {
                continue;
            }
            let patch = json!({ "metadata": { "uid": &*state.service.uid }, "status": status });
            let (name, action) = (state.service.name.clone(), patched(&patch));
            writes.push(PendingWrite { name, subresource: "status", action });
        }
        let changes = match self.needs_plan {
            true => automanaged::plan(self.pipeline.cache().kinds().rows(), &self.ownerships),
            false => Vec::new(),
        };
        for change in changes {
            let (name, action) = match change {
                Change::Create(object) => {
                    ("".into(), Action::Create(Body::json(encoded(&object)), options()))
                }
                Change::Patch(name, patch) => (name, patched(&patch)),
                Change::Delete(name, uid) => {
                    let delete = DeleteOptions { uid: Some(uid), ..DeleteOptions::default() };
                    (name, Action::Delete(delete, options()))
                }
            };
            writes.push(PendingWrite { name, subresource: "", action });
        }
        writes
    }
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteOutcome {
    Done,
    /// The object changed or disappeared meanwhile; its event triggers another attempt.
    Outdated,
    Failed,
}

async fn write(
    pipeline: &Pipeline,
    PendingWrite { name, subresource, action }: PendingWrite,
    is_retry: bool,
) -> WriteOutcome {
    let target = Target {
        resource: api_services(),
        custom: None,
        subresource,
        namespace: String::new(),
        name: String::from(&*name),
    };
    let Err(refused) = pipeline.serve(own_request(target, action)).await else {
        return WriteOutcome::Done;
    };
    let Status { reason, message, .. } = refused.status;
    if matches!(reason, Reason::NotFound | Reason::AlreadyExists | Reason::Conflict) {
        return WriteOutcome::Outdated;
    }
    match is_retry {
        true => tracing::warn!(api_service = &*name, error = message, "an APIService cannot be written"),
        false => tracing::debug!(api_service = &*name, error = message, "an APIService was not written yet"),
    }
    WriteOutcome::Failed
}

fn patched(patch: &Value) -> Action {
    Action::Patch(PatchType::Merge, encoded(patch), options())
}

fn options() -> WriteOptions {
    WriteOptions { field_manager: MANAGER.into(), ..WriteOptions::default() }
}

fn encoded(value: &Value) -> Bytes {
    serde_json::to_vec(value).expect("a value has string keys only").into()
}

async fn watch(cache: &Arc<Cache>, filters: Vec<Filter>) -> Watch {
    let started = Watch::start(cache.clone(), filters.clone(), WatchStart::State).await;
    started.unwrap_or_else(|end| Watch::ended(cache.clone(), filters, end))
}

/// The next batch of a watch; pending for ever without a watch.
async fn next_of(watch: &mut Option<Watch>) -> Result<Batch, WatchEnd> {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
