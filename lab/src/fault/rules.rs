//! [`FaultRules`]: the seeded rules in force in a cluster, with the counts of requests and hits since they were set.

use super::RuleSet;
use super::decide::{Decision, RequestIdentity};
use crate::limits;
use kstore_nondet::HashMap;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Hits of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleCount {
    /// Name of the rule.
    pub name: String,
    /// Fault of the rule.
    pub fault: &'static str,
    /// Requests that got the fault.
    pub hits: u64,
    /// Requests that were drawn and could not get it in a legal way, such as an update without a `resourceVersion`.
    pub skipped: u64,
}

/// The seeded rules in force.
#[derive(Debug, Default)]
pub struct FaultRules {
    state: Mutex<RulesState>,
    is_set: AtomicBool,
}

#[derive(Debug, Default)]
struct RulesState {
    set: Arc<RuleSet>,
    names: Vec<String>,
    counts: Vec<RuleCount>,
    /// Requests and hits of bounded rules, by client, verb and path.
    streams: HashMap<String, (u64, BTreeMap<usize, u64>)>,
    /// Bytes of the keys of `streams`.
    stream_bytes: usize,
}

impl FaultRules {
    /// Replaces the rules. All counts begin at 0.
    pub fn set(&self, set: RuleSet) {
        let names = set.names();
        let count = |(name, rule): (&String, &super::Rule)| RuleCount {
            name: name.clone(),
            fault: rule.fault.name(),
            ..RuleCount::default()
        };
        let counts = names.iter().zip(&set.rules).map(count).collect();
        let is_set = !set.rules.is_empty();
        *self.state.lock() = RulesState { names, counts, set: Arc::new(set), ..RulesState::default() };
        self.is_set.store(is_set, Ordering::Release);
    }

    /// Whether there are rules.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// The rules in force.
    pub fn get(&self) -> Arc<RuleSet> {
        self.state.lock().set.clone()
    }

    /// Hits since the rules were set.
    pub fn counts(&self) -> Vec<RuleCount> {
        self.state.lock().counts.clone()
    }

    /// Decides about a request and counts it.
    pub fn decide(&self, request: &RequestIdentity<'_>) -> Decision {
        if !self.is_set() {
            return Decision::default();
        }
        let mut state = self.state.lock();
        let stream = request.stream();
        if !state.streams.contains_key(&stream) {
            let bytes = state.stream_bytes + stream.len();
            let is_full = state.streams.len() >= limits::COUNTED_PATHS || bytes > limits::COUNTED_PATH_BYTES;
            if is_full {
                state.streams.clear();
            }
            state.stream_bytes = if is_full { stream.len() } else { bytes };
        }
        let RulesState { set, names, counts, streams, .. } = &mut *state;
        let (nth, hits) = streams.entry(stream).or_default();
        let decision = set.decide(names, request, *nth, hits);
        *nth += 1;
        for place in &decision.hits {
            counts[*place].hits += 1;
        }
        decision
    }

    /// A fault that was decided could not happen.
    pub fn skipped(&self, fault: &str) {
        if let Some(count) =
            self.state.lock().counts.iter_mut().find(|count| count.fault == fault && count.hits > 0)
        {
            count.hits -= 1;
            count.skipped += 1;
        }
    }
}
