//! Create, as the pipeline tells it.

use super::custom::check_creatable;
use super::definition::{self, is_definition};
use super::{Answer, ObjectAnswer, Pipeline, signing, warnings};
use crate::admission::dynamic::{Admitted, Calls, Options};
use crate::admission::{Operation, Subject};
use crate::cache::Entry;
use crate::decode::{self, Expected};
use crate::kinds::CustomVersion;
use crate::limits;
use crate::request::{Body, Request, Target, WriteOptions};
use crate::undecided::{Undecided, decided};
use jiff::Timestamp;
use kstore_api::status::{Reason, Status};
use kstore_api::{meta, strategy, validate};
use kstore_nondet::Nondet;
use serde_json::{Value, json};

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
        let span = tracing::debug_span!("decode").entered();
        let mut object =
            decode::object(Expected::at(&request.target), body, options.field_validation, warnings)?;
        drop(span);
        warnings.extend(warnings::same_owners(&mut object, ""));
        self.create_known(request, object, options, warnings).await
    }

    /// Creates a decoded object, and says what is odd about it.
    pub(super) async fn create_known(
        &self,
        request: &Request,
        object: Value,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let mut odd = validate::warnings(request.target.resource, &object, None);
        odd.extend(definition::warnings(request.target.resource, &object, None));
        let calls = self.admission.calls(&request.user);
        let created = self.create_object(request, object, options, &calls).await;
        warnings.extend(calls.warnings());
        warnings.extend(unless_invalid(odd, &created));
        created
    }

    /// Creates a decoded object, drawing new names while generated ones collide.
    async fn create_object(
        &self,
        request: &Request,
        mut object: Value,
        options: &WriteOptions,
        calls: &Calls,
    ) -> Result<Answer, Status> {
        let mut target = request.target.clone();
        let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
        let mut attempts = if generated { limits::GENERATE_NAME_ATTEMPTS } else { 1 };
        let version = meta::resource_version(&object).to_owned();
        begin(&mut target, &mut object)?;
        loop {
            attempts -= 1;
            let identity = Identity::drawn(&self.nondet);
            // What may be needed again is copied: for another name, or when an answer of a webhook has come.
            let waits = calls.may_match(Operation::Create, target.resource.plural)
                || target.custom.as_ref().is_some_and(CustomVersion::needs_webhook);
            let is_last = attempts == 0 && !waits;
            let mut last = if is_last { Some(std::mem::take(&mut object)) } else { None };
            let (target, object) = decided(|| {
                // Another name is another object: webhooks are asked again.
                calls.begin(&identity.uid);
                let mut object = last.take().unwrap_or_else(|| object.clone());
                let target = self.admit_new(request, &target, &mut object, (options, &identity, calls))?;
                Ok((target, object))
            })
            .await?;
            if !options.dry_run {
                check_version(&version)?;
            }
            let mandate = self.mandate(request);
            match self.registry.create(&target, object, mandate, options.dry_run).await {
                Ok(entry) if options.dry_run => return unstored(&target, &entry, &version),
                Ok(entry) => {
                    return Ok(Answer::Object(ObjectAnswer { created: true, ..ObjectAnswer::of(entry) }));
                }
                Err(status) if status.reason == Reason::AlreadyExists && attempts > 0 => {}
                Err(status) if status.reason == Reason::AlreadyExists && generated => {
                    return Err(Status::generated_name_taken(target.resource, &target.name));
                }
                Err(status) => return Err(status),
            }
        }
    }

    /// From what the caller sent to what may be stored: admission, system metadata, defaults, validation. `target` is the request's,
    /// with the name that the object has so far.
    fn admit_new(
        &self,
        request: &Request,
        target: &Target,
        object: &mut Value,
        (options, identity, calls): (&WriteOptions, &Identity, &Calls),
    ) -> Result<Target, Undecided> {
        let mut target = target.clone();
        let resource = target.resource;
        check_creatable(&target, shown_name(object))?;
        target.fill_defaults(object);
        // Fields that admission changes are not attributed to the request's field manager.
        self.track(&target, None, object, options);
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
        strategy::prepare_create(resource, object);
        self.registry.settle_families(&target, object, None)?;
        let span = tracing::debug_span!("validation").entered();
        let mut errors = signing::request(resource, object);
        errors.extend(target.faults_of_new(object));
        if !errors.is_empty() {
            return Err(Status::invalid(resource.group, resource.kind, &target.name, &errors).into());
        }
        drop(span);
        let subject = Subject { name: &target.name, ..admitted.subject };
        admission.validate(&Admitted { subject, ..admitted }, Some(object), None)?;
        if is_definition(resource) {
            self.grant_names(object);
        }
        target.make_stored(object).map_err(|status| self.undecided(&target, status))?;
        Ok(target)
    }
}

/// What only the server sets of a new object. Drawn once, so that a decision that is made again sees the same object.
struct Identity {
    suffix: String,
    /// Of the names that admission gives.
    seed: u64,
    uid: String,
    now: Timestamp,
}

impl Identity {
    fn drawn(nondet: &Nondet) -> Self {
        let suffix = nondet.rng.name_suffix(5);
        let seed = nondet.rng.next_u64();
        Self { suffix, seed, uid: nondet.rng.uuid(), now: nondet.clock.now_seconds() }
    }

    /// Gives the object its name, if it is to be generated, its uid and its time of creation.
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

/// Checks namespace and name against the URL, and takes the name over into the target.
fn begin(target: &mut Target, object: &mut Value) -> Result<(), Status> {
    check_namespace(target, object)?;
    if !target.name.is_empty() && meta::name(object) != target.name {
        return Err(name_mismatch(meta::name(object), &target.name));
    }
    meta::name(object).clone_into(&mut target.name);
    meta::wipe_system_fields(object);
    Ok(())
}

/// The name that refusals show: while it is not generated, what it will begin with.
fn shown_name(object: &Value) -> &str {
    match meta::name(object) {
        "" => meta::generate_name(object),
        name => name,
    }
}

/// A stored object gets its resourceVersion from its write. Kubernetes' storage refuses one that the client names, after validation
/// and before it looks for the name; a dry run never comes there. `0` and what is no number it ignores.
fn check_version(named: &str) -> Result<(), Status> {
    match named.parse::<u64>() {
        Err(_) | Ok(0) => Ok(()),
        Ok(_) => Err(Status::unclassified("resourceVersion should not be set on objects to be created")),
    }
}

/// The answer to a create that was only tried: no write gave the object a resourceVersion, so it has the one that its client sent.
pub(super) fn unstored(target: &Target, entry: &Entry, sent_version: &str) -> Result<Answer, Status> {
    let mut value = target.in_version(entry.parse())?;
    meta::set_resource_version(&mut value, sent_version);
    Ok(Answer::Value { value, created: true })
}

/// The object's namespace is the URL's; cluster-scoped objects have none.
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

/// What is odd about an object is said of a valid one; of another one only what is wrong.
fn unless_invalid<T>(odd: Vec<String>, outcome: &Result<T, Status>) -> Vec<String> {
    match outcome {
        Err(status) if status.reason == Reason::Invalid => Vec::new(),
        _ => odd,
    }
}

/// 400: the body is about another object than the URL.
pub(super) fn name_mismatch(body: &str, url: &str) -> Status {
    Status::bad_request(format!("the name of the object ({body}) does not match the name on the URL ({url})"))
}
