//! One pod in the manager: its state machine, its newest object, and its writes. Synchronous.

use super::admission::Admission;
use super::write::{Failure, Write, Written};
use super::write_delay::WriteDelay;
use crate::execution::Execution;
use crate::limits::{LEAST_TERMINATION, RECONCILE_INTERVAL, WRITE_RETRY_BASE, WRITE_RETRY_MAX};
use crate::pod::adopt::adopt;
use crate::pod::container::Container;
use crate::pod::{Input, Output, Pod, PodEvent, Stage, Why, resize, step};
use crate::pod_object::PodObject;
use crate::pod_object::source::{SourceKey, Sources};
use crate::program;
use crate::record::PodRecord;
use crate::runtime::{Event, Runtime};
use crate::status::{self, KubeletFacts};
use crate::stream::{Disks, Outputs, Snapshot, TerminationMessageSource};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use kstore_container_sim::time::{between, later};
use kstore_informer::{Key, Object, Revision};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A pod on one of the simulated nodes.
pub(super) struct PodEntry {
    record: Arc<PodRecord>,
    pub(super) uid: Arc<str>,
    /// The decision of its node about it.
    pub(super) admission: Admission,
    /// The pod's state machine; taken while a step runs.
    machine: Option<Pod>,
    /// The status that the server last accepted from this kubelet.
    sent: Option<PodStatus>,
    /// The revision of the last write by this kubelet; older objects from the informer do not show it.
    fence: Revision,
    in_flight: bool,
    /// Whether the machine has ended and the object is deleted: it is to be removed after its status is
    /// written.
    remove: bool,
    removed: bool,
    /// When this kubelet began to end the pod because of its deletion.
    deletion_seen: Option<Timestamp>,
    failures: u32,
    retry_at: Option<Timestamp>,
    /// When a status that another writer overwrote may be written again, unless it is restored before.
    reconcile_at: Option<Timestamp>,
    /// Whether the status may be written again now.
    reconcile: bool,
    /// The wait of its next write, on a slow node.
    delay: WriteDelay,
    /// Runtime events received while the node was stopped, with their times.
    deferred: Vec<(Event, Timestamp)>,
    /// The newest object, while the node does not reach the API server.
    pub(super) held: Option<Arc<PodRecord>>,
    disks: Arc<Disks>,
    /// The output of its containers' commands; `None` before the first command.
    pub(super) outputs: Option<Arc<Outputs>>,
    /// The objects to which the pod is known to refer.
    pub(super) references: BTreeSet<SourceKey>,
}

impl PodEntry {
    /// An entry for a new pod. The caller makes the first step.
    pub(super) fn new(record: Arc<PodRecord>, runtime: &mut dyn Runtime, now: Timestamp) -> Self {
        let (machine, commands) = adopt(&record.pod, now);
        commands.into_iter().for_each(|command| runtime.submit(&record.pod, command, now));
        Self {
            uid: record.uid().into(),
            admission: Admission::Open,
            record,
            machine: Some(machine),
            sent: None,
            fence: Revision(0),
            in_flight: false,
            remove: false,
            removed: false,
            deletion_seen: None,
            failures: 0,
            retry_at: None,
            reconcile_at: None,
            reconcile: false,
            delay: WriteDelay::default(),
            deferred: Vec::new(),
            held: None,
            disks: Arc::default(),
            outputs: None,
            references: BTreeSet::new(),
        }
    }

    /// The state of the pod for streams.
    pub(super) fn snapshot(&self, reachable: bool, gone: bool) -> Snapshot {
        let machine = self.machine.clone().expect("the machine is put back after each step");
        let disks = Arc::clone(&self.disks);
        let (record, outputs) = (Arc::clone(&self.record), self.outputs.clone());
        Snapshot { record, machine, disks, outputs, reachable, gone, endpoint: None }
    }

    /// The id of the container's current run.
    pub(super) fn run_of(&self, container: usize) -> Option<String> {
        let machine = self.machine.as_ref()?;
        Some(machine.containers.get(container)?.run()?.id.clone())
    }

    /// Whether this is the container's current run.
    pub(super) fn runs(&self, container: usize, run: &str) -> bool {
        let machine = self.machine.as_ref().and_then(|machine| machine.containers.get(container)?.run());
        machine.is_some_and(|under_way| under_way.id == run)
    }

    /// Whether the pod may wait for a referenced object.
    pub(super) fn awaits_sources(&self) -> bool {
        self.machine.as_ref().is_some_and(Pod::awaits_sources)
    }

    /// Whether a command has read a volume that shows objects.
    pub(super) fn shows_objects(&self) -> bool {
        self.disks.shows_objects()
    }

    /// The disks of the pod.
    pub(super) fn disks(&self) -> Arc<Disks> {
        Arc::clone(&self.disks)
    }

