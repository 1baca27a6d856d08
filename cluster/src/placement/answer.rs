//! [`PlacementAnswer`]: what is known about the place of a pod, and its form as data. Pure.

use super::PodName;
use kstore_scheduler::pod::PodInfo;
use kstore_scheduler::reconstruct::ComputedResult;
use kstore_scheduler::suggest::{ChangedPart, Suggestion};
use kstore_scheduler::verdict::{Lack, NodeRefusal, NodeVerdict, PlacementTable};
use serde_json::{Map, Value, json};

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It waits for a node.
    Pending,
    /// Scheduling gates keep it from the scheduler.
    Gated,
    /// It has a node.
    Placed,
    /// It has ended.
    Ended,
}

impl PodState {
    fn of(pod: &PodInfo) -> Self {
        match (&pod.node_name, pod.gated) {
            _ if pod.ended => Self::Ended,
            (Some(_), _) => Self::Placed,
            (None, true) => Self::Gated,
            (None, false) => Self::Pending,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Gated => "gated",
            Self::Placed => "placed",
            Self::Ended => "ended",
        }
    }
}

/// What is known about the place of a pod.
#[derive(Debug)]
pub struct PlacementAnswer {
    /// `namespace/name`.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// The scheduler name in its spec.
    pub scheduler: String,
    /// How far the pod is.
    pub state: PodState,
    /// Its node.
    pub node: Option<String>,
    /// Its scheduling gates.
    pub gates: Vec<String>,
    /// The condition PodScheduled: reason and message.
    pub condition: Option<(String, String)>,
    /// The revision of the bind and its writer.
    pub bound: Option<(i64, String)>,
    /// What the scheduler has recorded, the newest first.
    pub records: Vec<Value>,
    /// The revision of the state from which the verdicts are computed.
    pub computed_at: Option<i64>,
    /// Whether that state is the newest one.
    pub is_present: bool,
    /// What of the state could not be read: paths of kinds, and numbers of objects.
    pub unread: Vec<String>,
    /// What filters and scores say about the nodes: the best or the nearest ones first.
    pub table: PlacementTable,
    /// The message of a pod that no node fits in that state.
    pub message: Option<String>,
    /// The node and the pods whose eviction would make room in that state.
    pub evictions: Option<(String, Vec<String>)>,
    /// Whether the scheduler's record of the placement equals what is computed; `None`: there is no record with scores.
    pub equals_record: Option<bool>,
    /// The smallest changes that help a pod that waits.
    pub suggestions: Vec<Suggestion>,
    /// What restricts the answer, in sentences.
    pub notes: Vec<String>,
}

