//! Calls about seeded fault rules.

use super::{Call, Reply, parse};
use crate::error::too_many;
use crate::fault::{Rule, RuleSet};
use crate::limits;
use kstore_api::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

/// Body of `PUT /faults`, whose rules are read one by one, so that a refusal says which.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FaultsBody {
    seed: u64,
    rules: Vec<Value>,
}

/// `GET /faults`.
pub(super) fn get(call: &Call) -> Result<Reply, Status> {
    parse::only(&call.query, &[])?;
    Reply::ok(&call.cluster.faults())
}

/// `PUT /faults`: replaces the rules.
pub(super) fn set(call: &Call) -> Result<Reply, Status> {
    let body: FaultsBody = parse::body(&call.body)?;
    if body.rules.len() > limits::RULES {
        return Err(too_many("rules", limits::RULES, "too many fault rules"));
    }
    let rules = body.rules.into_iter().enumerate();
    let rules = rules.map(|(place, rule)| parse::part::<Rule>(rule, &format!("/rules/{place}")));
    let set = RuleSet { seed: body.seed, rules: rules.collect::<Result<_, _>>()? };
    set.check()?;
    call.cluster.set_faults(set)?;
    get(call)
}

/// `DELETE /faults`.
pub(super) fn clear(call: &Call) -> Result<Reply, Status> {
    call.cluster.set_faults(RuleSet::default())?;
    get(call)
}

/// `GET /faults/counts`: hits of each rule since they were set.
pub(super) fn counts(call: &Call) -> Result<Reply, Status> {
    parse::only(&call.query, &[])?;
    let counts = call.cluster.current()?.bridge.perturbations.faults.counts();
    Reply::ok(&json!({"rules": counts}))
}
