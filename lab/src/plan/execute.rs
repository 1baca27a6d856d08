//! Carries out the operations of plans on a cluster, one after the other in the order in which they began.

use super::run::Job;
use super::{Operation, Start};
use crate::cache::{Freeze, Route, Thaw};
use crate::host::{Placement, Running};
use crate::log::{RequestLog, WrittenBy};
use crate::objects::{self, Condition, ObjectName};
use crate::order::choose::OrderRule;
use crate::perturb::Perturbations;
use crate::programs::ProgramSignal;
use crate::select::{ClientSelector, RequestSelector};
use crate::webhooks::{WebhookFailure, endpoints_of};
use jiff::{SignedDuration, Timestamp};
use kstore_client::{DeleteParams, DynamicApi, Gvr, ListParams, Patch};
use kstore_kubelet_sim::FaultChange;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Real time that a program has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// What operations need.
#[derive(Clone, Debug)]
pub struct Executor {
    /// The cluster.
    pub running: Arc<Running>,
    /// Its caches, plans and programs.
    pub perturbations: Arc<Perturbations>,
    /// Its request log.
    pub log: Arc<RequestLog>,
}

/// Carries out operations until their plans are gone. Runs in real time.
pub async fn run(executor: Executor, mut jobs: mpsc::Receiver<Job>) {
    // The patch that undoes a flip, or the object to create again, by plan and action.
    let mut earlier: BTreeMap<(String, usize), Value> = BTreeMap::new();
    while let Some(job) = jobs.recv().await {
        let result = Box::pin(executor.carry_out(&job, &mut earlier)).await;
        let now = executor.running.time();
        executor.perturbations.plans.completed(&job, result, now);
        if let Operation::Route { .. } = job.operation {
            executor.perturbations.caches.changed.notify_waiters();
        }
    }
}

impl Executor {
    async fn carry_out(
        &self,
        job: &Job,
        earlier: &mut BTreeMap<(String, usize), Value>,
    ) -> Result<(), String> {
        let hub = &self.perturbations;
        match &job.operation {
            Operation::Freeze { cache, resources, at } => {
                let at = at.or((job.cause.revision > 0).then_some(job.cause.revision));
                let how = Freeze { resources: resources.clone(), at };
                let (head, oldest) = self.revisions();
                hub.caches.freeze(cache, &how, head, oldest).map_err(|status| status.message)
            }
            Operation::Thaw { cache, resources, step } => {
                self.thaw(cache, &Thaw { resources: resources.clone(), step: *step }).await
            }
            Operation::Route { routes } => self.route(routes.clone()),
            Operation::Skip { .. } if job.is_undo => {
                hub.unblock(&job.plan, job.action);
                Ok(())
            }
            Operation::Skip { .. } => hub.block(&job.plan, job.action, job.cause),
            Operation::Kill { .. }
            | Operation::Term { .. }
            | Operation::Pause { .. }
            | Operation::Second { .. } => self.of_program(job).await,
            Operation::TakeLease { lease, .. } => self.lease(lease, job.is_undo).await,
            Operation::Leap { by } => self.leap(*by).await,
            Operation::Recreate { object, until } => {
                let key = (job.plan.clone(), job.action);
                if job.is_undo {
                    return match earlier.remove(&key) {
                        Some(manifest) => self.create(object, manifest).await,
                        None => Ok(()),
                    };
                }
                let manifest = self.delete(object, until.is_none()).await?;
                if until.is_some() {
                    earlier.insert(key, manifest);
                }
                Ok(())
            }
            Operation::Flip { object, merge, until } => {
                let key = (job.plan.clone(), job.action);
                match (job.is_undo, until) {
                    (false, Some(_)) => {
                        earlier.insert(key, self.flip(object, merge).await?);
                        Ok(())
                    }
                    (false, None) => {
                        let back = self.flip(object, merge).await?;
                        self.flip(object, &back).await.map(drop)
                    }
                    (true, _) => match earlier.remove(&key) {
                        Some(back) => self.flip(object, &back).await.map(drop),
                        None => Ok(()),
                    },
                }
            }
            Operation::NodeStop { node, .. } => self.node(node, !job.is_undo).await,
            Operation::NodeFault { .. } => self.node_fault(job).await,
            Operation::WebhookDown { webhook, how, .. } => self.webhook(job, webhook, *how),
            Operation::Order { seed, swaps, patience } => {
                self.order(job, OrderRule { seed: *seed, swaps: swaps.clone() }, *patience)
            }
            Operation::Resume {} => Ok(()),
        }
    }

