//! HorizontalPodAutoscaler controller: scales workloads by their metrics. `plan` decides; `metric` and
//! `calculate` evaluate metrics, `behavior` limits the size, `history` remembers recommendations. This file
//! reads the target, its pods and the metrics, and executes the decision; `scale_target` and `source` are the
//! reads.
//!
//! An autoscaler is evaluated when it is created or its spec changes, and every 15 seconds. Without
//! autoscalers nothing is read: pods are listed for each evaluation by the target's selector and are not
//! cached.
//!
//! Follows `reconcileAutoscaler` and `computeReplicasForMetrics`.

mod behavior;
mod calculate;
mod history;
mod metric;
mod plan;
mod pods;
mod sample;
mod source;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::limits::{AUTOSCALING_PERIOD, METRICS_IN_FLIGHT};
use crate::object::Object as Written;
use crate::resource::{PODS, Resource, gvr};
use crate::scale_target::{self, ReadScale};
use crate::view::subject;
use futures::StreamExt as _;
use history::History;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kstore_api::lenient;
use kstore_api::selector::label;
use kstore_api::version::Minor;
use kstore_client::{ApiError, ListParams, Obj};
use kstore_informer::{Action as Next, Context, Delta, Informer, Key, Object, Occurrence};
use parking_lot::Mutex;
use plan::{Decision, Metrics, PlannedEvent, Scale};
use pods::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

const WORKERS: usize = 5;
const COMPONENT: &str = "horizontal-pod-autoscaler";

type Autoscalers = Informer<Obj<HorizontalPodAutoscaler>>;

/// Runs the controller until the cluster stops.
pub(crate) fn run(cluster: Arc<Cluster>) -> impl Future<Output = ()> {
    let autoscalers: Autoscalers = cluster.caches.get();
    let controller = cluster.controller(COMPONENT).watch_deltas(&autoscalers, changed).workers(WORKERS);
    let executor = cluster.executor(COMPONENT);
    let stop = cluster.stop.clone();
    work(controller, stop, Autoscaling { cluster, autoscalers, executor, memory: Mutex::default() })
}

/// The key of an autoscaler, unless only its status changed.
fn changed(delta: &Delta<Obj<HorizontalPodAutoscaler>>) -> Option<Key> {
    let is_same = matches!(delta, Delta::Updated { old, new } if old.spec == new.spec && old.metadata.uid == new.metadata.uid);
    (!is_same).then(|| delta.object().key())
}

/// Remembered data of an autoscaler.
#[derive(Clone, Default)]
struct AutoscalerMemory {
    uid: Option<String>,
    history: History,
    /// The selector of its target at the last read.
    selector: String,
}

struct Autoscaling {
    cluster: Arc<Cluster>,
    autoscalers: Autoscalers,
    executor: Executor,
    memory: Mutex<BTreeMap<Key, AutoscalerMemory>>,
}

impl Reconcile for Autoscaling {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(hpa) = self.autoscalers.get(&cx.key) else {
            self.memory.lock().remove(&cx.key);
            return Ok(Next::Done);
        };
        let mut memory = self.memory.lock().get(&cx.key).cloned().unwrap_or_default();
        if memory.uid != hpa.metadata.uid {
            memory = AutoscalerMemory { uid: hpa.metadata.uid.clone(), ..AutoscalerMemory::default() };
        }
        let decision = self.decide(&cx, &hpa, &mut memory).await;
        // Runs of one key do not overlap, so its memory has not changed meanwhile.
        self.memory.lock().insert(cx.key.clone(), memory);
        let version = self.cluster.config.version_with("HPAGeneration", FIRST_WITH_GENERATION);
        match self.executor.execute(&cx, &report(version, &hpa, decision?)).await.result() {
            // A conflict or a missing object means that the cache will show another state soon.
            Err(error) if !error.is_conflict() && !error.is_not_found() => Err(error.into()),
            Err(_) | Ok(()) => Ok(Next::Again(AUTOSCALING_PERIOD)),
        }
    }
}

