//! Runs the scheduler: feeds it from informers, executes its decisions and waits. [`Scheduler`] decides; time
//! and randomness come from `nondet`.

use crate::action::{Action, Binding, Evict, Notice};
use crate::attempt::AttemptLog;
use crate::bind::{BindError, BindFailure, FinishedWrite, Writes, pod_group};
use crate::budgets::{self, Budget};
use crate::change::Change;
use crate::devices::DeviceChange;
use crate::devices::taint_rule::TaintRule;
use crate::explain;
use crate::extender::Question;
use crate::extender_client::{self, Answers, ExtenderCalls};
use crate::limits::DECISIONS_PER_BATCH;
use crate::metrics::{AttemptMetrics, GangMetrics, PointDurations, PreemptionMetrics};
use crate::namespace::{self, NamespaceInfo};
use crate::node::{self, NodeInfo};
use crate::pod::{self, PodInfo};
use crate::pod_groups::{self, PodGroup, PodGroupVersion};
use crate::profile::{Profile, Profiles};
use crate::scheduler::Scheduler;
use crate::storage::{Record, StorageChange};
use crate::workloads::WorkloadChange;
pub use config::Config;
use informers::{
    DeviceInformers, DeviceSubscriptions, StorageInformers, StorageSubscriptions, WorkloadInformers,
    WorkloadSubscriptions,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kstore_client::{Client, ClientSink, WatchParams};
use kstore_informer::{
    Builder, Delta, EventType, Informer, ListerWatcher, Object, Occurrence, Recorder, Reference, Revision,
    Subscription, Supervisor, TaskGroup,
};
use kstore_nondet::{Clock, Nondet};
use optional::next_of;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The component's name in provenance and as field manager, the same as kube-scheduler's.
const AGENT: &str = "kube-scheduler";

/// Assigns pods until `stop` is cancelled. When it returns, all its tasks have ended. Binds in flight at that moment may or may not have
/// succeeded; the next scheduler reads the result. After a panic of a task the scheduler starts again with new caches after a back-off and
/// counts the restart.
// Boxed, so that the code of the future is generated in this crate and not in every program that runs it.
pub fn run(
    client: Client,
    nondet: Nondet,
    config: Config,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let (client, supervisor) = (client.agent(AGENT), Supervisor::new("scheduler", &config.metrics));
    let metrics = LoopMetrics {
        preemptions: PreemptionMetrics::registered(&config.metrics),
        attempts: AttemptMetrics::registered(&config.profiles, &config.metrics),
        gangs: GangMetrics::registered(&config.profiles, &config.metrics),
    };
    Box::pin(supervisor.run(stop, move |tasks| {
        schedule(client.clone(), nondet.clone(), config.clone(), metrics.clone(), tasks)
    }))
}

/// The metrics of the loop, which outlive a restart.
#[derive(Clone)]
struct LoopMetrics {
    preemptions: Arc<PreemptionMetrics>,
    attempts: Arc<AttemptMetrics>,
    gangs: Arc<GangMetrics>,
}

/// One run of the scheduler between restarts.
async fn schedule(client: Client, nondet: Nondet, config: Config, metrics: LoopMetrics, tasks: TaskGroup) {
    let stop = tasks.stop();

    // One stream for all kinds, so that the client sees changes in the server's order.
    let multi = client.multi();
    let all = WatchParams::default;
    let caches = Caches { tasks: &tasks, nondet: &nondet, config: &config };
    let namespaces = multi.project::<Namespace, _, _>(all(), namespace::decode);
    let namespaces = caches.start("scheduler-namespaces", namespaces);
    let storage = StorageInformers::start(&multi, &caches);
    let devices = DeviceInformers::start(&multi, &caches);
    let budgets = multi.project::<PodDisruptionBudget, _, _>(all(), budgets::decode);
    let budgets = caches.start("scheduler-budgets", budgets);
    let workloads = WorkloadInformers::start(&multi, &caches);
    let nodes = caches.start("scheduler-nodes", multi.project::<Node, _, _>(all(), node::decode));
    let pods = caches.start("scheduler-pods", multi.project::<Pod, _, _>(all(), pod::decode));
    // A stream of its own, which is not waited for: the server may not have the resource.
    let pod_groups = config.profiles.gates().schedules_gangs.then(|| {
        let version = PodGroupVersion::of(config.minor);
        let source = client.dynamic(pod_group::resource(version));
        let source = source.project(all(), pod_groups::decoder(version));
        caches.start("scheduler-pod-groups", source)
    });
    let raw_nodes = extender_client::needs_nodes(&config.extenders).then(|| {
        let source = multi.project::<Node, _, _>(all(), extender_client::decode_node);
        caches.start("scheduler-extender-nodes", source)
    });
    let recorders = recorders(&client, &caches);
    // The other caches fill meanwhile. A part that came to their stream now would make them list again, so it has its own.
    let serves_taint_rules = optional::serves_taint_rules(&client, stop).await;
    let taint_rules = serves_taint_rules.then(|| optional::taint_rules(&client, &caches));

    // A scheduler with incomplete caches could refuse a pod without reason.
    let known = async {
        namespaces.synced().await?;
        storage.synced().await?;
        devices.synced().await?;
        optional::synced(taint_rules.as_ref()).await?;
        budgets.synced().await?;
        workloads.synced().await?;
        nodes.synced().await?;
        optional::synced(raw_nodes.as_ref()).await?;
        pods.synced().await
    };
    if known.await.is_ok() {
        let rng = nondet.rng.fork("scheduler");
        let calls = ExtenderCalls::new(client.clone(), nondet.clock, &config.extenders, raw_nodes);
        let scheduler_loop = SchedulerLoop {
            scheduler: config.scheduler(&rng),
            profiles: config.profiles.clone(),
            namespaces: namespaces.subscribe(),
            storage: storage.subscribe(),
            devices: devices.subscribe(),
            taint_rules: taint_rules.map(|informer| informer.subscribe()),
            budgets: budgets.subscribe(),
            workloads: workloads.subscribe(),
            nodes: nodes.subscribe(),
            pods: pods.subscribe(),
            pod_groups: pod_groups.map(|informer| informer.subscribe()),
            writes: Writes::new(client, config.profiles.gates(), (calls.clone(), config.extenders)),
            calls,
            asked: None,
            attempts: config.attempts,
            seen: Revision(0),
            metrics,
            recorders,
            clock: nondet.clock,
        };
        // Boxed: as a part of this future it would make all futures around it as large.
        Box::pin(scheduler_loop.run(stop)).await;
    } else {
        // The recorder's driver waits for further events, up to a limit, while a handle exists.
        drop(recorders);
        // An informer ends without an initial state only at the stop or by a panic, which leads to the stop.
        stop.cancelled().await;
    }
}

/// A recorder of events for each profile: events name the scheduler of their pod.
fn recorders(client: &Client, caches: &Caches<'_>) -> Vec<Recorder> {
    let recorder = |profile: &Profile| {
        let (sink, name) = (ClientSink::new(client), &profile.scheduler_name);
        let (recorder, driver) = Recorder::build(sink, name, caches.nondet, caches.tasks.stop());
        recorder.metrics(&caches.config.metrics);
        caches.tasks.spawn(driver);
        recorder
    };
    caches.config.profiles.iter().map(recorder).collect()
}

/// Starts informers.
struct Caches<'a> {
    tasks: &'a TaskGroup,
    nondet: &'a Nondet,
    config: &'a Config,
}

