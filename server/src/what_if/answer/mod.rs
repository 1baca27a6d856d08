//! [`Answer`]: what follows from a change, as the difference of two states, and its forms. Pure.

use super::pods::{PodFact, Pods, Workload};
use crate::args::FailOn;
use kstore_api::meta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Names in one line of text.
const NAMED: usize = 4;

/// What is known besides the two states.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
    /// The revision that was copied.
    pub(super) revision: i64,
    /// The workloads that the question changes or makes.
    pub(super) asked: BTreeSet<Workload>,
    /// The nodes that are gone or drained.
    pub(super) left: Vec<String>,
    /// The workloads that the question deletes.
    pub(super) deleted: BTreeSet<Workload>,
    pub(super) blocked: Vec<String>,
    pub(super) unsettled: Vec<String>,
    pub(super) unread: Vec<String>,
    pub(super) webhooks: usize,
}

/// Pods, counted: of a workload that is asked about, or of all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupCounts {
    pub(super) name: String,
    pub(super) pods: usize,
    pub(super) placed: usize,
    pub(super) pending: usize,
    pub(super) evicted: usize,
    pub(super) lost: usize,
}

/// Pods without a node for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingPods {
    pub(super) message: String,
    pub(super) pods: Vec<String>,
    /// How many of them were pending before the change.
    pub(super) before: usize,
}

/// The pods of a workload that were evicted from a node, and where the pods are that replace them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EvictedPods {
    pub(super) workload: Workload,
    pub(super) node: String,
    pub(super) pods: Vec<String>,
    /// The nodes of new pods of the workload; `None`: pending.
    pub(super) replaced_on: Vec<Option<String>>,
}

/// The share of the nodes' CPU that pods request, in per mille.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeUse {
    pub(super) nodes: usize,
    pub(super) mean: i64,
    pub(super) max: i64,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) circumstances: Circumstances,
    pub(super) groups: Vec<GroupCounts>,
    /// The new pods with their nodes.
    pub(super) placements: Vec<(String, String)>,
    pub(super) pending: Vec<PendingPods>,
    pub(super) evicted: Vec<EvictedPods>,
    pub(super) lost: Vec<String>,
    pub(super) cpu: (NodeUse, NodeUse),
}

/// Pods and nodes of one state.
#[derive(Clone, Copy)]
pub(super) struct StateView<'s> {
    pub(super) pods: &'s Pods,
    pub(super) nodes: &'s [Value],
}

impl Answer {
    /// Compares the state before the change with that after it.
    pub(super) fn of(before: StateView<'_>, after: StateView<'_>, circumstances: Circumstances) -> Self {
        let mut answer = Self { cpu: (node_use(before), node_use(after)), ..Self::default() };
        let known: BTreeMap<&str, &PodFact> =
            before.pods.all.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
        let mut groups: BTreeMap<Option<&Workload>, GroupCounts> = BTreeMap::new();
        let asked = |pod: &PodFact| circumstances.asked.get(&pod.workload);
        let mut pending: BTreeMap<&str, PendingPods> = BTreeMap::new();
        for pod in after.pods.all.iter().filter(|pod| !pod.is_ending) {
            let group = groups.entry(asked(pod)).or_default();
            group.pods += 1;
            match &pod.node {
                Some(node) => {
                    group.placed += 1;
                    if !known.contains_key(pod.uid.as_str()) {
                        answer.placements.push((pod.key.clone(), node.clone()));
                    }
                }
                None => {
                    group.pending += 1;
                    let was_pending = known.get(pod.uid.as_str()).is_some_and(|pod| pod.node.is_none());
                    let found = pending.entry(&pod.message).or_insert_with(|| PendingPods {
                        message: pod.message.clone(),
                        pods: Vec::new(),
                        before: 0,
                    });
                    found.pods.push(pod.key.clone());
                    found.before += usize::from(was_pending);
                }
            }
        }
        answer.pending = pending.into_values().collect();
        answer.take_gone(before, after, &circumstances, &mut groups);
        let others = groups.remove(&None);
        let rows = groups.into_iter().chain(others.map(|counts| (None, counts)));
        answer.groups = rows.map(|(workload, counts)| named(workload, counts)).collect();
        answer.circumstances = circumstances;
        answer
    }