impl Autoscaling {
    /// The version whose rules about targets without replicas hold.
    fn scaling_version(&self) -> Minor {
        self.cluster.config.version_with("HPAScaleToZero", plan::FIRST_TO_ZERO)
    }

    /// Decides about the target and scales it.
    async fn decide(
        &self,
        cx: &Context,
        hpa: &HorizontalPodAutoscaler,
        memory: &mut AutoscalerMemory,
    ) -> Result<Decision, ApiError> {
        let now = || self.cluster.nondet.clock.now();
        let (resource, read) = match self.read_scale(hpa).await {
            Ok(read) => read,
            Err(error) => return Ok(plan::without_scale(hpa, &error, now())),
        };
        let scale = scale(&read);
        memory.selector.clone_from(&scale.selector);
        let decision = self.plan(cx, hpa, &scale, &mut memory.history).await?;
        let Some((size, _)) = &decision.rescale else { return Ok(decision) };
        Ok(match self.rescale(cx, hpa, &resource, read, *size).await {
            Ok(()) => {
                let minor = self.scaling_version();
                plan::rescaled(minor, decision, hpa, scale.replicas, &mut memory.history, now())
            }
            Err(error) => plan::refused(decision, hpa, &error.to_string(), now()),
        })
    }

    async fn read_scale(&self, hpa: &HorizontalPodAutoscaler) -> Result<(Resource, ReadScale), String> {
        let to = &hpa.spec.scale_target_ref;
        let resource = scale_target::resource(&self.executor.client, to).await?;
        let namespace = hpa.metadata.namespace.as_deref().unwrap_or_default();
        let read = ReadScale::read(&self.executor.client, &resource, (namespace, &to.name)).await;
        Ok((resource, read.map_err(|error| error.to_string())?))
    }

    async fn plan(
        &self,
        cx: &Context,
        hpa: &HorizontalPodAutoscaler,
        scale: &Scale,
        history: &mut History,
    ) -> Result<Decision, ApiError> {
        let (clock, minor) = (&self.cluster.nondet.clock, self.scaling_version());
        if !plan::needs_metrics(minor, hpa, scale.replicas) {
            return Ok(plan::plan(minor, hpa, scale, &Metrics::Unread, history, clock.now()));
        }
        let pods = match self.pods(cx, scale).await? {
            Ok(pods) => pods,
            Err(metrics) => return Ok(plan::plan(minor, hpa, scale, &metrics, history, clock.now())),
        };
        let specs = hpa.spec.metrics.as_deref().unwrap_or_default();
        let (client, namespace) = (&self.executor.client, cx.key.namespace());
        let reads: Vec<_> =
            specs.iter().map(|spec| source::read(client, spec, namespace, &scale.selector)).collect();
        let readings: Vec<_> = futures::stream::iter(reads).buffered(METRICS_IN_FLIGHT).collect().await;
        let metrics = Metrics::Read { pods: &pods, readings: &readings };
        Ok(plan::plan(minor, hpa, scale, &metrics, history, clock.now()))
    }