impl Caches<'_> {
    fn start<S: ListerWatcher>(&self, name: &str, source: S) -> Informer<S::Obj> {
        let builder = Builder::new(source).name(name).rng(&self.nondet.rng).metrics(&self.config.metrics);
        let builder = builder.caches(&self.config.caches);
        let (informer, driver) = builder.build(self.tasks.stop());
        self.tasks.spawn(driver);
        informer
    }
}

/// Calls of extenders in flight, with the durations of the attempt so far.
struct AskedExtenders {
    points: PointDurations,
    answers: Pin<Box<dyn Future<Output = Answers> + Send>>,
}

struct SchedulerLoop {
    scheduler: Scheduler,
    profiles: Profiles,
    namespaces: Subscription<NamespaceInfo>,
    storage: StorageSubscriptions,
    devices: DeviceSubscriptions,
    /// If the server has them.
    taint_rules: Option<Subscription<Record<TaintRule>>>,
    budgets: Subscription<Record<Budget>>,
    workloads: WorkloadSubscriptions,
    nodes: Subscription<NodeInfo>,
    pods: Subscription<PodInfo>,
    /// With the gate for gangs.
    pod_groups: Option<Subscription<Record<PodGroup>>>,
    writes: Writes,
    calls: ExtenderCalls,
    /// The question that a decision waits for.
    asked: Option<AskedExtenders>,
    attempts: AttemptLog,
    /// The newest revision of the pods and nodes that the scheduler has taken.
    seen: Revision,
    metrics: LoopMetrics,
    /// The recorder of each profile.
    recorders: Vec<Recorder>,
    clock: Clock,
}

