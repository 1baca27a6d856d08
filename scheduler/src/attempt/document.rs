//! Attempts as JSON, with the names that a caller may see.

use super::{Attempt, AttemptResult, Placement, PodAttempts, RefusedAttempt};
use serde_json::{Map, Value, json};

/// Which names an answer may have, beside those in the pod itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleNames {
    /// Whether the caller may list nodes.
    pub nodes: bool,
    /// Whether the caller may list the pods of all namespaces.
    pub pods: bool,
}

impl PodAttempts {
    /// The attempts as the API answers them, the newest first, each with the revision that it is about.
    pub fn documents(&self, names: VisibleNames) -> Vec<(i64, Value)> {
        let document = |attempt: &Attempt| (attempt.seen.0 as i64, self.document(attempt, names));
        self.attempts.iter().rev().map(document).collect()
    }

    fn document(&self, attempt: &Attempt, names: VisibleNames) -> Value {
        let mut document = json!({
            "uid": &*self.uid, "schedulerName": &*self.scheduler_name, "attempt": attempt.number,
            "repeats": attempt.repeats, "time": format!("{:.6}", attempt.first), "seen": attempt.seen.0,
            "cause": attempt.cause.0,
        });
        if attempt.repeats > 0 {
            document["lastTime"] = json!(format!("{:.6}", attempt.last));
        }
        let (word, result) = match &attempt.result {
            AttemptResult::Placed(placement) => ("placed", placement.document()),
            AttemptResult::Refused(refused) => ("refused", refused.document(names)),
            AttemptResult::Failed(message) => ("failed", json!({ "message": message })),
        };
        document["result"] = word.into();
        document[word] = result;
        document
    }
}

impl Placement {
    fn document(&self) -> Value {
        let scores: Map<_, _> =
            self.scores.iter().map(|(name, score)| ((*name).into(), json!(score))).collect();
        json!({ "node": &*self.node, "evaluated": self.evaluated, "feasible": self.feasible, "best": self.best,
            "total": self.total, "scores": scores })
    }
}

impl RefusedAttempt {
    fn document(&self, names: VisibleNames) -> Value {
        let reasons = self.reasons.iter().map(|reason| {
            json!({ "plugin": reason.plugin, "reason": reason.reason, "nodes": reason.nodes,
                "resolvable": reason.is_resolvable })
        });
        let reasons: Vec<_> = reasons.collect();
        let mut document = json!({ "message": self.message, "nodes": self.nodes, "reasons": reasons });
        if self.others > 0 {
            document["otherNodes"] = self.others.into();
        }
        if let Some(evictions) = &self.evictions {
            document["evictions"] = json!({ "count": evictions.count });
            if names.nodes {
                document["evictions"]["node"] = json!(&*evictions.node);
            }
            if names.pods {
                let victims: Vec<_> = evictions.victims.iter().map(|key| key.as_str()).collect();
                document["evictions"]["pods"] = json!(victims);
            }
        }
        document
    }
}
