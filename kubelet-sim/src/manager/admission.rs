//! Admission of pods by their nodes, and resizes of admitted pods: what is decided with the other pods of the node in view. The rules are
//! in `node::admission`. Synchronous.

use super::Manager;
use super::nodes::NodeEntry;
use super::pods::PodEntry;
use crate::limits::SECOND_LOOK;
use crate::node::admission::{Rejection, judge, judge_resize};
use crate::pod::{Input, PodEvent, Stage, Why, resize};
use crate::pod_object::Claim;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceRequirements;
use kstore_container_sim::time::later;
use kstore_informer::Key;
use std::cmp::Reverse;

/// The decision of a node about one of its pods.
#[derive(Debug)]
pub(super) enum Admission {
    /// The pod was not judged yet.
    Open,
    /// The pod did not fit. It is judged again at this time, since the cache of the node may be older than the one by which a scheduler
    /// decided. Kubelets read the node anew for that.
    Doubtful(Timestamp),
    /// The pod was admitted and occupies this.
    Admitted(Box<Claim>),
    /// The pod occupies nothing: it was rejected, or it has ended.
    Released,
}

impl Manager {
    /// Lets the node of a pod decide about it, unless it has. Returns false while the decision is open. A pod that an earlier process
    /// admitted, or that is being deleted, is not judged.
    pub(super) fn admit(&mut self, key: &Key, now: Timestamp) -> bool {
        let Some(entry) = self.pods.get_mut(key) else { return false };
        let is_second = match entry.admission {
            Admission::Open => false,
            Admission::Doubtful(until) if until > now && !entry.object().deleted() => return false,
            Admission::Doubtful(_) => true,
            Admission::Admitted(_) | Admission::Released => return true,
        };
        let Some(node) = self.nodes.get_mut(entry.node()) else { return false };
        if entry.object().terminal() {
            entry.admission = Admission::Released;
            return true;
        }
        let (object, claim) = (entry.object(), entry.claim());
        let is_known = object.status.start_time.is_some() || object.deleted();
        let verdict = match (is_known, node.shutdown_rejection()) {
            (true, _) => Ok(()),
            (false, Some(rejection)) => Err(rejection),
            (false, None) => {
                let (properties, ledger) = node.room();
                judge(object, &claim, properties, ledger)
            }
        };
        match verdict {
            Ok(()) => {
                node.ledger.charge(&claim);
                entry.admission = Admission::Admitted(Box::new(claim));
                if entry.awaits_resize() {
                    node.resizes.insert(key.clone());
                    self.resizes_due.insert(entry.node().to_owned());
                }
                true
            }
            Err(_) if !is_second => {
                entry.admission = Admission::Doubtful(later(now, SECOND_LOOK));
                self.pod_timers.set(key, entry.deadline());
                false
            }
            Err(rejection) => {
                let rejection = node.rejection_by_plugin(rejection);
                entry.admission = Admission::Released;
                entry.reject(rejection.clone());
                let Rejection { reason, message } = rejection;
                self.pod_notice(key, PodEvent::warning(reason, message));
                true
            }
        }
    }

    /// Frees what a pod occupies once it has ended, or because its object is gone; other pods may then be resized.
    pub(super) fn release(&mut self, key: &Key, is_gone: bool, now: Timestamp) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        if !is_gone && !entry.has_ended() {
            return;
        }
        let Some(node) = self.nodes.get_mut(entry.node()) else { return };
        node.resizes.remove(key);
        let (name, is_draining) = (node.identity.name.clone(), node.is_draining());
        if let Admission::Admitted(claim) = std::mem::replace(&mut entry.admission, Admission::Released) {
            node.ledger.release(&claim);
            self.retry_resizes(&name, now);
        }
        if is_draining {
            self.end_drained(&name, now);
        }
    }

    /// Judges a new wish for resources, or notes that it was withdrawn.
    pub(super) fn observe_resize(&mut self, key: &Key, now: Timestamp) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let Some(node) = self.nodes.get_mut(entry.node()) else { return };
        if !matches!(entry.admission, Admission::Admitted(_)) {
            return;
        }
        if entry.awaits_resize() {
            node.resizes.insert(key.clone());
        } else {
            node.resizes.remove(key);
            entry.withdraw_resize();
        }
        let name = node.identity.name.clone();
        self.retry_resizes(&name, now);
    }

    /// Judges all resizes that wait on a node, as `sortPendingResizes` orders them: those without greater requests first, then by
    /// priority and quality of service, then those that wait longest.
    pub(super) fn retry_resizes(&mut self, node: &str, now: Timestamp) {
        let Some(entry) = self.nodes.get(node).filter(|entry| !entry.stopped()) else { return };
        let of = |key: &Key| Some((self.pods.get(key)?.resize_order(), key.clone()));
        let mut waiting: Vec<_> = entry.resizes.iter().filter_map(of).collect();
        waiting.sort_by_key(|((grows, priority, is_guaranteed, since), key)| {
            (*grows, Reverse(*priority), !*is_guaranteed, since.is_none(), *since, key.clone())
        });
        for (_, key) in waiting {
            self.resize(&key, now);
        }
    }

    fn resize(&mut self, key: &Key, now: Timestamp) {
        let Some(entry) = self.pods.get_mut(key) else { return };
        let Some(node) = self.nodes.get_mut(entry.node()) else { return };
        let Admission::Admitted(claim) = &entry.admission else { return };
        let wanted = entry.object().wanted_claim();
        node.ledger.release(claim);
        let (properties, ledger) = node.room();
        let verdict = judge_resize(&wanted.requests, properties, ledger);
        let event = match verdict {
            Ok(()) => {
                node.ledger.charge(&wanted);
                node.resizes.remove(key);
                entry.admission = Admission::Admitted(Box::new(wanted));
                entry.allocate_resize(now);
                let message = resize::message("started", entry.object(), "");
                Some(PodEvent { warning: false, ..PodEvent::warning("ResizeStarted", message) })
            }
            Err(why) => {
                node.ledger.charge(claim);
                let reason = format!("Resize{}", why.reason);
                if why.reason == "Infeasible" {
                    node.resizes.remove(key);
                }
                let message = resize::message(&why.reason, entry.object(), &why.message);
                entry.postpone_resize(why, now).then(|| PodEvent::warning(reason, message))
            }
        };
        if let Some(event) = event {
            self.pod_notice(key, event);
            self.step_pod(key, Input::Observed, now);
        }
    }
}