    /// Begins or ends a serial order.
    fn order(&self, job: &Job, rule: OrderRule, patience: Duration) -> Result<(), String> {
        let hub = &self.perturbations;
        if job.is_undo {
            hub.order.end((&job.plan, job.action));
            hub.changed.notify_waiters();
            return Ok(());
        }
        if self.running.placement == Placement::Process {
            let why = "this cluster follows the system's clock for its whole life, and has no serial order";
            return Err(why.to_owned());
        }
        hub.order.begin((&job.plan, job.action), rule, patience)
    }

    /// The newest revision and the oldest that is retained.
    fn revisions(&self) -> (i64, i64) {
        let store = self.running.store();
        (store.revision().0, store.compacted().0.max(1))
    }

    /// Thaws a cache, all or some changes of each kind.
    pub async fn thaw(&self, cache: &str, how: &Thaw) -> Result<(), String> {
        let caches = &self.perturbations.caches;
        let (head, _) = self.revisions();
        let report = caches.report(cache, head).map_err(|status| status.message)?;
        let mut steps = BTreeMap::new();
        if let Some(step) = how.step {
            let frozen = report.frozen.iter().filter(|(kind, _)| **kind != "*");
            let named: Vec<&String> = match how.resources.is_empty() {
                true => frozen.map(|(kind, _)| kind).collect(),
                false => how.resources.iter().collect(),
            };
            if named.is_empty() {
                return Err("a step needs `resources`: the cache stands for all kinds alike".to_owned());
            }
            let all = report.frozen.get("*").copied();
            for kind in named {
                let Some(at) = report.frozen.get(kind).copied().or(all) else { continue };
                let (running, wanted) = (self.running.clone(), kind.clone());
                let changes = self.running.call(async move {
                    crate::writes::revisions_of(running.store(), &wanted, at + 1, head).await
                });
                let changes = changes.await.map_err(|ended| ended.to_string())?;
                let changes = changes.map_err(|status| status.message)?;
                let place = usize::try_from(step).unwrap_or(usize::MAX);
                let to = changes.get(place.saturating_sub(1)).or(changes.last()).copied().unwrap_or(at);
                steps.insert(kind.clone(), to);
            }
        }
        caches.thaw(cache, how, &steps).map_err(|status| status.message)
    }

    /// Puts routes before those in force.
    fn route(&self, mut routes: Vec<Route>) -> Result<(), String> {
        routes.extend(self.perturbations.caches.routes());
        self.perturbations.caches.route(routes).map_err(|status| status.message)
    }

    async fn of_program(&self, job: &Job) -> Result<(), String> {
        let programs = self.perturbations.programs().ok_or("the lab runs no programs")?;
        let message = |status: kstore_api::status::Status| status.message;
        match &job.operation {
            Operation::Kill { program, start, cache } | Operation::Term { program, start, cache } => {
                if !job.is_undo {
                    match matches!(job.operation, Operation::Kill { .. }) {
                        true => programs.kill(program).await.map_err(message)?,
                        false => programs.stop(program, GRACE).await.map_err(message)?,
                    }
                    self.release_leases(program).await?;
                }
                let starts = job.is_undo || *start == Start::Now;
                if starts && let Some(cache) = cache {
                    let client = ClientSelector::program(program);
                    let request = RequestSelector::default();
                    self.route(vec![Route { client, request, cache: cache.clone() }])?;
                }
                match starts {
                    true => programs.start(program).await.map(drop).map_err(message),
                    false => Ok(()),
                }
            }
            Operation::Pause { program, .. } => {
                let signal = if job.is_undo { ProgramSignal::Cont } else { ProgramSignal::Stop };
                programs.signal(program, signal).map_err(message)
            }
            Operation::Second { program, .. } => {
                let second = format!("{program}-second");
                match job.is_undo {
                    true => {
                        programs.kill(&second).await.map_err(message)?;
                        self.release_leases(&second).await
                    }
                    // One that an earlier action ended has kept its name.
                    false if programs.is_running(&second) == Some(false) => {
                        programs.start(&second).await.map(drop).map_err(message)
                    }
                    false => programs.start_second(program, &second).await.map_err(message),
                }
            }
            _ => Ok(()),
        }
    }