    /// Takes the pods that had a node before and are gone: evicted if something replaces them, else lost. Pods of workloads that the
    /// question changes or deletes are neither.
    fn take_gone<'c>(
        &mut self,
        before: StateView<'_>,
        after: StateView<'_>,
        circumstances: &'c Circumstances,
        groups: &mut BTreeMap<Option<&'c Workload>, GroupCounts>,
    ) {
        let mut evicted: BTreeMap<(Workload, String), Vec<String>> = BTreeMap::new();
        for pod in before.pods.all.iter().filter(|pod| !pod.is_ending) {
            let Some(node) = &pod.node else { continue };
            let is_gone = after.pods.get(&pod.uid).is_none_or(|now| now.is_ending);
            let is_meant =
                circumstances.asked.contains(&pod.workload) || circumstances.deleted.contains(&pod.workload);
            if !is_gone || is_meant {
                continue;
            }
            let group = groups.entry(None).or_default();
            if pod.is_controlled {
                group.evicted += 1;
                evicted.entry((pod.workload.clone(), node.clone())).or_default().push(pod.key.clone());
            } else {
                group.lost += 1;
                self.lost.push(pod.key.clone());
            }
        }
        let is_new = |pod: &&PodFact| !pod.is_ending && before.pods.get(&pod.uid).is_none();
        for ((workload, node), pods) in evicted {
            let new = after.pods.all.iter().filter(is_new).filter(|pod| pod.workload == workload);
            let replaced_on = new.map(|pod| pod.node.clone()).collect();
            self.evicted.push(EvictedPods { workload, node, pods, replaced_on });
        }
    }

    /// Whether the answer has one of these consequences; of any if none is named.
    pub(super) fn fails(&self, on: &[FailOn]) -> bool {
        let is_asked = |what| on.is_empty() || on.contains(&what);
        let is_pending = self.pending.iter().any(|found| found.pods.len() > found.before);
        is_asked(FailOn::Pending) && is_pending
            || is_asked(FailOn::Evicted) && !self.evicted.is_empty()
            || is_asked(FailOn::Lost) && !self.lost.is_empty()
    }

    /// The answer as data.
    pub(super) fn data(&self) -> Value {
        let Circumstances { revision, blocked, unsettled, unread, webhooks, .. } = &self.circumstances;
        let groups = self.groups.iter().map(|group| {
            json!({ "name": group.name, "pods": group.pods, "placed": group.placed, "pending": group.pending,
                "evicted": group.evicted, "lost": group.lost })
        });
        let pending = self.pending.iter().map(
            |found| json!({ "message": found.message, "pods": found.pods, "pendingBefore": found.before }),
        );
        let evicted = self.evicted.iter().map(|found| {
            json!({ "workload": found.workload.text(), "node": found.node, "pods": found.pods,
                "replacedOn": found.replaced_on })
        });
        let placements = self.placements.iter().map(|(pod, node)| json!({ "pod": pod, "node": node }));
        let cpu = |found: NodeUse| json!({ "nodes": found.nodes, "meanPerMille": found.mean, "maxPerMille": found.max });
        json!({ "kind": "WhatIf", "apiVersion": "kstore/v1", "revision": revision,
            "groups": groups.collect::<Vec<_>>(), "placements": placements.collect::<Vec<_>>(),
            "pending": pending.collect::<Vec<_>>(), "evicted": evicted.collect::<Vec<_>>(), "lost": self.lost,
            "blockedByBudgets": blocked, "cpuRequested": { "before": cpu(self.cpu.0), "after": cpu(self.cpu.1) },
            "unsettled": unsettled, "unread": unread, "webhooksNotAsked": webhooks })
    }

    /// The answer as text.
    pub(super) fn text(&self) -> String {
        let Circumstances { revision, left, blocked, unsettled, unread, webhooks, .. } = &self.circumstances;
        let mut out = format!("on a copy of the cluster as of #{revision}; nothing was changed\n\n");
        let width = self.groups.iter().map(|group| group.name.chars().count()).max().unwrap_or(0);
        let head = ["PODS", "PLACED", "PENDING", "EVICTED", "LOST"].map(|name| format!("{name:>8}")).concat();
        let _ = writeln!(out, "{:width$}{head}", "");
        for group in &self.groups {
            let GroupCounts { pods, placed, pending, evicted, lost, .. } = group;
            let counts = [pods, placed, pending, evicted, lost];
            let shown = |count: &usize| if *count == 0 { String::new() } else { count.to_string() };
            let row = counts.map(|count| format!("{:>8}", shown(count))).concat();
            let _ = writeln!(out, "{}", format!("{:width$}{row}", group.name).trim_end());
        }
        for found in &self.pending {
            let message =
                if found.message.is_empty() { "the scheduler has not tried it" } else { &found.message };
            let _ = writeln!(out, "PENDING  {}: {message}", list(&found.pods));
        }
        for found in &self.evicted {
            let places: Vec<_> = found
                .replaced_on
                .iter()
                .map(|node| node.clone().unwrap_or_else(|| "pending".to_owned()))
                .collect();
            let _ = writeln!(
                out,
                "EVICTED  from node/{}: {} of {} → {}",
                found.node,
                pods(found.pods.len()),
                found.workload.text(),
                if places.is_empty() { "not replaced".to_owned() } else { list(&places) }
            );
        }
        if !self.lost.is_empty() {
            let _ =
                writeln!(out, "LOST     {} without controller: {}", pods(self.lost.len()), list(&self.lost));
        }
        if !blocked.is_empty() {
            let nodes = left.join(", ");
            let _ = writeln!(
                out,
                "BLOCKED  {} on {nodes}, kept by disruption budgets: {}",
                pods(blocked.len()),
                list(blocked)
            );
        }
        let (before, after) = self.cpu;
        let percent = |per_mille: i64| format!("{}.{}", per_mille / 10, per_mille % 10);
        let _ = writeln!(
            out,
            "NODES    {} → {}; cpu requested: mean {} → {} %, max {} → {} %",
            before.nodes,
            after.nodes,
            percent(before.mean),
            percent(after.mean),
            percent(before.max),
            percent(after.max)
        );
        if *webhooks > 0 {
            let _ = writeln!(out, "NOT ASKED  {webhooks} webhooks about pods");
        }
        if !unread.is_empty() {
            let _ = writeln!(out, "NOT READ  {}: no permission to list them", unread.join(", "));
        }
        if !unsettled.is_empty() {
            let _ = writeln!(out, "NOT SETTLED after ten minutes of virtual time: {}", list(unsettled));
        }
        out
    }
}

