//! One decision of the scheduler among a thousand nodes, without API.

use super::virtual_time::{SEED, in_virtual_time};
use crate::pods;
use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use kstore_nondet::Rng;
use kstore_scheduler::action::Action;
use kstore_scheduler::change::Change;
use kstore_scheduler::node;
use kstore_scheduler::pod::{self, PodInfo};
use kstore_scheduler::scheduler::Scheduler;
use serde_json::{Value, json};
use std::sync::Arc;

/// Pods that are decoded before the count, for any number of decisions.
const DECISIONS: usize = 250;

/// A pending pod arrives, gets a node, and the API confirms it. Nodes and pods are decoded before.
pub(super) fn run(times: u64) -> anyhow::Result<()> {
    in_virtual_time(async {
        let now = Timestamp::UNIX_EPOCH;
        let mut scheduler = Scheduler::new("default-scheduler", 0, &Rng::seeded(SEED));
        for number in 0..pods::NODES {
            let node = node::decode(node(number).to_string().as_bytes())?;
            scheduler.node(Change::Set(Arc::new(node)), now);
        }
        let pods = (0..DECISIONS).map(pending_pod).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(usize::try_from(times)? <= DECISIONS, "at most {DECISIONS} decisions");
        for pod in pods.into_iter().take(usize::try_from(times)?) {
            scheduler.pod(Change::Set(pod), now);
            let Some(Action::Bind(binding)) = scheduler.next(now) else { bail!("the pod is not bound") };
            scheduler.bound(&binding.pod.uid);
            let confirmed = PodInfo { node_name: Some(binding.choice.node), ..PodInfo::clone(&binding.pod) };
            scheduler.pod(Change::Set(Arc::new(confirmed)), now);
        }
        Ok(())
    })
}

fn node(number: usize) -> Value {
    let name = pods::node(number);
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": format!("zone-{}", number % 3)});
    let resources = json!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    json!({"metadata": {"name": name, "uid": format!("node-{number}"), "resourceVersion": "1", "labels": labels},
        "status": {"allocatable": resources, "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pending_pod(number: usize) -> anyhow::Result<Arc<PodInfo>> {
    let mut pod: Value = serde_json::from_slice(&pods::pod(number))?;
    pod["spec"].as_object_mut().context("a spec")?.remove("nodeName");
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    let metadata = pod["metadata"].as_object_mut().context("metadata")?;
    metadata.insert("namespace".to_owned(), json!("default"));
    metadata.insert("uid".to_owned(), json!(format!("pod-{number}")));
    metadata.insert("resourceVersion".to_owned(), json!((number + 2).to_string()));
    Ok(Arc::new(pod::decode(pod.to_string().as_bytes())?))
}