    async fn lease(&self, lease: &str, is_undo: bool) -> Result<(), String> {
        let name = named(&format!("leases.coordination.k8s.io/{lease}"))?;
        let now = self.running.time();
        self.change(&name, move |before| {
            let transitions = before["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
            match is_undo {
                true => json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}),
                false => json!({"spec": {
                    "holderIdentity": "lab.kstore.io",
                    "leaseTransitions": transitions + 1,
                    "acquireTime": micro_time(now),
                    "renewTime": micro_time(now),
                }}),
            }
        })
        .await
        .map(drop)
    }

    /// Releases the Leases that a program held when it ended, if its specification says so: those that it wrote last, as far as the request
    /// log reaches.
    async fn release_leases(&self, program: &str) -> Result<(), String> {
        if !self.perturbations.programs().is_some_and(|programs| programs.releases_leases(program)) {
            return Ok(());
        }
        let running = self.running.clone();
        let listing = self.running.call(async move {
            let leases = objects::client(&running).dynamic(Gvr::new("coordination.k8s.io", "v1", "leases"));
            leases.list("", &ListParams::default()).await
        });
        let listed = listing.await.map_err(|ended| ended.to_string())?;
        let (leases, _) = listed.map_err(|error| error.to_string())?;
        for lease in leases.iter().filter(|lease| self.is_holder(program, lease)) {
            let metadata = &lease["metadata"];
            let [namespace, name] = [&metadata["namespace"], &metadata["name"]].map(Value::as_str);
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            self.lease(&format!("{namespace}/{name}"), true).await?;
        }
        Ok(())
    }

    /// Whether a program wrote the newest version of a Lease that is held.
    fn is_holder(&self, program: &str, lease: &Value) -> bool {
        let metadata = &lease["metadata"];
        let revision = metadata["resourceVersion"].as_str().and_then(|version| version.parse().ok());
        let [namespace, name] =
            ["namespace", "name"].map(|member| metadata[member].as_str().unwrap_or_default());
        let is_held = lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
        let writer = revision.and_then(|revision| {
            let resource = "leases.coordination.k8s.io";
            self.log.write_of(&WrittenBy { revision, resource, namespace, name, ..WrittenBy::default() })
        });
        is_held && writer.is_some_and(|writer| writer.client == program)
    }

    async fn leap(&self, by: SignedDuration) -> Result<(), String> {
        if self.running.placement == Placement::Process {
            return Err("this cluster follows the system's clock for its whole life".to_owned());
        }
        let driver = self.running.driver.clone();
        let leaping = self.running.call(async move {
            match by.is_negative() {
                true => driver.leap_back(by.unsigned_abs()),
                false => driver.leap(by.unsigned_abs()).await,
            }
        });
        leaping.await.map_err(|ended| ended.to_string())
    }

    /// Keeps the endpoints of a webhook from being reached, or lets them be reached again.
    fn webhook(&self, job: &Job, webhook: &str, how: WebhookFailure) -> Result<(), String> {
        let by = (job.plan.as_str(), job.action);
        if job.is_undo {
            self.running.webhooks.unreachable.restore(by);
            return Ok(());
        }
        let all = objects::all(self.running.store());
        let is_configuration =
            |resource: &str| resource.ends_with("webhookconfigurations.admissionregistration.k8s.io");
        let configurations = all.iter().filter(|(resource, _)| is_configuration(resource));
        let endpoints = endpoints_of(configurations.map(|(_, object)| object), webhook);
        if endpoints.is_empty() {
            return Err(format!("there is no admission webhook {webhook:?}"));
        }
        self.running.webhooks.unreachable.fail(by, how, endpoints);
        Ok(())
    }

    async fn node(&self, node: &str, stops: bool) -> Result<(), String> {
        let (running, node) = (self.running.clone(), node.to_owned());
        let ordering = self.running.call(async move {
            let nodes = running.plane.nodes();
            let ordered = if stops { nodes.stop_node(&node).await } else { nodes.resume_node(&node).await };
            ordered.map_err(|_| format!("there is no simulated node {node:?}"))
        });
        ordering.await.map_err(|ended| ended.to_string())?
    }

    /// Adds a fault to a simulated node, or withdraws it.
    async fn node_fault(&self, job: &Job) -> Result<(), String> {
        let Some((node, fault)) = job.operation.node_fault() else { return Ok(()) };
        let item = fault.item()?;
        let change = if job.is_undo { FaultChange::Withdraw(item) } else { FaultChange::Add(item) };
        let (running, node) = (self.running.clone(), node.to_owned());
        let changing = self.running.call(async move {
            let client = objects::client(&running);
            let changed = running.plane.change_node_faults(&client, &node, &change).await;
            changed.map(drop).map_err(|error| error.to_string())
        });
        changing.await.map_err(|ended| ended.to_string())?
    }

    /// Deletes an object and, once it is gone, creates it again if that is wanted and no other client did, as its user would from a
    /// manifest. Returns the manifest.
    async fn delete(&self, object: &str, is_created_again: bool) -> Result<Value, String> {
        let name = named(object)?;
        let running = self.running.clone();
        let deleting = self.running.call(async move {
            let api = api(&running, &name)?;
            let before = api.get(&name.namespace, &name.name).await.map_err(|error| error.to_string())?;
            api.delete(&name.namespace, &name.name, &DeleteParams::default())
                .await
                .map_err(|error| error.to_string())?;
            let gone = Condition::Gone(before["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
            let other = objects::wait(&running, &name, &gone).await.map_err(|status| status.message)?;
            let again = manifest(&before);
            if is_created_again && other.is_none() {
                api.create(&name.namespace, &again).await.map_err(|error| error.to_string())?;
            }
            Ok(again)
        });
        // Deletion may wait for finalizers that the tested program removes.
        match tokio::time::timeout(crate::limits::PATIENCE, deleting).await {
            Ok(done) => done.map_err(|ended| ended.to_string())?,
            Err(_) => Err(format!("{object} was deleted and is not gone")),
        }
    }

    /// Creates an object again, as its user would.
    async fn create(&self, object: &str, manifest: Value) -> Result<(), String> {
        let (running, name) = (self.running.clone(), named(object)?);
        let creating = self.running.call(async move {
            let api = api(&running, &name)?;
            api.create(&name.namespace, &manifest).await.map(drop).map_err(|error| error.to_string())
        });
        creating.await.map_err(|ended| ended.to_string())?
    }

    /// Changes an object by a merge patch. Returns the patch that changes it back.
    async fn flip(&self, object: &str, merge: &Value) -> Result<Value, String> {
        let (name, patch) = (named(object)?, merge.clone());
        let before = self.change(&name, move |_| patch).await?;
        Ok(reverse(merge, &before, 64))
    }

    /// Patches an object by a merge patch that depends on its state. Returns the state before.
    async fn change(
        &self,
        name: &ObjectName,
        patch: impl FnOnce(&Value) -> Value + Send + 'static,
    ) -> Result<Value, String> {
        let (running, name) = (self.running.clone(), name.clone());
        let changing = self.running.call(async move {
            let api = api(&running, &name)?;
            let before = api.get(&name.namespace, &name.name).await.map_err(|error| error.to_string())?;
            let patch = Patch::Merge(patch(&before));
            let patched = api.patch(&name.namespace, &name.name, "", &patch).await;
            patched.map(|_| before).map_err(|error| error.to_string())
        });
        changing.await.map_err(|ended| ended.to_string())?
    }
}

fn named(object: &str) -> Result<ObjectName, String> {
    ObjectName::parse(object, "object").map_err(|status| status.message)
}

fn api(running: &Running, name: &ObjectName) -> Result<DynamicApi, String> {
    let gvr = name.gvr(running).ok_or_else(|| format!("{} is not served", name.plural))?;
    Ok(objects::client(running).dynamic(gvr))
}

fn micro_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// An object as a manifest of its user would have it.
fn manifest(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(members) = object.as_object_mut() else { return object };
    members.remove("status");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        let kept = ["name", "namespace", "labels", "annotations"];
        metadata.retain(|name, _| kept.contains(&name.as_str()));
    }
    object
}