    /// The pod's state machine; `None` during a step.
    pub(super) fn machine(&self) -> Option<&Pod> {
        self.machine.as_ref()
    }

    /// Changes the pod's state machine between two steps.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Pod, &PodObject)) {
        if let Some(machine) = &mut self.machine {
            change(machine, &self.record.pod);
        }
    }

    /// The newest object.
    pub(super) fn record(&self) -> Arc<PodRecord> {
        Arc::clone(&self.record)
    }

    pub(super) fn object(&self) -> &PodObject {
        &self.record.pod
    }

    pub(super) fn node(&self) -> &str {
        &self.record.pod.spec.node_name
    }

    /// Takes a newer object.
    pub(super) fn observe(&mut self, record: Arc<PodRecord>) -> Observed {
        if record.revision() < self.record.revision() {
            return Observed::default();
        }
        let before = std::mem::replace(&mut self.record, record);
        let is_resize = resize::is_wanted(&before.pod, &self.record.pod);
        if is_resize && let Some(machine) = &mut self.machine {
            resize::observe(machine, &before.pod);
        }
        Observed { is_news: self.record.revision() != self.fence, is_resize }
    }

    /// Steps the machine with an input of time `at`, passes its commands to the runtime at `now` and returns what the manager must do.
    pub(super) fn step(
        &mut self,
        input: Input,
        sources: &Sources,
        runtime: &mut dyn Runtime,
        (at, now): (Timestamp, Timestamp),
    ) -> Effects {
        if self.record.pod.deleted() && self.deletion_seen.is_none() {
            self.deletion_seen = Some(at);
        }
        let input = self.with_termination_message(input, at);
        let machine = self.machine.take().expect("the machine is put back after each step");
        let span = tracing::debug_span!("pod", pod = %self.record.key());
        let (machine, outputs) = span.in_scope(|| step(machine, &self.record.pod, sources, input, at));
        self.machine = Some(machine);
        let mut effects = Effects::default();
        for output in outputs {
            match output {
                Output::Runtime(command) => runtime.submit(&self.record.pod, command, now),
                Output::Execute(execution) => effects.executions.push(execution),
                Output::Event(event) => effects.events.push(event),
                Output::Remove => self.remove = true,
            }
        }
        effects
    }

    /// Adds what a container has left to say to the report of its end.
    fn with_termination_message(&self, input: Input, now: Timestamp) -> Input {
        let Input::Runtime(Event::Exited { container, code, oom, .. }) = input else { return input };
        let source = TerminationMessageSource { disks: &self.disks, outputs: self.outputs.as_deref() };
        let machine = self.machine.as_ref().and_then(|machine| machine.containers.get(container));
        let run = machine.and_then(Container::run);
        let message = run.map(|run| source.message(&self.record.pod, container, run, code, now));
        let message = message.unwrap_or_default();
        Input::Runtime(Event::Exited { container, code, oom, message })
    }

    /// Keeps an event until the node resumes.
    pub(super) fn hold(&mut self, event: Event, at: Timestamp) {
        self.deferred.push((event, at));
    }

    /// Takes the kept events, each with its time.
    pub(super) fn release(&mut self) -> Vec<(Event, Timestamp)> {
        std::mem::take(&mut self.deferred)
    }

    /// The time of the next deadline of the entry.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let machine = self.machine.as_ref().and_then(|machine| machine.deadline(&self.record.pod));
        if let Admission::Doubtful(until) = self.admission {
            return Some(until);
        }
        [machine, self.retry_at, self.reconcile_at, self.delay.deadline()].into_iter().flatten().min()
    }

    /// Ends the waits that are over by `now`.
    pub(super) fn elapse(&mut self, now: Timestamp) {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        self.delay.elapse(now);
        if self.reconcile_at.is_some_and(|at| at <= now) {
            self.reconcile_at = None;
            self.reconcile = true;
        }
    }

    /// The next write, if one is due: a changed status, then the removal. At most one is in flight. On a slow node it comes `late`.
    pub(super) fn next_write(
        &mut self,
        host: KubeletFacts<'_>,
        late: Duration,
        now: Timestamp,
    ) -> Option<Write> {
        let is_judged = !matches!(self.admission, Admission::Open | Admission::Doubtful(_));
        if self.in_flight || self.removed || self.retry_at.is_some() || !is_judged {
            return None;
        }
        let (key, uid, cause) = (self.record.key(), Arc::clone(&self.uid), self.record.revision());
        let node = self.node().into();
        let reconcile = self.reconcile;
        let write = match self.due_status(host, now) {
            Some(status) => {
                let base = cause.max(self.fence);
                Write::PodStatus { node, key, uid, base, cause, status: Box::new(status) }
            }
            None if self.remove => Write::RemovePod { node, key, uid, cause },
            None => {
                self.delay.withdraw();
                return None;
            }
        };
        let late = late.saturating_add(self.unmounting(&write, now));
        if !self.delay.admits(late, now) {
            self.reconcile = reconcile;
            return None;
        }
        self.in_flight = true;
        Some(write)
    }

    /// What is left of the time that a kubelet takes to end a pod, if this write removes one whose processes its deletion has ended.
    /// Containers without a process take the time of their script, and a pod that had ended by itself has no volumes any more.
    fn unmounting(&self, write: &Write, now: Timestamp) -> Duration {
        let Some(machine) = self.machine.as_ref().filter(|_| matches!(write, Write::RemovePod { .. })) else {
            return Duration::ZERO;
        };
        let has_processes = || {
            let mut containers = 0..machine.containers.len();
            containers.any(|index| program::ends_with_process(&self.record.pod, index))
        };
        let since =
            self.deletion_seen.filter(|_| machine.stage == Stage::Ended(Why::Deleted) && has_processes());
        since.map_or(Duration::ZERO, |since| between(now, later(since, LEAST_TERMINATION)))
    }

    fn due_status(&mut self, host: KubeletFacts<'_>, now: Timestamp) -> Option<PodStatus> {
        let (seen, machine) = (&self.record.pod.status, self.machine.as_ref()?);
        let mut base = self.sent.clone().unwrap_or_else(|| seen.clone());
        let own = base.conditions.take().unwrap_or_default();
        let own = own.into_iter().filter(|c| status::is_owned(&c.type_));
        base.conditions = Some(status::foreign(seen).cloned().chain(own).collect());
        let span = tracing::debug_span!("status", pod = %self.record.key());
        let status = span.in_scope(|| status::compute(machine, &self.record.pod, host, &base, now));
        let known = self.sent.as_ref().unwrap_or(seen);
        if !status::same(known, &status) {
            // The final status, which follows, also shows that the deletion was observed: a mass deletion
            // costs one write per pod less.
            let stopping = matches!(machine.stage, Stage::Stopping { why: Why::Deleted, .. });
            return (!stopping || !status::same_but_generation(known, &status)).then_some(status);
        }
        // The status is unchanged; check whether another writer overwrote it.
        let shown = self.record.revision() < self.fence || status::agrees(&status, seen);
        match (shown, std::mem::take(&mut self.reconcile)) {
            (true, _) => self.reconcile_at = None,
            (false, true) => return Some(status),
            (false, false) if self.reconcile_at.is_none() => {
                self.reconcile_at = Some(later(now, RECONCILE_INTERVAL));
            }
            (false, false) => {}
        }
        None
    }

    /// Takes the result of the write in flight.
    pub(super) fn written(&mut self, write: &Write, result: Result<Written, Failure>, now: Timestamp) {
        self.in_flight = false;
        match (result, write) {
            (Ok(written), Write::PodStatus { status, .. }) => {
                self.failures = 0;
                self.sent = Some((**status).clone());
                self.fence = written.revision;
            }
            (Ok(_) | Err(Failure::NotFound), Write::RemovePod { .. }) | (Err(Failure::NotFound), _) => {
                self.removed = true;
            }
            (Ok(_), _) => {}
            (Err(Failure::Refused(why)), _) => {
                tracing::warn!(pod = %self.record.key(), why, "the server refuses a write");
                self.retry_at = Some(later(now, WRITE_RETRY_MAX));
            }
            // The informer is about to show the newer object, which triggers the write again; the wait gives
            // it time.
            (Err(Failure::Conflict | Failure::AlreadyExists | Failure::Passing(_)), _) => {
                self.failures += 1;
                self.retry_at = Some(later(now, retry_wait(self.failures)));
            }
        }
    }

    /// Ends the wait after a conflict, because the informer showed a newer object.
    pub(super) fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// Allows the status to be restored at once: during a stop of the node, other writers may have changed
    /// it.
    pub(super) fn reconcile_now(&mut self) {
        self.reconcile = true;
    }

    /// The revision of the newest known object.
    pub(super) fn revision(&self) -> Revision {
        self.record.revision()
    }

    pub(super) fn key(&self) -> Key {
        self.record.key()
    }
}

/// What follows from a step of a pod, beside commands to the runtime.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Events to record.
    pub(super) events: Vec<PodEvent>,
    /// Commands to run in containers.
    pub(super) executions: Vec<Execution>,
}

/// What a newer object of a pod has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// A change that this kubelet did not write.
    pub(super) is_news: bool,
    /// Other resources of a container.
    pub(super) is_resize: bool,
}

/// The wait after a number of consecutive failures.
pub(super) fn retry_wait(failures: u32) -> Duration {
    WRITE_RETRY_BASE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(WRITE_RETRY_MAX)
}