impl PlacementAnswer {
    pub(super) fn of(name: PodName<'_>, object: &Value, info: &PodInfo, records: Vec<Value>) -> Self {
        let gates = object["spec"]["schedulingGates"].as_array().into_iter().flatten();
        let gates = gates.filter_map(|gate| gate["name"].as_str().map(str::to_owned)).collect();
        let condition = info.scheduled.as_ref().filter(|condition| condition.status == "False");
        Self {
            pod: format!("{}/{}", name.namespace, name.name),
            uid: info.uid.to_string(),
            scheduler: info.scheduler_name.clone(),
            state: PodState::of(info),
            node: info.node_name.as_ref().map(ToString::to_string),
            gates,
            condition: condition.map(|found| (found.reason.clone(), found.message.clone())),
            bound: None,
            records,
            computed_at: None,
            is_present: false,
            unread: Vec::new(),
            table: PlacementTable::default(),
            message: None,
            evictions: None,
            equals_record: None,
            suggestions: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Takes the decision that is computed from the state.
    pub(super) fn take_result(&mut self, result: ComputedResult) {
        match result {
            ComputedResult::Fits(_) => {}
            ComputedResult::Failed(why) => self.message = Some(why),
            ComputedResult::Refused(refused) => {
                self.message = Some(refused.message);
                self.evictions = refused.evictions.map(|found| {
                    let pods = found.victims.iter().map(|pod| pod.key.to_string()).collect();
                    (found.node.to_string(), pods)
                });
            }
        }
        self.equals_record = self.compare();
    }

    /// The scheduler's newest record that the pod got a node.
    pub fn placed_record(&self) -> Option<&Value> {
        self.records.iter().find(|record| record["result"] == "placed").map(|record| &record["placed"])
    }

    /// Compares the verdicts with the scheduler's record: total and scores of the pod's node, and, if the scheduler looked at all nodes,
    /// how many fit.
    fn compare(&self) -> Option<bool> {
        let record = self.placed_record().filter(|record| record["feasible"].as_u64() > Some(1))?;
        let nodes = &self.table.nodes;
        let own = nodes.iter().find(|verdict| record["node"] == *verdict.node)?;
        let scores = self.table.scorers.iter().zip(&own.scores);
        let scores: Map<String, Value> =
            scores.map(|((name, _), score)| ((*name).to_owned(), json!(score))).collect();
        let fitting = nodes.iter().filter(|verdict| verdict.refusals.is_empty()).count();
        let has_equal_nodes = record["evaluated"] != nodes.len() || record["feasible"] == fitting;
        let has_equal_total = own.total.map(Value::from).as_ref() == Some(&record["total"]);
        Some(has_equal_nodes && has_equal_total && record["scores"] == Value::Object(scores))
    }

    /// The answer as data.
    pub fn data(&self) -> Value {
        self.data_of(usize::MAX)
    }

    /// The answer as data with at most this number of nodes: the best or the nearest ones, and how many there are besides.
    pub fn data_of(&self, nodes: usize) -> Value {
        let mut data = json!({
            "kind": "Placement", "apiVersion": "kstore/v1", "pod": self.pod, "uid": self.uid,
            "scheduler": self.scheduler, "state": self.state.word(), "node": self.node, "records": self.records,
            "notes": self.notes,
        });
        if !self.gates.is_empty() {
            data["schedulingGates"] = json!(self.gates);
        }
        if let Some((revision, by)) = &self.bound {
            data["bound"] = json!({ "revision": revision, "by": by });
        }
        if let Some(revision) = self.computed_at {
            data["computed"] = self.computed(revision, nodes);
        }
        data
    }

    fn computed(&self, revision: i64, most: usize) -> Value {
        let scorers =
            self.table.scorers.iter().map(|(name, weight)| json!({ "plugin": name, "weight": weight }));
        let suggestions = self.suggestions.iter().map(|found| {
            let part = match found.part {
                ChangedPart::Pod => "pod",
                ChangedPart::Node => "node",
                ChangedPart::OtherPods => "otherPods",
            };
            json!({ "part": part, "change": found.change, "node": &*found.node })
        });
        let nodes = self.table.nodes.iter().take(most).map(|verdict| node(verdict, &self.table));
        json!({
            "revision": revision, "isPresent": self.is_present, "unread": self.unread, "message": self.message,
            "contradiction": self.table.contradiction, "equalsRecord": self.equals_record,
            "evictions": self.evictions.as_ref().map(|(node, pods)| json!({ "node": node, "pods": pods })),
            "filters": self.table.filters, "scores": scorers.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
            "moreNodes": self.table.nodes.len().saturating_sub(most), "suggestions": suggestions.collect::<Vec<_>>(),
        })
    }
}

fn node(verdict: &NodeVerdict, table: &PlacementTable) -> Value {
    let scores = table.scorers.iter().zip(&verdict.scores);
    let scores: Map<String, Value> =
        scores.map(|((name, _), score)| ((*name).to_owned(), json!(score))).collect();
    let refusals: Vec<_> = verdict.refusals.iter().map(refusal).collect();
    json!({ "node": &*verdict.node, "fits": refusals.is_empty(), "total": verdict.total, "scores": scores,
        "refusals": refusals })
}

fn refusal(refusal: &NodeRefusal) -> Value {
    let lacks = refusal.lacks.iter().map(|lack| match lack {
        Lack::Resource { name, requested, free, allocatable } => json!({ "resource": name,
            "unit": if name == "cpu" { "milli" } else { "1" }, "requested": requested, "free": free,
            "allocatable": allocatable }),
        Lack::Toleration { key, value, effect } => {
            json!({ "taint": { "key": key, "value": value, "effect": format!("{effect:?}") } })
        }
    });
    json!({ "plugin": refusal.plugin, "reasons": refusal.reasons, "resolvable": refusal.is_resolvable,
        "lacks": lacks.collect::<Vec<_>>() })
}
