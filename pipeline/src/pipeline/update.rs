//! Update and patch. Patching, admission, defaults and validation run inside the guaranteed update, again for
//! every newer state.

use super::admit::WriteCalls;
use super::create::{check_namespace, name_mismatch};
use super::custom::TargetRules as _;
use super::definition::{self, is_definition};
use super::{Answer, ObjectAnswer, Pipeline, claim_status, signing, warnings};
use bytes::Bytes;
use jiff::Timestamp;
use kstore_admission::Subject;
use kstore_admission::dynamic::{Admitted, Calls, Options};
use kstore_api::admission::Operation;
use kstore_api::patch::{self, PatchError, PatchType};
use kstore_api::status::{Reason, Status};
use kstore_api::{meta, strategy, validate};
use kstore_registry::decode::{self, Expected, Patch};
use kstore_registry::error;
use kstore_registry::registry::{Decision, UpdateEffect, removed_by_update};
use kstore_registry::request::{Action, Body, FieldValidation, Request, Target, WriteOptions};
use kstore_registry::undecided::Undecided;
use serde_json::Value;

impl Pipeline {
    pub(super) async fn update(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let span = tracing::debug_span!("decode").entered();
        let expected = self.expected(Expected::at(target));
        let read = |warnings: &mut Vec<String>| {
            let mut object = decode::object(expected, body, options.field_validation, warnings)?;
            if target.subresource != "scale" {
                warnings.extend(warnings::duplicate_owners(&mut object, ""));
            }
            check_name_and_namespace(target, &mut object)?;
            Ok::<_, Status>(object)
        };
        let object = read(warnings)?;
        drop(span);
        if target.subresource == "scale" {
            return self.put_scale(request, &object, options, warnings).await;
        }
        if target.resource.create_on_update && target.subresource.is_empty() {
            return self.put(request, object, options, warnings).await;
        }
        // Few updates are repeated, so decoding again costs less than a copy for each.
        let mut decoded = Some(object);
        let next = |_: &Value| Ok(decoded.take().map_or_else(|| read(&mut Vec::new()), Ok)?);
        self.change(request, options, warnings, next).await
    }

    /// Replaces an object of a kind that PUT also creates. Starts over if the object is created or deleted
    /// concurrently.
    async fn put(
        &self,
        request: &Request,
        object: Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        loop {
            if !self.is_absent(request).await? {
                match self.change(request, options, warnings, |_| Ok(object.clone())).await {
                    Err(status) if status.reason == Reason::NotFound => continue,
                    changed => return changed,
                }
            }
            self.check(&request.user, "create", target, &target.name).await?;
            // A uid names an existing object, and there is none. A resourceVersion is ignored, as in
            // Kubernetes.
            if !meta::uid(&object).is_empty() {
                return Err(error::foreign_uid(target, meta::uid(&object), ""));
            }
            let mut object = object.clone();
            meta::set_resource_version(&mut object, "");
            match self.create_decoded(request, object, options, warnings).await {
                Err(status) if status.reason == Reason::AlreadyExists => {}
                created => return created,
            }
        }
    }

    pub(super) async fn patch(
        &self,
        request: &Request,
        kind: PatchType,
        patch: &Bytes,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        if kind == PatchType::Apply {
            return self.apply(request, patch, options, warnings).await;
        }
        let validation = options.field_validation;
        let patch = decode::patch(kind, patch, validation)?;
        if target.subresource == "scale" {
            return self.patch_scale(request, &patch, options, warnings).await;
        }
        let (mut dropped, mut object_warnings) = (Vec::new(), Vec::new());
        let change = |current: &Value| {
            dropped.clear();
            let mut next = apply_patch(target, &patch, current, &mut dropped)?;
            let again = || apply_patch(target, &patch, current, &mut Vec::new());
            decode::patched(target, self.initializes(), &patch, &mut next, again, validation, &mut dropped)?;
            dropped.extend(warnings::duplicate_owners(&mut next, " after mutating admission happens"));
            Ok(next)
        };
        let renewed = |current: &Value| self.renewed(&request.user, target, &patch, options, current);
        let patched = self
            .change_or(
                request,
                options,
                &mut object_warnings,
                &self.admission.calls(&request.user),
                renewed,
                change,
            )
            .await;
        warnings.extend(dropped);
        warnings.extend(object_warnings);
        patched
    }

    pub(super) async fn is_absent(&self, request: &Request) -> Result<bool, Status> {
        let target = &request.target;
        self.cache().fresh().await.map_err(error::of_read)?;
        Ok(self.view(request).get(target.resource, &target.key()).is_none())
    }