    /// The pods of the target, or why the autoscaler must not use them.
    ///
    /// # Errors
    /// The pods cannot be listed now.
    async fn pods(
        &self,
        cx: &Context,
        scale: &Scale,
    ) -> Result<Result<Vec<Pod>, Metrics<'static>>, ApiError> {
        let selector = scale.selector.as_str();
        if selector.is_empty() {
            let message = "the HPA target's scale is missing a selector".to_owned();
            let event = ("SelectorRequired", "selector is required".to_owned());
            return Ok(Err(Metrics::NoPods { reason: "InvalidSelector", message, event }));
        }
        if let Err(error) = label::Selector::parse(selector) {
            let message =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            let event = ("InvalidSelector", message.clone());
            return Ok(Err(Metrics::NoPods { reason: "InvalidSelector", message, event }));
        }
        let listed = self.list(cx.key.namespace(), selector).await?;
        let sharing = self.sharing(&cx.key, &listed);
        if !sharing.is_empty() {
            let names: Vec<String> = std::iter::once(&cx.key)
                .chain(&sharing)
                .map(|key| format!("{{{} {}}}", key.name(), key.namespace()))
                .collect();
            let names = names.join(" ");
            let message = format!("pods by selector {selector} are controlled by multiple HPAs: [{names}]");
            let event = ("AmbiguousSelector", message.clone());
            return Ok(Err(Metrics::NoPods { reason: "AmbiguousSelector", message, event }));
        }
        Ok(Ok(listed))
    }

    async fn list(&self, namespace: &str, selector: &str) -> Result<Vec<Pod>, ApiError> {
        let params = ListParams::default().labels(selector);
        let (pods, _) = self.executor.client.dynamic(gvr(&PODS)).list(namespace, &params).await?;
        let pods = pods.iter().map(lenient::from_value);
        pods.collect::<Result<_, _>>().map_err(|error| ApiError::Json(error.to_string()))
    }

    /// Other autoscalers whose targets also select one of these pods.
    fn sharing(&self, own: &Key, pods: &[Pod]) -> Vec<Key> {
        let memory = self.memory.lock();
        let others = memory.iter().filter(|(key, other)| {
            *key != own && key.namespace() == own.namespace() && !other.selector.is_empty()
        });
        let selects = |other: &AutoscalerMemory| {
            let parsed = label::Selector::parse(&other.selector);
            parsed.is_ok_and(|selector| pods.iter().any(|pod| selector.matches(&pod.metadata.labels)))
        };
        others.filter(|(_, other)| selects(other)).map(|(key, _)| key.clone()).collect()
    }

    /// Scales the target. If it was written meanwhile but still has the decided-upon size, reads it once
    /// more.
    async fn rescale(
        &self,
        cx: &Context,
        hpa: &HorizontalPodAutoscaler,
        resource: &Resource,
        read: ReadScale,
        size: i32,
    ) -> Result<(), ApiError> {
        let client = self.executor.client.causes(&cx.causes);
        let (api, before) = (client.dynamic(gvr(resource)), read.replicas());
        let refused = match api.replace(&read.with(size), "scale").await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => error,
            Err(error) => return Err(error),
        };
        let target = (cx.key.namespace(), &*hpa.spec.scale_target_ref.name);
        let newer = ReadScale::read(&self.executor.client, resource, target).await?;
        if newer.replicas() != before {
            return Err(refused);
        }
        api.replace(&newer.with(size), "scale").await.map(drop)
    }
}

fn scale(read: &ReadScale) -> Scale {
    Scale {
        replicas: read.replicas(),
        status_replicas: read.status_replicas(),
        selector: read.selector().to_owned(),
    }
}

/// The first version whose autoscalers have a generation, which their status repeats (`HPAGeneration`).
const FIRST_WITH_GENERATION: Minor = Minor::V37;

/// The status update, if it changed, and the events.
fn report(minor: Minor, hpa: &HorizontalPodAutoscaler, decision: Decision) -> Vec<Action> {
    let about = subject("autoscaling/v2", "HorizontalPodAutoscaler", &hpa.metadata);
    let tell = |PlannedEvent { type_, reason, message }| {
        Action::Event(Occurrence::new(&about, type_, reason, message))
    };
    let mut actions: Vec<Action> = decision.events.into_iter().map(tell).collect();
    let generation = hpa.metadata.generation.filter(|_| minor >= FIRST_WITH_GENERATION);
    let mut status = decision.status;
    status.observed_generation = generation.or(status.observed_generation);
    if hpa.status.as_ref() != Some(&status) {
        let written = HorizontalPodAutoscaler { status: Some(status), ..hpa.clone() };
        // The client types are those of 1.36, whose conditions have no generation.
        actions.push(Action::UpdateStatus(Written::with(&written, |object| {
            let Some(generation) = generation else { return };
            for condition in object["status"]["conditions"].as_array_mut().into_iter().flatten() {
                condition["observedGeneration"] = generation.into();
            }
        })));
    }
    actions
}
