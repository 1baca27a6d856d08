//! Subresources other than status: scale, binding, eviction, token; and POST to kinds that are answered and
//! not stored. Subresources that a kind's table row lists but nothing serves yet answer 501 with the reason.

use super::admit::WriteCalls;
use super::custom::TargetRules as _;
use super::update::apply_patch;
use super::{Answer, ObjectAnswer, Pipeline};
use kstore_api::field::{ErrorList, Path};
use kstore_api::patch::apply;
use kstore_api::status::Status;
use kstore_api::version::Minor;
use kstore_api::{kind, meta, name};
use kstore_registry::decode::{self, Expected, Patch};
use kstore_registry::entry::Entry;
use kstore_registry::error;
use kstore_registry::registry::Decision;
use kstore_registry::request::{Body, FieldValidation, ManagedFieldsUpdate, Request, Target, WriteOptions};
use serde_json::{Value, json};

impl Pipeline {
    /// GET of a subresource other than status.
    pub(super) fn get_subresource(&self, request: &Request, entry: &Entry) -> Result<Answer, Status> {
        let target = &request.target;
        match target.subresource {
            "scale" => Ok(Answer::Value { value: target.scale_of(entry.parse())?, created: false }),
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
                let binding = self.admit_posted(request, binding, options, warnings).await?;
                self.bind(request, &binding, options).await
            }
            "eviction" => self.evict(request, body, options, warnings).await,
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
        check_binding(target, binding)?;
        let decide = |pod: Option<&Value>| {
            let pod = pod.ok_or_else(|| Status::not_found(target.resource, &target.name))?;
            Ok(Decision::Put(bound(target, pod, binding, &now)?))
        };
        let bound = self
            .registry
            .guaranteed_update(target, self.write_context(request), options.dry_run, decide)
            .await?;
        let mut status = Status::success(201);
        status.message = String::new();
        Ok(Answer::Status { status, revision: bound.entry.revision })
    }

    /// POST to `bindings`: binds the pod that has the binding's name.
    async fn bind_named(
        &self,
        request: &Request,
        mut binding: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        super::create::check_namespace(&request.target, &mut binding)?;
        let name = meta::name(&binding).to_owned();
        if name.is_empty() {
            return Err(error::invalid_binding(
                "",
                "metadata.name",
                "Required value: name or generateName is required",
            ));
        }
        let pods = kind::lookup("", "v1", "pods").expect("pods are in the table");
        let target = Target { resource: pods, name, ..request.target.clone() };
        let request = Request { target, ..request.clone() };
        self.bind(&request, &binding, options).await
    }