/// The merge patch that undoes another one on an object as it was before, to a depth.
fn reverse(merge: &Value, before: &Value, depth: usize) -> Value {
    match (merge, before) {
        (Value::Object(merge), Value::Object(before)) if depth > 0 => {
            let member = |(name, merge): (&String, &Value)| {
                let before = before.get(name).unwrap_or(&Value::Null);
                (name.clone(), reverse(merge, before, depth - 1))
            };
            Value::Object(merge.iter().map(member).collect::<Map<_, _>>())
        }
        (_, before) => before.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_is_undone_by_the_reverse_patch() {
        let before = json!({"spec": {"replicas": 3, "paused": true}, "metadata": {"name": "a"}});
        let merge = json!({"spec": {"replicas": 5, "paused": null, "new": {"a": 1}}});
        let back = reverse(&merge, &before, 8);
        assert_eq!(back, json!({"spec": {"replicas": 3, "paused": true, "new": null}}));
    }

    #[test]
    fn an_object_is_created_again_without_what_the_server_added() {
        let object = json!({"kind": "X", "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5",
            "finalizers": ["f"], "labels": {"l": "1"}}, "spec": {"a": 1}, "status": {"b": 2}});
        let expected = json!({"kind": "X", "metadata": {"name": "a", "namespace": "n", "labels": {"l": "1"}},
            "spec": {"a": 1}});
        assert_eq!(manifest(&object), expected);
    }
}