impl SchedulerLoop {
    async fn run(mut self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.read_changes();
            let has_decided = self.decide();
            self.writes.send_binds();
            if has_decided {
                // Lets the informers and the writes run.
                tokio::task::yield_now().await;
            } else {
                self.metrics.attempts.queued(self.scheduler.depths(), self.scheduler.refused());
                self.wait(stop).await;
            }
        }
        self.writes.shutdown().await;
    }

    /// Reads all pending changes: what pods refer to first.
    fn read_changes(&mut self) {
        let namespaces = self.namespaces.try_next();
        self.take_namespaces(namespaces);
        let changes = self.storage.try_next();
        self.take_storage(changes);
        let rules = self.taint_rules.as_mut().map(Subscription::try_next);
        self.take_taint_rules(rules.unwrap_or_default());
        let changes = self.devices.try_next();
        self.take_devices(changes);
        let budgets = self.budgets.try_next();
        self.take_budgets(budgets);
        let workloads = self.workloads.try_next();
        self.take_workloads(workloads);
        let nodes = self.nodes.try_next();
        self.take_nodes(nodes);
        let groups = self.pod_groups.as_mut().map(Subscription::try_next);
        self.take_pod_groups(groups.unwrap_or_default());
        let pods = self.pods.try_next();
        self.take_pods(pods);
        while let Some(done) = self.writes.try_next() {
            self.ended(done);
        }
    }

    /// Waits for a change, a finished write or the deadline, and processes it. The informers end only at the
    /// stop.
    async fn wait(&mut self, stop: &CancellationToken) {
        let deadline = self.scheduler.deadline().filter(|_| self.writes.has_room());
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(deltas) = self.namespaces.next() => self.take_namespaces(deltas),
            Some(changes) = self.storage.next() => self.take_storage(changes),
            Some(deltas) = next_of(&mut self.taint_rules) => self.take_taint_rules(deltas),
            Some(changes) = self.devices.next() => self.take_devices(changes),
            Some(deltas) = self.budgets.next() => self.take_budgets(deltas),
            Some(changes) = self.workloads.next() => self.take_workloads(changes),
            Some(deltas) = self.nodes.next() => self.take_nodes(deltas),
            Some(deltas) = next_of(&mut self.pod_groups) => self.take_pod_groups(deltas),
            Some(deltas) = self.pods.next() => self.take_pods(deltas),
            done = self.writes.next() => self.ended(done),
            answers = answers(&mut self.asked) => self.resume(answers),
            () = until(deadline, self.clock) => {}
        }
    }

    /// Decides on some of the ready pods. False if no pod was ready or no more writes are allowed.
    fn decide(&mut self) -> bool {
        let mut decided = false;
        for _ in 0..DECISIONS_PER_BATCH {
            if !self.writes.has_room() {
                break;
            }
            let now = self.clock.now();
            let mut points = self.metrics.attempts.begin();
            let Some(verdict) = self.scheduler.next_observed(now, &mut points) else { break };
            decided = true;
            self.execute(verdict, points, now);
        }
        self.metrics.attempts.queued(self.scheduler.depths(), self.scheduler.refused());
        decided
    }

    /// Starts what the scheduler decided. `points` are the durations of the attempt so far.
    fn execute(&mut self, action: Action, points: PointDurations, now: Timestamp) {
        if let Some(binding) = action.binding() {
            self.attempts.placed(binding, self.seen);
        }
        self.metrics.attempts.decided(&action, &points);
        self.metrics.preemptions.observe(&action);
        self.metrics.gangs.observe(&action, now);
        match action {
            Action::Bind(binding) => self.writes.bind(binding),
            Action::ClaimDevices(binding) => self.writes.claim_devices(binding),
            Action::BindVolumes(writes) => self.writes.bind_volumes(writes),
            Action::Refuse(notice) => self.report(&notice, now),
            Action::ReportGang(report) => self.writes.report_gang(&report, now),
            Action::Ask(question) => self.ask(question, points),
            Action::Preempt(mut evict) => {
                self.attempts.preempted(&evict, now, self.seen);
                self.record_failed_event(&evict.notice);
                self.deallocate(&evict.notice);
                for victim in std::mem::take(&mut evict.withdrawn) {
                    self.record_evicted_event(&evict, &victim.pod, " (in kube-scheduler memory).");
                    self.report(&victim, now);
                }
                self.writes.evict(evict, now);
            }
        }
    }

    fn ask(&mut self, question: Question, points: PointDurations) {
        self.asked = Some(AskedExtenders { points, answers: self.calls.ask(question) });
    }

    /// Goes on with the decision that has waited for extenders.
    fn resume(&mut self, answers: Answers) {
        let Some(AskedExtenders { mut points, .. }) = self.asked.take() else { return };
        let now = self.clock.now();
        if let Some(action) = self.scheduler.resume(answers, now, &mut points) {
            self.execute(action, points, now);
        }
    }

    fn ended(&mut self, done: FinishedWrite) {
        if let FinishedWrite::Binds(binds) = done {
            binds.into_iter().for_each(|(binding, result)| self.ended(FinishedWrite::Bind(binding, result)));
            return;
        }
        if let Some((binding, is_accepted)) = done.bind() {
            self.metrics.attempts.bound(binding, is_accepted, self.clock.now());
        }
        match done {
            FinishedWrite::Bind(binding, Ok(())) => {
                self.scheduler.bound(&binding.pod.uid);
                self.record_bound_event(&binding);
            }
            FinishedWrite::Bind(binding, Err(failure)) => self.bind_failed(&binding, failure),
            FinishedWrite::Volumes(writes, Ok(revision)) => {
                self.scheduler.volumes_written(&writes, revision, self.clock.now());
            }
            FinishedWrite::Volumes(writes, Err(error)) => {
                tracing::debug!(pod = %writes.binding.pod.key, %error, "failed to bind the volumes");
                self.scheduler.volumes_refused(&writes, &error.error.to_string());
            }
            FinishedWrite::Devices(binding, Ok(revision)) => {
                self.scheduler.devices_written(&binding, revision);
                self.scheduler.bound(&binding.pod.uid);
                self.record_bound_event(&binding);
            }
            FinishedWrite::Claims(binding, Ok(revision)) => {
                self.record_pending_event(&binding);
                self.scheduler.devices_claimed(&binding, revision, self.clock.now());
            }
            FinishedWrite::Devices(binding, Err(error)) | FinishedWrite::Claims(binding, Err(error)) => {
                let now = self.clock.now();
                tracing::debug!(pod = %binding.pod.key, %error, "failed to bind the pod with its devices");
                if let Some(notice) = self.scheduler.devices_refused(&binding, &error.to_string(), now) {
                    self.report(&notice, now);
                }
            }
            FinishedWrite::Evictions(evict, failed) => {
                let evicted = evict.victims.iter().filter(|victim| !failed.contains(&victim.uid));
                evicted.for_each(|victim| self.record_evicted_event(&evict, victim, ""));
                self.scheduler.evictions_failed(&failed, self.clock.now());
            }
            FinishedWrite::Binds(_)
            | FinishedWrite::Condition(_)
            | FinishedWrite::PodGroup(_)
            | FinishedWrite::Deallocation => {}
        }
    }

    fn bind_failed(&mut self, binding: &Binding, failure: BindFailure) {
        let (now, uid) = (self.clock.now(), &binding.pod.uid);
        tracing::debug!(pod = %binding.pod.key, error = ?failure.error, "failed to bind the pod");
        // The claims stay as they were written: the pod is tried again with its devices.
        if let Some(revision) = failure.claimed {
            self.scheduler.devices_written(binding, revision);
        }
        let notice = match failure.error {
            BindError::Api(error) => self.scheduler.bind_failed(uid, &error.to_string(), now),
            BindError::Extender(why) => self.scheduler.extender_bind_failed(uid, why, now),
        };
        if let Some(notice) = notice {
            self.report(&notice, now);
        }
    }

    /// The recorder of events about a pod of this scheduler.
    fn recorder(&self, pod: &PodInfo) -> &Recorder {
        &self.recorders[self.profiles.place_of(pod)]
    }

    /// Records the event for a bind with the time of the decision: the node may already have started the pod
    /// and recorded events.
    fn record_bound_event(&self, binding: &Binding) {
        let message = format!("Successfully assigned {} to {}", binding.pod.key, binding.choice.node);
        let recorder = self.recorder(&binding.pod).causes(&binding.causes()).at(binding.at);
        let scheduled = Occurrence::new(&reference(&binding.pod), EventType::Normal, "Scheduled", message);
        recorder.record(Occurrence { action: "Binding".to_owned(), ..scheduled });
    }

    /// Records the event for a pod that waits for its devices.
    fn record_pending_event(&self, binding: &Binding) {
        let node = &binding.choice.node;
        let message = format!("waiting for binding conditions for device on node {node}");
        let recorder = self.recorder(&binding.pod).causes(&binding.causes());
        let pending =
            Occurrence::new(&reference(&binding.pod), EventType::Normal, "BindingConditionsPending", message);
        recorder.record(Occurrence { action: "Scheduling".to_owned(), ..pending });
    }

    /// Records the event for a victim. Its message ends with `how`.
    fn record_evicted_event(&self, evict: &Evict, victim: &Arc<PodInfo>, how: &str) {
        let preemptor = &evict.notice.pod;
        let message = format!("Preempted by pod {} on node {}{how}", preemptor.uid, evict.node);
        let preempted = Occurrence::new(&reference(victim), EventType::Normal, "Preempted", message);
        let (action, related) = ("Preempting".to_owned(), Some(reference(preemptor)));
        let recorder = self.recorder(preemptor).causes(&evict.notice.causes());
        recorder.record(Occurrence { action, related, ..preempted });
    }

    fn report(&mut self, notice: &Notice, now: Timestamp) {
        self.attempts.refused(notice, now, self.seen);
        self.record_failed_event(notice);
        self.writes.report(notice, now);
        self.deallocate(notice);
    }

    /// Takes the devices away that the notice names, so that the pod may fit.
    fn deallocate(&mut self, notice: &Notice) {
        if let Some(deallocation) = &notice.deallocation {
            self.writes.deallocate(deallocation.clone(), &notice.causes());
        }
    }

    fn record_failed_event(&self, notice: &Notice) {
        let recorder = self.recorder(&notice.pod).causes(&notice.causes());
        let message = explain::for_event(&notice.message);
        let failed =
            Occurrence::new(&reference(&notice.pod), EventType::Warning, "FailedScheduling", message);
        recorder.record(Occurrence { action: "Scheduling".to_owned(), ..failed });
    }

    fn take_namespaces(&mut self, deltas: Vec<Delta<NamespaceInfo>>) {
        deltas.into_iter().for_each(|delta| self.scheduler.namespace(change(delta)));
    }

    fn take_storage(&mut self, changes: Vec<StorageChange>) {
        let now = self.clock.now();
        changes.into_iter().for_each(|change| self.scheduler.storage(change, now));
    }

    fn take_devices(&mut self, changes: Vec<DeviceChange>) {
        let now = self.clock.now();
        changes.into_iter().for_each(|change| self.scheduler.devices(change, now));
    }

    fn take_taint_rules(&mut self, deltas: Vec<Delta<Record<TaintRule>>>) {
        self.take_devices(deltas.into_iter().map(|delta| DeviceChange::TaintRule(change(delta))).collect());
    }

    fn take_budgets(&mut self, deltas: Vec<Delta<Record<Budget>>>) {
        deltas.into_iter().for_each(|delta| self.scheduler.budget(change(delta)));
    }

    fn take_workloads(&mut self, changes: Vec<WorkloadChange>) {
        changes.into_iter().for_each(|change| self.scheduler.workload(change));
    }

    fn take_nodes(&mut self, deltas: Vec<Delta<NodeInfo>>) {
        let now = self.clock.now();
        self.seen = newest(&deltas, self.seen);
        deltas.into_iter().for_each(|delta| self.scheduler.node(change(delta), now));
    }

    fn take_pod_groups(&mut self, deltas: Vec<Delta<Record<PodGroup>>>) {
        let now = self.clock.now();
        deltas.into_iter().for_each(|delta| self.scheduler.pod_group(change(delta), now));
    }

    fn take_pods(&mut self, deltas: Vec<Delta<PodInfo>>) {
        let now = self.clock.now();
        self.seen = newest(&deltas, self.seen);
        deltas.into_iter().for_each(|delta| self.scheduler.pod(change(delta), now));
    }
}