    /// Replaces the scale of a workload.
    pub(super) async fn put_scale(
        &self,
        request: &Request,
        wanted: &Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        self.change_scale(request, options, warnings, |scale| {
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
        let (mut dropped, mut object_warnings) = (Vec::new(), Vec::new());
        let change = |scale: &Value| {
            dropped.clear();
            let mut wanted = apply_patch(target, patch, scale, &mut dropped)?;
            let again = || apply_patch(target, patch, scale, &mut Vec::new());
            decode::patched(
                target,
                false,
                patch,
                &mut wanted,
                again,
                options.field_validation,
                &mut dropped,
            )?;
            self.track_scale(request, options, scale, &mut wanted)?;
            Ok(wanted)
        };
        let patched = self.change_scale(request, options, &mut object_warnings, change).await;
        warnings.extend(dropped);
        warnings.extend(object_warnings);
        patched
    }

    /// Changes the scale of a workload to the Scale that `change` returns, including its managed fields.
    pub(super) async fn change_scale(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
        mut change: impl FnMut(&Value) -> Result<Value, Status> + Send,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        // The scale is part of the workload's spec: the write is a write of the workload.
        let parent = Request { target: Target { subresource: "", ..target.clone() }, ..request.clone() };
        let requested = options;
        let options = WriteOptions { managed_fields: ManagedFieldsUpdate::Kept, ..options.clone() };
        let calls = self.admission.calls(&request.user);
        let rescale = |workload: &Value| {
            let (mut scale, path) = (target.scale_to_change(workload)?, target.replicas_path());
            apply::managed_fields_of_scale(workload, &path, &mut scale);
            let mut wanted = change(&scale)?;
            self.admit_scale(request, WriteCalls { options: requested, calls: &calls }, &mut wanted, &scale)?;
            let (uid, own) = (meta::uid(&wanted), meta::uid(workload));
            if !uid.is_empty() && uid != own {
                return Err(error::foreign_uid(target, uid, own).into());
            }
            let mut next = workload.clone();
            if target.custom.is_none() {
                // Without the zero values of the stored object, as every decoded object: the strategies and rules of an
                // update compare canonical forms.
                let whole = self.expected(Expected::of(target.resource, ""));
                decode::canonical(whole, &mut next, FieldValidation::Ignore, &mut Vec::new())?;
            }
            target.rescale(&wanted, &mut next)?;
            let version = meta::resource_version(&wanted);
            if !version.is_empty() {
                meta::set_resource_version(&mut next, version);
            }
            let api_version = target.resource.api_version();
            apply::managed_fields_of_workload(&wanted, &mut next, &path, &api_version);
            Ok(next)
        };
        let scaled = self.change_or(&parent, &options, warnings, &calls.none(), |_| None, rescale).await;
        warnings.extend(calls.warnings());
        match scaled? {
            Answer::Object(ObjectAnswer { entry, .. }) => {
                let value = target.scale_of(entry.parse())?;
                Ok(Answer::Value { value, created: false })
            }
            other => Ok(other),
        }
    }

    /// POST to a kind that is answered and not stored: reviews and the deprecated `bindings`.
    pub(super) async fn post_virtual(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let mut review =
            decode::object(Expected::of(target.resource, ""), body, options.field_validation, warnings)?;
        if !target.resource.is("", "bindings") {
            // The answer shows the managed fields, although nothing is stored.
            meta::metadata_mut(&mut review);
            self.track(target, None, &mut review, options, self.nondet.clock.now_seconds());
        }
        let review = self.admit_posted(request, review, options, warnings).await?;
        match target.resource.plural {
            "bindings" => self.bind_named(request, review, options).await,
            "tokenreviews" => self.review_token(review).await,
            _ => {
                let now = self.nondet.clock.now_seconds();
                let value =
                    super::review::answer(&self.authorizer, &request.user, target, review, now).await?;
                Ok(Answer::Value { value, created: true })
            }
        }
    }
}

/// Checks a Binding without its pod.
fn check_binding(target: &Target, binding: &Value) -> Result<(), Status> {
    let name = meta::name(binding);
    if !name.is_empty() && name != target.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    let mut errors = ErrorList::new();
    let path = Path::new("target");
    match binding["target"]["kind"].as_str() {
        None | Some("" | "Node") => {}
        Some(kind) => errors.not_supported_as_listed(&path.child("kind"), kind, &["Node", "<empty>"]),
    }
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    if node.is_empty() {
        errors.required(&path.child("name"), "");
    } else if target.resource.minor >= Minor::V37 {
        for fault in name::dns1123_subdomain(node) {
            errors.invalid(&path.child("name"), node, fault);
        }
    }
    // kube-apiserver gives these errors no class of their own.
    if errors.is_empty() { Ok(()) } else { Err(Status::unclassified(errors.aggregate())) }
}

/// The pod after binding, or why it cannot be bound.
fn bound(target: &Target, pod: &Value, binding: &Value, now: &str) -> Result<Value, Status> {
    let conflict = |text: &str| Status::conflict(("", "pods/binding"), &target.name, text);
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    let uid = meta::uid(binding);
    if !uid.is_empty() && uid != meta::uid(pod) {
        return Err(error::foreign_uid(target, uid, meta::uid(pod)));
    }
    let version = meta::resource_version(binding);
    if !version.is_empty() && version != "0" && version != meta::resource_version(pod) {
        return Err(error::foreign_version(target, version, meta::resource_version(pod)));
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
    // The binding's labels (the node's topology) are added, but do not override the pod's own.
    for (key, value) in binding["metadata"]["labels"].as_object().into_iter().flatten() {
        if meta::label(&pod, key).is_none() {
            pod["metadata"]["labels"][key] = value.clone();
        }
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
    super::eviction::set_condition(&mut pod["status"], condition);
}
