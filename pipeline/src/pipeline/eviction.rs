//! Eviction: the deletion of a pod within its disruption budget. One commit charges the budget, sets the
//! pod's condition DisruptionTarget and deletes the pod, so that no budget is charged for a pod that stays.

use super::delete::Deletion;
use super::{Answer, Pipeline};
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::selector::label;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_registry::cache::Filter;
use kstore_registry::decode::{self, delete_options};
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::registry::Decision;
use kstore_registry::request::{Body, DeleteOptions, Request, Target, WriteOptions};
use kstore_registry::stage::Stage;
use serde_json::{Value, json};
use std::sync::Arc;

/// Evictions that a budget may have unconfirmed by its controller; beyond it evictions are refused.
/// Kubernetes' bound.
const DISRUPTED_PODS: usize = 2000;

impl Pipeline {
    /// Deletes a pod if its disruption budget allows it.
    pub(super) async fn evict(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let eviction = eviction(request, body, options, warnings)?;
        let eviction = self.admit_posted(request, eviction, options, warnings).await?;
        let delete_options = &eviction["deleteOptions"];
        let delete = delete_options::parse(delete_options)?;
        let dry_run = options.dry_run || delete_options::is_dry_run(delete_options)?;
        let revision = match &request.stage {
            Some(_) => self.stage_eviction(request, &delete, options).await.map(|()| 0),
            None => self.evict_alone(request, &delete, options, dry_run).await,
        }?;
        Ok(Answer::Status { status: Status::success(201), revision })
    }

    async fn evict_alone(
        &self,
        request: &Request,
        delete: &DeleteOptions,
        options: &WriteOptions,
        dry_run: bool,
    ) -> Result<i64, Status> {
        let context = self.write_context(request);
        let options = WriteOptions { dry_run: false, ..options.clone() };
        loop {
            self.cache().fresh().await.map_err(error::of_read)?;
            let stage = Stage::new(self.cache().kinds());
            let staged = Request { stage: Some(stage.clone()), ..request.clone() };
            self.stage_eviction(&staged, delete, &options).await?;
            if dry_run {
                return Ok(0);
            }
            if let Some(revision) = self.registry.commit_stage(&stage, &context).await? {
                return Ok(revision);
            }
        }
    }

    async fn stage_eviction(
        &self,
        request: &Request,
        delete: &DeleteOptions,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let target = &request.target;
        let pod = self.view(request).get(target.resource, &target.key());
        let pod = pod.ok_or_else(|| Status::not_found(target.resource, &target.name))?;
        let now = self.nondet.clock.now_seconds().to_string();
        if !needs_no_budget(&pod.parse()) {
            self.charge(request, &pod, &now).await?;
        }
        let set_condition_of = |pod: Option<&Value>| {
            let mut pod = pod.cloned().ok_or_else(|| Status::not_found(target.resource, &target.name))?;
            set_condition(&mut pod["status"], disruption_target(&now));
            Ok(Decision::Put(pod))
        };
        self.registry.guaranteed_update(target, self.write_context(request), false, set_condition_of).await?;
        // As in Kubernetes, admission has seen the eviction and does not see the deletion.
        let unseen = self.admission.calls(&request.user).none();
        let deletion = Deletion { named: &target.name, delete, options, calls: &unseen };
        self.delete_one(request, target, deletion).await.map(drop)
    }

    /// Charges the pod's disruption budget, if the pod has one and counts for it.
    async fn charge(&self, request: &Request, pod: &Entry, now: &str) -> Result<(), Status> {
        let guarding = self.budgets_of(request, pod);
        let budget = match guarding.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => return Err(error::several_budgets()),
        };
        if !is_ready(&pod.parse()) && leaves_unready_pods(&budget.parse()) {
            return Ok(());
        }
        let target = Target {
            resource: budgets(),
            custom: None,
            subresource: "status",
            namespace: budget.namespace().to_string(),
            name: budget.name().to_string(),
        };
        let charged = |budget: Option<&Value>| {
            let budget = budget.ok_or_else(|| Status::not_found(target.resource, &target.name))?;
            Ok(Decision::Put(charged(budget, pod.name(), now, request.target.resource.minor)?))
        };
        self.registry.guaranteed_update(&target, self.write_context(request), false, charged).await.map(drop)
    }

    fn budgets_of(&self, request: &Request, pod: &Entry) -> Vec<Arc<Entry>> {
        if pod.parse_metadata()["labels"].as_object().is_none_or(serde_json::Map::is_empty) {
            return Vec::new();
        }
        let filter = Filter { namespace: pod.namespace().to_string(), ..Filter::all(budgets()) };
        let mut found = self.view(request).scan(&filter);
        // An invalid selector selects nothing.
        found.retain(|budget| {
            let selector = label::Selector::from_object(&budget.parse()["spec"]["selector"]);
            selector.is_ok_and(|selector| selector.matches(&pod.labels()))
        });
        found
    }
}

fn budgets() -> &'static Resource {
    kind::lookup("policy", "v1", "poddisruptionbudgets").expect("budgets are in the table")
}