    /// Changes an existing object, or its subresource, to what `change` returns. Adds warnings about the new
    /// object if it is valid.
    pub(super) async fn change(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
        change: impl FnMut(&Value) -> Result<Value, Undecided> + Send,
    ) -> Result<Answer, Status> {
        self.change_or(request, options, warnings, &self.admission.calls(&request.user), |_| None, change)
            .await
    }

    /// Changes an existing object like [`Pipeline::change`]. If `known` returns a successor, stores it
    /// without admission and validation.
    pub(super) async fn change_or(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
        calls: &Calls,
        known: impl Fn(&Value) -> Option<Value> + Send + Sync,
        mut change: impl FnMut(&Value) -> Result<Value, Undecided> + Send,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let mut object_warnings = Vec::new();
        // One time for all attempts: an object whose managed fields have another time is another one, and would be converted again.
        let now = self.nondet.clock.now_seconds();
        let decide = |current: Option<&Value>| {
            object_warnings.clear();
            let current = current.ok_or_else(|| Status::not_found(target.resource, &target.name))?;
            if !calls.may_match(Operation::Update, target.resource)
                && let Some(next) = known(current)
            {
                return Ok(Decision::Put(next));
            }
            calls.begin(meta::resource_version(current));
            let requested_version;
            let old = match target.resource.is_same_version(target.resource.storage_row()) {
                true => current,
                false => {
                    let converted = target.in_version(current.clone());
                    requested_version = converted.map_err(|status| self.undecided(target, status))?;
                    &requested_version
                }
            };
            let next = change(old)?;
            let write = WriteCalls { options, calls };
            let admitted = self.admit_change(request, write, now, old, next, &mut object_warnings);
            let mut admitted = admitted.map_err(|undecided| self.awaiting(target, undecided))?;
            if let Decision::Put(next) = &mut admitted {
                patch::apply::keep_times(current, next);
            }
            Ok(admitted)
        };
        let updated = self
            .registry
            .guaranteed_update(target, self.write_context(request), options.dry_run, decide)
            .await;
        warnings.extend(calls.warnings());
        warnings.extend(object_warnings);
        let updated = updated?;
        if self.initializes() && !options.dry_run && updated.entry.is_uninitialized() {
            // Boxed because it is rare: otherwise the future of every write would be larger.
            Box::pin(self.remove_if_failed(request, &updated.entry)).await?;
        }
        Ok(Answer::Object(ObjectAnswer {
            entry: updated.entry,
            created: updated.effect == UpdateEffect::Created,
            removed: updated.effect == UpdateEffect::Removed,
        }))
    }

    /// Turns the wanted state of an object into the object to store.
    fn admit_change(
        &self,
        request: &Request,
        WriteCalls { options, calls }: WriteCalls<'_>,
        now: Timestamp,
        old: &Value,
        mut next: Value,
        object_warnings: &mut Vec<String>,
    ) -> Result<Decision, Undecided> {
        let target = &request.target;
        let resource = target.resource;
        check_identity(request, old, &mut next)?;
        check_version(target, old, &mut next)?;
        let admitted = Admitted {
            subject: Subject {
                user: &request.user,
                operation: Operation::Update,
                resource,
                subresource: target.subresource,
                namespace: &target.namespace,
                name: &target.name,
                seed: 0,
            },
            target,
            options: Options::Update(options),
            calls,
        };
        target.fill_defaults(&mut next);
        // Fields that admission changes are not attributed to the request's field manager.
        self.track(target, Some((old, target.subresource)), &mut next, options, now);
        self.admission(request).mutate(&admitted, &mut next, Some(old))?;
        let mut before = old.clone();
        // The stored object has the zero values that Kubernetes always prints; canonical form makes both
        // comparable.
        if target.custom.is_none() {
            let whole = self.expected(Expected::of(resource, ""));
            decode::canonical(whole, &mut before, FieldValidation::Ignore, &mut Vec::new())?;
        }
        if target.subresource.is_empty() {
            strategy::drop_optional(resource, &mut next, Some(&before), self.features());
        }
        strategy::prepare_update(resource, target.subresource, &mut next, &before);
        target.keep_metadata(&mut next, &before);
        strategy::date_update(resource, target.subresource, &mut next, &before, || now.to_string());
        self.registry.fill_families(target, &mut next, Some(&before))?;
        let span = tracing::debug_span!("validation").entered();
        let mut errors = claim_status::forbidden_changes(request, calls, &next, &before)?;
        errors.extend(target.validate_change(&next, &before, object_warnings));
        errors.extend(signing::validate_certificate(resource, &next, &before));
        errors.extend(signing::validate_trust_bundle(resource, &next, Some(&before)));
        errors.extend(signing::pod_certificate::validate_issued(resource, &next, &before, now));
        if !errors.is_empty() {
            return Err(Status::invalid(resource.group, resource.kind, &target.name, &errors).into());
        }
        drop(span);
        object_warnings.extend(update_warnings(target, &next, &before));
        self.admission(request).validate(&admitted, Some(&next), Some(old))?;
        if is_definition(resource) {
            self.grant_names(&mut next);
        }
        let removed = removed_by_update(resource, &next);
        target.make_stored(&mut next).map_err(|status| self.undecided(target, status))?;
        Ok(if removed { Decision::Remove(next) } else { Decision::Put(next) })
    }
}

