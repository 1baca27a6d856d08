//! Table columns of pods. The status column summarizes all container statuses in one word.
//!
//! Follows `printPod`.

use super::duration::human_duration;
use super::text::{self, NONE, int, list, of, or};
use super::{AGE, NAME, Printer, age, name, printer, text as column};
use crate::meta;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) const POD: Printer = printer(
    &[
        NAME,
        column("Ready", "Containers that are ready, of all."),
        column("Status", "What the pod is doing, in one word."),
        column("Restarts", "How often its containers were restarted, and when last."),
        AGE,
        column("IP", "Address of the pod.").wide(),
        column("Node", "Node the pod is bound to.").wide(),
        column("Nominated Node", "Node that is being freed for the pod.").wide(),
        column("Readiness Gates", "Readiness gates that are open, of all.").wide(),
    ],
    cells,
);

/// Conditions of a finished pod's row.
pub(crate) fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod["status"]["phase"].as_str()? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = PodSummary::of(pod);
    let restarts = match (summary.restarts, summary.last_restart) {
        (0, _) | (_, None) => summary.restarts.to_string(),
        (n, Some(time)) => format!("{n} ({} ago)", human_duration(now.duration_since(time).as_secs())),
    };
    let status = &pod["status"];
    let ip = list(&status["podIPs"]).first().map_or(&status["podIP"], |ip| &ip["ip"]);
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.word.into(),
        restarts.into(),
        age(pod, now),
        or(ip, NONE).into(),
        or(&pod["spec"]["nodeName"], NONE).into(),
        or(&status["nominatedNodeName"], NONE).into(),
        readiness_gates(pod).into(),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, of(&gate["conditionType"])) == Some("True")).count();
    format!("{open}/{}", gates.len())
}

fn condition<'p>(pod: &'p Value, kind: &str) -> Option<&'p str> {
    list(&pod["status"]["conditions"]).iter().find(|c| c["type"] == kind).and_then(|c| c["status"].as_str())
}

struct PodSummary {
    word: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// Restarts of a group of containers, and the end of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(int(&status["restartCount"]));
        let ended = meta::parse_time(of(&status["lastState"]["terminated"]["finishedAt"]));
        self.last = self.last.max(ended);
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

impl PodSummary {
    fn of(pod: &Value) -> PodSummary {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let init = list(&spec["initContainers"]);
        let sidecars: BTreeSet<&str> =
            init.iter().filter(|c| is_sidecar(c)).map(|c| c["name"].as_str().unwrap_or_default()).collect();
        let total = list(&spec["containers"]).len() + init.iter().filter(|c| is_sidecar(c)).count();
        let mut word = or(&status["reason"], of(&status["phase"])).to_owned();
        let gated = |c: &Value| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated";
        if list(&status["conditions"]).iter().any(gated) {
            "SchedulingGated".clone_into(&mut word);
        }
        let mut ready = 0;
        let (mut restarts, mut sidecar_restarts) = (Restarts::default(), Restarts::default());
        let mut initializing = None;
        for (i, container) in list(&status["initContainerStatuses"]).iter().enumerate() {
            restarts.add(container);
            let sidecar = sidecars.contains(container["name"].as_str().unwrap_or_default());
            if sidecar {
                sidecar_restarts.add(container);
            }
            if is_done(container) {
                continue;
            }
            if sidecar && container["started"] == true {
                ready += usize::from(container["ready"] == true);
            } else {
                let what = init_status(container, i, init.len());
                initializing = Some(what);
                break;
            }
        }
        let initialized = condition(pod, "Initialized") == Some("True");
        if let Some(what) = &initializing {
            word.clone_from(what);
        }
        if initializing.is_none() || initialized {
            restarts = sidecar_restarts;
            ready += containers_status(pod, &mut word, &mut restarts);
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
            if status["reason"] == "NodeLost" {
                "Unknown".clone_into(&mut word);
            } else if !over {
                "Terminating".clone_into(&mut word);
            }
        }
        PodSummary { word, ready, total, restarts: restarts.count, last_restart: restarts.last }
    }
}

/// Whether an init container has completed successfully.
fn is_done(container: &Value) -> bool {
    let terminated = &container["state"]["terminated"];
    terminated.is_object() && int(&terminated["exitCode"]) == 0
}

/// Status word for a pod whose init container has not completed.
fn init_status(container: &Value, index: usize, total: usize) -> String {
    let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
    if terminated.is_object() {
        return format!("Init:{}", termination_status(terminated));
    }
    match text::of(&waiting["reason"]) {
        "" | "PodInitializing" => format!("Init:{index}/{total}"),
        reason => format!("Init:{reason}"),
    }
}

fn termination_status(terminated: &Value) -> String {
    match (of(&terminated["reason"]), int(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", int(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Computes the status word from the main containers and returns the number of ready ones. The walk is from
/// last to first, so that the first container's state takes precedence.
fn containers_status(pod: &Value, word: &mut String, restarts: &mut Restarts) -> usize {
    let (mut ready, mut running, mut failed) = (0, false, None);
    for container in list(&pod["status"]["containerStatuses"]).iter().rev() {
        restarts.add(container);
        let state = &container["state"];
        let waiting = of(&state["waiting"]["reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(word);
        } else if state["terminated"].is_object() {
            *word = termination_status(&state["terminated"]);
            if int(&state["terminated"]["exitCode"]) != 0 {
                failed = Some(word.clone());
            }
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            ready += 1;
        }
    }
    if word == "Completed" {
        match failed {
            _ if running && condition(pod, "Ready") == Some("True") => "Running".clone_into(word),
            Some(failed) => *word = failed,
            None if running => "NotReady".clone_into(word),
            None => {}
        }
    }
    ready
}