fn named(workload: Option<&Workload>, counts: GroupCounts) -> GroupCounts {
    let name = workload.map_or_else(|| "others".to_owned(), Workload::text);
    GroupCounts { name, ..counts }
}

/// A number of pods in words.
fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// Some of the texts, and the number of the others.
fn list(texts: &[String]) -> String {
    let shown = texts.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match texts.len() {
        count if count > NAMED => format!("{shown} and {} more", count - NAMED),
        _ => shown,
    }
}

/// The CPU that pods request, relative to what their nodes have.
fn node_use(state: StateView<'_>) -> NodeUse {
    let mut requested: BTreeMap<&str, i64> = BTreeMap::new();
    for pod in &state.pods.all {
        if let Some(node) = &pod.node {
            *requested.entry(node).or_default() += pod.milli_cpu;
        }
    }
    let mut shares = Vec::new();
    for node in state.nodes {
        let Ok(info) = kstore_scheduler::node::decode(node.to_string().as_bytes()) else { continue };
        let own = requested.get(meta::name(node)).copied().unwrap_or_default();
        if info.allocatable.milli_cpu > 0 {
            shares.push((own, info.allocatable.milli_cpu));
        }
    }
    let per_mille = |own: i64, all: i64| (i128::from(own) * 1000 / i128::from(all.max(1))) as i64;
    let total = shares
        .iter()
        .fold((0_i64, 0_i64), |(own, all), share| (own.saturating_add(share.0), all.saturating_add(share.1)));
    NodeUse {
        nodes: state.nodes.len(),
        mean: per_mille(total.0, total.1),
        max: shares.iter().map(|(own, all)| per_mille(*own, *all)).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
