//! Create: decodes an object, runs admission, defaults and validation, and stores it under its own or a
//! generated name.

use super::admit::WriteCalls;
use super::custom::{TargetRules as _, check_creatable};
use super::definition::{self, is_definition};
use super::{Answer, ObjectAnswer, Pipeline, signing, warnings};
use jiff::Timestamp;
use kstore_admission::Subject;
use kstore_admission::dynamic::{Admitted, Calls, Options};
use kstore_api::admission::{Operation, manifests};
use kstore_api::status::{Reason, Status};
use kstore_api::strategy::SharedLabels;
use kstore_api::{meta, strategy, validate};
use kstore_nondet::Nondet;
use kstore_registry::decode::{self, Expected};
use kstore_registry::entry::Entry;
use kstore_registry::kinds::CustomVersion;
use kstore_registry::request::{Body, Request, Target, WriteOptions};
use kstore_registry::undecided::{Undecided, decided};
use kstore_storage::limits;
use serde_json::{Value, json};

/// Decodes the body of a create once more.
type Again<'a> = &'a (dyn Fn() -> Result<Value, Status> + Sync);

impl Pipeline {
    pub(super) async fn create(
        &self,
        request: &Request,
        body: &Body,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let resource = request.target.resource;
        if !resource.is_stored() {
            return self.post_virtual(request, body, options, warnings).await;
        }
        let decode = |warnings: &mut Vec<String>| {
            let expected = self.expected(Expected::at(&request.target));
            let mut object = decode::object(expected, body, options.field_validation, warnings)?;
            warnings.extend(warnings::duplicate_owners(&mut object, ""));
            Ok(object)
        };
        let span = tracing::debug_span!("decode").entered();
        let object = decode(warnings)?;
        drop(span);
        // The warnings are known.
        let again = || decode(&mut Vec::new());
        self.create_from(request, object, Some(&again), options, warnings).await
    }

    /// Creates a decoded object and collects warnings about it.
    pub(super) async fn create_decoded(
        &self,
        request: &Request,
        object: Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        self.create_from(request, object, None, options, warnings).await
    }

    async fn create_from(
        &self,
        request: &Request,
        object: Value,
        again: Option<Again<'_>>,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let mut object_warnings = Vec::new();
        let calls = self.admission.calls(&request.user);
        let created = self.create_object(request, object, again, options, &calls, &mut object_warnings).await;
        warnings.extend(calls.warnings());
        warnings.extend(object_warnings);
        created
    }

    /// Creates a decoded object; draws another name if a generated one is taken.
    async fn create_object(
        &self,
        request: &Request,
        mut object: Value,
        again: Option<Again<'_>>,
        options: &WriteOptions,
        calls: &Calls,
        object_warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let mut target = request.target.clone();
        let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
        let mut attempts = if generated { limits::GENERATE_NAME_ATTEMPTS } else { 1 };
        let version = meta::resource_version(&object).to_owned();
        check_and_reset(&mut target, &mut object)?;
        let required = if options.dry_run { Vec::new() } else { self.required(request, &target) };
        if !required.is_empty() {
            self.create_required(request, &target, required).await?;
        }
        loop {
            attempts -= 1;
            let identity = Identity::generate(&self.nondet);
            // The object is copied if it may be needed again: after the answer of a webhook, or for another name. Names are hardly ever
            // taken, so for another one the body is decoded again.
            let waits = calls.may_match(Operation::Create, target.resource)
                || target.custom.as_ref().is_some_and(CustomVersion::needs_webhook);
            let is_last = !waits && (attempts == 0 || again.is_some());
            let mut last = if is_last { Some(std::mem::take(&mut object)) } else { None };
            let (target, decided_object) = decided(|| {
                // An object with another name is another object: webhooks are called again.
                calls.begin(&identity.uid);
                let mut object = last.take().unwrap_or_else(|| object.clone());
                let write = WriteCalls { options, calls };
                let admitted =
                    self.admit_new(request, &target, &mut object, write, &identity, object_warnings);
                let target = admitted.map_err(|undecided| self.awaiting(&target, undecided))?;
                Ok((target, object))
            })
            .await?;
            if !options.dry_run {
                check_version(&version)?;
            }
            let context = self.write_context(request);
            match self.registry.create(&target, decided_object, context, options.dry_run).await {
                Ok(entry) if options.dry_run => return unstored_answer(&target, &entry, &version),
                Ok(entry) => {
                    return Ok(Answer::Object(ObjectAnswer { created: true, ..ObjectAnswer::of(entry) }));
                }
                Err(status) if status.reason == Reason::AlreadyExists && attempts > 0 => {
                    if let Some(again) = again.filter(|_| is_last) {
                        object = again()?;
                        check_and_reset(&mut request.target.clone(), &mut object)?;
                    }
                }
                Err(status) if status.reason == Reason::AlreadyExists && generated => {
                    return Err(Status::generated_name_taken(target.resource, &target.name));
                }
                Err(status) => return Err(status),
            }
        }
    }