impl NodeEntry {
    /// What a kubelet says instead of a rejection for want of a resource whose device plugin has not registered again.
    fn rejection_by_plugin(&self, rejection: Rejection) -> Rejection {
        let resource = rejection.reason.strip_prefix("OutOf").filter(|_| self.health.lacks_plugins);
        let plugins = &self.shape.plugin_resources;
        let Some(resource) = resource.filter(|resource| plugins.iter().any(|one| one == resource)) else {
            return rejection;
        };
        let message = format!(
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices {resource}, which is unexpected"
        );
        Rejection { reason: "UnexpectedAdmissionError".to_owned(), message }
    }
}

impl PodEntry {
    /// What the pod occupies on its node, by the resources that the node keeps for it.
    fn claim(&self) -> Claim {
        let object = self.object();
        let all: Vec<&ResourceRequirements> = object.containers().map(|spec| &spec.resources).collect();
        let kept = self.machine().and_then(|machine| machine.resize.as_ref());
        object.claim(|index| kept.and_then(|kept| kept.allocated.get(index)).unwrap_or(all[index]))
    }

    /// Whether other resources are wanted than the node keeps for the pod.
    fn awaits_resize(&self) -> bool {
        self.machine().is_some_and(|machine| machine.awaits_resize(self.object()))
    }

    /// Ends the pod before it began.
    fn reject(&mut self, rejection: Rejection) {
        self.change(|machine, _| {
            machine.stage = Stage::Ended(Why::Rejected);
            machine.rejection = Some(Box::new(rejection));
        });
    }

    /// Whether the pod occupies nothing any more.
    pub(super) fn has_ended(&self) -> bool {
        let ended = self.machine().is_some_and(|machine| matches!(machine.stage, Stage::Ended(_)));
        ended || self.object().terminal()
    }

    /// The place of the pod's resize among those that wait: whether requests grow, the priority, whether it is guaranteed, and since
    /// when it waits.
    fn resize_order(&self) -> (bool, i32, bool, Option<Timestamp>) {
        let (wanted, kept) = (self.object().wanted_claim().requests, self.claim().requests);
        let grows = wanted.milli_cpu > kept.milli_cpu || wanted.memory > kept.memory;
        let is_guaranteed = self.object().status.qos_class.as_deref() == Some("Guaranteed");
        let resize = self.machine().and_then(|machine| machine.resize.as_ref());
        let since = resize.and_then(|resize| resize.pending.as_ref()).map(|pending| pending.since);
        (grows, self.object().spec.priority.unwrap_or(0), is_guaranteed, since)
    }

    fn allocate_resize(&mut self, now: Timestamp) {
        self.change(|machine, object| {
            if let Some(resize) = &mut machine.resize {
                resize.allocate(object, now);
            }
        });
    }

    /// True if the reason is news.
    fn postpone_resize(&mut self, why: Rejection, now: Timestamp) -> bool {
        let mut is_news = false;
        self.change(|machine, object| {
            let resize = machine.resize.as_mut();
            is_news = resize.is_some_and(|resize| resize.postpone(object, why, now));
        });
        is_news
    }

    /// The spec has the allocated resources again.
    fn withdraw_resize(&mut self) {
        self.change(|machine, _| {
            if let Some(resize) = &mut machine.resize {
                resize.pending = None;
                if resize.in_progress.is_none() {
                    machine.resize = None;
                }
            }
        });
    }
}
