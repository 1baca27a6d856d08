//! What happens below an object: scale, binding, eviction, finalize, approval. Status goes the way of update. What a kind's
//! table row lists but nothing serves yet answers 501 with the reason.

use super::update::apply_patch;
use super::{Answer, ObjectAnswer, Pipeline, in_version};
use crate::cache::Entry;
use crate::decode::{self, Expected, Patch};
use crate::error;
use crate::registry::Next;
use crate::request::{Body, DeleteOptions, FieldValidation, Request, Target, WriteOptions};
use kstore_api::kind;
use kstore_api::meta;
use kstore_api::patch::apply;
use kstore_api::scale;
use kstore_api::selector::label;
use kstore_api::status::Status;
use serde_json::{Value, json};

impl Pipeline {
    /// GET of a subresource other than status.
    pub(super) fn get_subresource(&self, request: &Request, entry: &Entry) -> Result<Answer, Status> {
        let target = &request.target;
        match target.subresource {
            "scale" => Ok(Answer::Value {
                value: scale::of(&in_version(target.resource, entry.parse())),
                created: false,
            }),
            other => Err(error::not_served(target, other)),
        }
    }

    /// POST to a subresource.
    pub(super) async fn post_subresource(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let expected = Expected::of(target.resource, target.subresource);
        match target.subresource {
            "binding" => {
                let binding = decode::object(expected, body, options.field_validation, warnings)?;
                self.bind(request, &binding, options).await
            }
            "eviction" => {
                let eviction = decode::object(expected, body, FieldValidation::Ignore, warnings)?;
                self.evict(request, &eviction, options).await
            }
            "token" => self.create_token(request, body, options, warnings).await,
            other => Err(error::not_served(target, other)),
        }
    }

    /// Assigns a pod to a node: `spec.nodeName` and the condition PodScheduled.
    pub(super) async fn bind(
        &self,
        request: &Request,
        binding: &Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let now = self.nondet.clock.now_seconds().to_string();
        let decide = |pod: Option<&Value>| {
            let pod = pod.ok_or_else(|| Status::not_found(target.resource, &target.name))?;
            bound(target, pod, binding, &now).map(Next::Put)
        };
        let bound =
            self.registry.guaranteed_update(target, self.mandate(request), options.dry_run, decide).await?;
        let mut status = Status::success(201);
        status.message = String::new();
        Ok(Answer::Status { status, revision: bound.entry.revision })
    }

    /// Deletes a pod if its disruption budgets allow it.
    async fn evict(
        &self,
        request: &Request,
        eviction: &Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let entry = self.registry.get(target, &crate::request::GetOptions::default()).await?;
        if let Some(refusal) = self.blocking_budget(target, &entry) {
            return Err(refusal);
        }
        let asked = &eviction["deleteOptions"];
        let delete = DeleteOptions {
            uid: asked["preconditions"]["uid"].as_str().map(str::to_owned),
            grace_period_seconds: asked["gracePeriodSeconds"].as_i64(),
            ..DeleteOptions::default()
        };
        let evicted = self.delete_one(request, target, &delete, options).await?;
        Ok(Answer::Status { status: Status::success(201), revision: evicted.entry.revision })
    }

    fn blocking_budget(&self, target: &Target, pod: &Entry) -> Option<Status> {
        let budgets = kind::lookup("policy", "v1", "poddisruptionbudgets").expect("budgets are in the table");
        let filter = crate::cache::Filter {
            namespace: target.namespace.clone(),
            ..crate::cache::Filter::all(budgets)
        };
        let (budgets, _) = self.cache().scan(&filter);
        budgets.iter().map(|entry| entry.parse()).find_map(|budget| {
            let selector = label::Selector::from_object(&budget["spec"]["selector"]).ok()?;
            let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            (selector.matches(&pod.labels()) && allowed <= 0).then(|| error::budget_exhausted(&budget))
        })
    }

    /// Replaces the scale of a workload.
    pub(super) async fn put_scale(
        &self,
        request: &Request,
        wanted: &Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        self.change_scale(request, options, |scale| {
            let mut wanted = wanted.clone();
            self.track_scale(request, options, scale, &mut wanted)?;
            Ok(wanted)
        })
        .await
    }