/// Decodes the Eviction in the body, also of version v1beta1, and checks that it names the pod of the URL.
fn eviction(
    request: &Request,
    body: &Body,
    options: &WriteOptions,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let target = &request.target;
    let mut tree = decode::tree(body)?;
    if tree["apiVersion"] == "policy/v1beta1" {
        tree["apiVersion"] = json!("policy/v1");
    }
    let body = Body::json(tree.to_string().into());
    let expected = decode::Expected::of(target.resource, target.subresource);
    let eviction = decode::object(expected, &body, options.field_validation, warnings)?;
    if kstore_api::meta::name(&eviction) != target.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    super::update::check_name_and_namespace(target, &mut eviction.clone())?;
    Ok(eviction)
}

/// Whether the eviction of a pod disrupts nothing: the pod has ended, is pending or is already being deleted.
fn needs_no_budget(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || kstore_api::meta::is_being_deleted(pod)
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Whether unready pods may be evicted without a charge: always, or while enough pods are healthy, as the
/// budget's policy says.
fn leaves_unready_pods(budget: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (count("desiredHealthy") > 0 && count("currentHealthy") >= count("desiredHealthy"))
}

/// The budget with one allowed disruption less and the pod among its disrupted pods; or why it cannot be
/// charged.
fn charged(budget: &Value, pod: &str, now: &str, minor: Minor) -> Result<Value, Status> {
    let name = kstore_api::meta::name(budget);
    let status = &budget["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(0);
    if number("observedGeneration") < kstore_api::meta::generation(budget) {
        return Err(error::budget_not_observed(name));
    }
    if number("disruptionsAllowed") < 0 {
        let text = "pdb disruptions allowed is negative";
        return Err(forbidden(name, (text, text), minor));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > DISRUPTED_PODS) {
        let text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let why = "too many pending evictions not confirmed by PDB controller";
        return Err(forbidden(name, (text, why), minor));
    }
    if number("disruptionsAllowed") == 0 {
        return Err(error::budget_exhausted(budget));
    }
    let left = number("disruptionsAllowed") - 1;
    let observed = status["observedGeneration"].clone();
    let mut next = budget.clone();
    next["status"]["disruptionsAllowed"] = json!(left);
    if !next["status"]["disruptedPods"].is_object() {
        next["status"]["disruptedPods"] = json!({});
    }
    next["status"]["disruptedPods"][pod] = json!(now);
    if left == 0 {
        let condition = json!({ "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
            "message": "", "lastTransitionTime": now, "observedGeneration": observed });
        set_condition(&mut next["status"], condition);
    }
    Ok(next)
}

/// 403: the budget cannot be charged. Since Kubernetes 1.37 a cause says so to programs, with `why`.
fn forbidden(budget: &str, (text, why): (&str, &str), minor: Minor) -> Status {
    let status = Status::forbidden(("policy", "poddisruptionbudget"), budget, text);
    match minor >= Minor::V37 {
        true => status.cause(
            "DisruptionBudget",
            format!("The disruption budget {budget} does not allow evicting pods currently: {why}"),
        ),
        false => status,
    }
}

fn disruption_target(now: &str) -> Value {
    json!({ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now })
}

/// Sets a condition by its type. Keeps `lastTransitionTime` if the condition's status does not change.
pub(super) fn set_condition(status: &mut Value, mut condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("made an array above");
    match conditions.iter_mut().find(|other| other["type"] == condition["type"]) {
        Some(other) => {
            if other["status"] == condition["status"] && !other["lastTransitionTime"].is_null() {
                condition["lastTransitionTime"] = other["lastTransitionTime"].clone();
            }
            *other = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_cannot_be_charged_is_a_cause_since_1_37() {
        let pods: serde_json::Map<String, Value> =
            (0..=DISRUPTED_PODS).map(|n| (format!("p{n}"), json!("2026-01-01T00:00:00Z"))).collect();
        for (status, text, why) in [
            (
                json!({"disruptionsAllowed": -1}),
                "pdb disruptions allowed is negative",
                "pdb disruptions allowed is negative",
            ),
            (
                json!({"disruptionsAllowed": 1, "disruptedPods": pods}),
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
                "too many pending evictions not confirmed by PDB controller",
            ),
        ] {
            let budget = json!({"metadata": {"name": "b"}, "status": status});
            for minor in [Minor::V36, Minor::V37] {
                let refused = json!(charged(&budget, "p", "2026-01-01T00:00:00Z", minor).unwrap_err());
                let message = format!("poddisruptionbudget.policy \"b\" is forbidden: {text}");
                assert_eq!((&refused["message"], &refused["code"]), (&json!(message), &json!(403)));
                let why = format!("The disruption budget b does not allow evicting pods currently: {why}");
                let cause = json!([{"reason": "DisruptionBudget", "message": why}]);
                let causes = &refused["details"]["causes"];
                assert_eq!(*causes, if minor == Minor::V36 { Value::Null } else { cause }, "{minor}");
            }
        }
    }
}