    /// Turns a decoded object into the object to store: admission, system metadata, defaults, validation.
    /// `target` is the request's target, with the name that the object has so far. Returns the target with
    /// the final name.
    fn admit_new(
        &self,
        request: &Request,
        target: &Target,
        object: &mut Value,
        WriteCalls { options, calls }: WriteCalls<'_>,
        identity: &Identity,
        object_warnings: &mut Vec<String>,
    ) -> Result<Target, Undecided> {
        let mut target = target.clone();
        let resource = target.resource;
        check_creatable(&target, shown_name(object))?;
        let labels = SharedLabels::before_defaults(resource, object);
        target.fill_defaults(object);
        // Fields that admission changes are not attributed to the request's field manager.
        self.track(&target, None, object, options, identity.now);
        let admission = self.admission(request);
        let name = target.name.clone();
        let admitted = Admitted {
            subject: Subject {
                user: &request.user,
                operation: Operation::Create,
                resource,
                subresource: "",
                namespace: &target.namespace,
                name: &name,
                seed: identity.seed,
            },
            target: &request.target,
            options: Options::Create(options),
            calls,
        };
        admission.mutate(&admitted, object, None)?;
        identity.fill(object);
        meta::name(object).clone_into(&mut target.name);
        target.fill_defaults(object);
        strategy::drop_optional(resource, object, None, self.features());
        strategy::prepare_create(resource, object);
        labels.after_preparation(object);
        meta::name(object).clone_into(&mut target.name);
        self.registry.fill_families(&target, object, None)?;
        let span = tracing::debug_span!("validation").entered();
        let mut errors = signing::validate_request(resource, object);
        errors.extend(signing::validate_trust_bundle(resource, object, None));
        errors.extend(signing::pod_certificate::validate_request(resource, object));
        errors.extend(target.validate_new(object));
        errors.extend(manifests::refuse_name(resource, object, self.features()));
        if !errors.is_empty() {
            return Err(Status::invalid(resource.group, resource.kind, &target.name, &errors).into());
        }
        drop(span);
        *object_warnings = validate::warnings(resource, object, None);
        object_warnings.extend(definition::warnings(resource, object, None));
        object_warnings.extend(manifests::warn_of_name(resource, object, self.features()));
        let subject = Subject { name: &target.name, ..admitted.subject };
        admission.validate(&Admitted { subject, ..admitted }, Some(object), None)?;
        if is_definition(resource) {
            self.grant_names(object);
        }
        target.make_stored(object).map_err(|status| self.undecided(&target, status))?;
        Ok(target)
    }
}

/// The metadata that the server gives a new object. Drawn once, so that a repeated decision sees the same
/// object.
struct Identity {
    suffix: String,
    /// Seed of the names that admission plugins generate.
    seed: u64,
    uid: String,
    now: Timestamp,
}

impl Identity {
    fn generate(nondet: &Nondet) -> Self {
        let suffix = nondet.rng.name_suffix(5);
        let seed = nondet.rng.next_u64();
        Self { suffix, seed, uid: nondet.rng.uuid(), now: nondet.clock.now_seconds() }
    }

    /// Sets the generated name (if the object has none), the uid and the creation time.
    fn fill(&self, object: &mut Value) {
        let generate = meta::generate_name(object);
        if meta::name(object).is_empty() && !generate.is_empty() {
            let name = meta::generated_name(generate, &self.suffix);
            meta::set_name(object, &name);
        }
        meta::wipe_system_fields(object);
        meta::fill_system_fields(object, &self.uid, self.now);
    }
}

/// Checks namespace and name of the object against the URL, and copies the object's name into the target.
fn check_and_reset(target: &mut Target, object: &mut Value) -> Result<(), Status> {
    check_namespace(target, object)?;
    if !target.name.is_empty() && meta::name(object) != target.name {
        return Err(name_mismatch(meta::name(object), &target.name));
    }
    meta::name(object).clone_into(&mut target.name);
    meta::wipe_system_fields(object);
    Ok(())
}

/// The name that refusals show: the object's name or, before it is generated, its `generateName`.
fn shown_name(object: &Value) -> &str {
    match meta::name(object) {
        "" => meta::generate_name(object),
        name => name,
    }
}

/// Refuses a resourceVersion in a new object, as Kubernetes' storage does: after validation and before it
/// checks whether the name is taken. Dry runs do not reach this check. `0` and values that are not numbers
/// are ignored.
fn check_version(named: &str) -> Result<(), Status> {
    match named.parse::<u64>() {
        Err(_) | Ok(0) => Ok(()),
        Ok(_) => Err(Status::unclassified("resourceVersion should not be set on objects to be created")),
    }
}

/// The answer to a dry-run create. No write gave the object a resourceVersion, so it keeps the one that its
/// client sent.
pub(super) fn unstored_answer(target: &Target, entry: &Entry, sent_version: &str) -> Result<Answer, Status> {
    let mut value = target.in_version(entry.parse())?;
    meta::set_resource_version(&mut value, sent_version);
    Ok(Answer::Value { value, created: true })
}

/// Checks that the object's namespace is the URL's, and sets it. Removes the namespace of a cluster-scoped
/// object.
pub(super) fn check_namespace(target: &Target, object: &mut Value) -> Result<(), Status> {
    if !target.resource.namespaced {
        if let Some(meta) = object["metadata"].as_object_mut() {
            meta.remove("namespace");
        }
        return Ok(());
    }
    let given = meta::namespace(object).to_owned();
    if target.namespace.is_empty() {
        let message = "an empty namespace may not be set during creation";
        return Err(Status::bad_request(message));
    }
    if !given.is_empty() && given != target.namespace {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["metadata"]["namespace"] = json!(target.namespace);
    Ok(())
}

/// 400: the body names another object than the URL.
pub(super) fn name_mismatch(body: &str, url: &str) -> Status {
    Status::bad_request(format!("the name of the object ({body}) does not match the name on the URL ({url})"))
}