    /// Patches the scale of a workload.
    pub(super) async fn patch_scale(
        &self,
        request: &Request,
        patch: &Patch,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let mut dropped = Vec::new();
        let change = |scale: &Value| {
            dropped.clear();
            let mut wanted = apply_patch(target, patch, scale)?;
            decode::patched(target, patch, &mut wanted, options.field_validation, &mut dropped)?;
            self.track_scale(request, options, scale, &mut wanted)?;
            Ok(wanted)
        };
        let answer = self.change_scale(request, options, change).await?;
        warnings.extend(dropped);
        Ok(answer)
    }

    /// Changes the scale of a workload to what `change` makes of it, its books included.
    pub(super) async fn change_scale(
        &self,
        request: &Request,
        options: &WriteOptions,
        mut change: impl FnMut(&Value) -> Result<Value, Status> + Send,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        // The scale is part of the spec: the write is one of the workload itself.
        let parent = Request { target: Target { subresource: "", ..target.clone() }, ..request.clone() };
        let options = WriteOptions { books_kept: true, ..options.clone() };
        let rescale = |workload: &Value| {
            let mut scale = scale::of(workload);
            apply::books_of_scale(workload, &mut scale);
            let wanted = change(&scale)?;
            let (uid, is) = (meta::uid(&wanted), meta::uid(workload));
            if !uid.is_empty() && uid != is {
                return Err(error::uid_precondition(target, uid, is));
            }
            scale::check(target.resource, &target.name, &wanted)?;
            let mut next = workload.clone();
            // A decoded Scale of zero replicas says nothing about them.
            next["spec"]["replicas"] = json!(wanted["spec"]["replicas"].as_i64().unwrap_or(0));
            let version = meta::resource_version(&wanted);
            if !version.is_empty() {
                meta::set_resource_version(&mut next, version);
            }
            apply::books_of_workload(&wanted, &mut next, &target.resource.api_version());
            Ok(next)
        };
        match self.change(&parent, &options, rescale).await? {
            Answer::Object(ObjectAnswer { entry, .. }) => {
                let value = scale::of(&in_version(target.resource, entry.parse()));
                Ok(Answer::Value { value, created: false })
            }
            other => Ok(other),
        }
    }

    /// POST to a kind that is answered and not stored: reviews and the deprecated `bindings`.
    pub(super) fn post_virtual(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let review =
            decode::object(Expected::of(target.resource, ""), body, options.field_validation, warnings)?;
        let value = crate::rest::review::answer(&self.authorizer, &request.user, target, review)?;
        Ok(Answer::Value { value, created: true })
    }
}

/// The pod after binding, or why it cannot be bound.
fn bound(target: &Target, pod: &Value, binding: &Value, now: &str) -> Result<Value, Status> {
    let conflict = |text: &str| Status::conflict(target.resource, &target.name, text);
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(error::binding_without_node(&target.name));
    }
    let uid = meta::uid(binding);
    if !uid.is_empty() && uid != meta::uid(pod) {
        return Err(error::uid_precondition(target, uid, meta::uid(pod)));
    }
    if meta::deletion_timestamp(pod).is_some() {
        return Err(conflict(&format!("pod {} is being deleted, cannot be assigned to a host", target.name)));
    }
    if let Some(assigned) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(conflict(&format!("pod {} is already assigned to node \"{assigned}\"", target.name)));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(conflict(&format!("pod {} has non-empty .spec.schedulingGates", target.name)));
    }
    let mut pod = pod.clone();
    pod["spec"]["nodeName"] = json!(node);
    for (key, value) in binding["metadata"]["annotations"].as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    set_scheduled(&mut pod, now);
    Ok(pod)
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition =
        json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    if let Some(status) = pod["status"].as_object_mut() {
        status.remove("nominatedNodeName");
    }
    match pod["status"]["conditions"].as_array_mut() {
        Some(conditions) => {
            conditions.retain(|c| c["type"] != "PodScheduled");
            conditions.push(condition);
        }
        None => pod["status"]["conditions"] = json!([condition]),
    }
}