/// Warnings about an updated object. A write to a subresource yields none about the rest of the object.
fn update_warnings(target: &Target, object: &Value, old: &Value) -> Vec<String> {
    match target.subresource {
        "" => {
            let mut object_warnings = validate::warnings(target.resource, object, Some(old));
            object_warnings.extend(definition::warnings(target.resource, object, Some(old)));
            object_warnings
        }
        _ => Vec::new(),
    }
}

/// Checks that the body has the name and namespace of the URL.
pub(super) fn check_name_and_namespace(target: &Target, object: &mut Value) -> Result<(), Status> {
    match meta::name(object) {
        "" => {
            let name = &target.name;
            return Err(Status::bad_request(format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            )));
        }
        name if name != target.name => return Err(name_mismatch(name, &target.name)),
        _ => {}
    }
    let (given, wanted) = (meta::namespace(object), target.namespace.as_str());
    if target.resource.namespaced && !given.is_empty() && given != wanted {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({given}) does not match the namespace on the request ({wanted})"
        )));
    }
    check_namespace(target, object)
}

/// Checks that the caller changes neither name, namespace nor uid.
fn check_identity(request: &Request, old: &Value, next: &mut Value) -> Result<(), Status> {
    let target = &request.target;
    check_name_and_namespace(target, next)?;
    let (wanted, uid) = (meta::uid(next), meta::uid(old));
    if wanted.is_empty() || wanted == uid {
        return Ok(());
    }
    // In an update or apply, the uid names the meant object; in another patch it is a change of an immutable
    // field.
    match request.action {
        Action::Patch(kind, ..) if kind != PatchType::Apply => {
            let problem = format!("Invalid value: {wanted:?}: field is immutable");
            Err(error::invalid_field(target, "metadata.uid", problem))
        }
        _ => Err(error::foreign_uid(target, wanted, uid)),
    }
}

/// Checks the resourceVersion of an update, if it has one, against the stored one. Some kinds require it.
fn check_version(target: &Target, old: &Value, next: &mut Value) -> Result<(), Status> {
    let (wanted, current) = (meta::resource_version(next), meta::resource_version(old));
    if wanted == current {
        return Ok(());
    }
    if wanted.is_empty() || wanted == "0" {
        if !target.resource.unconditional_update {
            return Err(error::version_required(target));
        }
    } else if wanted.parse::<u64>().is_err() {
        return Err(Status::bad_request(format!(
            "invalid resourceVersion {wanted:?}: must be a decimal number"
        )));
    } else {
        return Err(error::modified(target));
    }
    meta::set_resource_version(next, current);
    Ok(())
}

/// Applies a patch to an object. If it does not fit and the refusal does not say why, the reason is a
/// warning.
pub(super) fn apply_patch(
    target: &Target,
    patch: &Patch,
    current: &Value,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let resource = target.resource;
    let patched = match patch.kind {
        PatchType::Json => patch::json::apply(current, &patch.value),
        PatchType::Merge => patch::merge::apply(current, &patch.value),
        PatchType::Strategic => {
            let expected = Expected::of(resource, target.subresource);
            let ty = expected.built_in.ok_or_else(|| {
                let types = [PatchType::Json, PatchType::Merge, PatchType::Apply].map(PatchType::media_type);
                Status::unsupported_media_type(&types)
            })?;
            patch::strategic::apply(current, &patch.value, ty)
        }
        PatchType::Apply => unreachable!("server-side apply does not come this way"),
    };
    if let (None, Err(PatchError::Unprocessable(why))) = (&target.custom, &patched) {
        warnings.push(why.clone());
    }
    patched.map_err(|e| error::of_patch(&e))
}