/// The newest revision among `known` and the objects of these changes.
fn newest<T: Object>(deltas: &[Delta<T>], known: Revision) -> Revision {
    deltas.iter().map(|delta| delta.object().revision()).fold(known, Revision::max)
}

fn change<T: Object>(delta: Delta<T>) -> Change<T> {
    match delta {
        Delta::Added(object) | Delta::Updated { new: object, .. } | Delta::Resync(object) => {
            Change::Set(object)
        }
        Delta::Deleted(object) => Change::Gone(object),
    }
}

fn reference(pod: &Arc<PodInfo>) -> Reference {
    Reference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: pod.key.namespace().to_owned(),
        name: pod.key.name().to_owned(),
        uid: pod.uid.to_string(),
        ..Reference::default()
    }
}

/// The answers to the question that a decision waits for; never without one.
async fn answers(asked: &mut Option<AskedExtenders>) -> Answers {
    match asked {
        Some(asked) => asked.answers.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Resolves at `deadline`; never without a deadline.
async fn until(deadline: Option<Timestamp>, clock: Clock) {
    match deadline {
        Some(deadline) => {
            let wait = clock.now().duration_until(deadline);
            tokio::time::sleep(wait.try_into().unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}

mod config;
mod informers;
mod optional;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod test_extender;
#[cfg(test)]
mod tests;
