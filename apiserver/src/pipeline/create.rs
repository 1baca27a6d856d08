//! Create, as the pipeline tells it.

use super::custom::check_creatable;
use super::definition::{self, is_definition};
use super::{Answer, ObjectAnswer, Pipeline, signing, warnings};
use crate::admission::{Operation, Subject};
use crate::cache::Entry;
use crate::decode::{self, Expected};
use crate::limits;
use crate::request::{Body, Request, Target, WriteOptions};
use kstore_api::status::{Reason, Status};
use kstore_api::{meta, strategy, validate};
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
        let created = self.create_object(request, object, options).await;
        warnings.extend(unless_invalid(odd, &created));
        created
    }

    /// Creates a decoded object, drawing new names while generated ones collide.
    async fn create_object(
        &self,
        request: &Request,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let generated = meta::name(&object).is_empty() && !meta::generate_name(&object).is_empty();
        let mut attempts = if generated { limits::GENERATE_NAME_ATTEMPTS } else { 1 };
        let version = meta::resource_version(&object).to_owned();
        loop {
            attempts -= 1;
            // The last attempt needs no copy to begin anew with.
            let mut object = if attempts > 0 { object.clone() } else { std::mem::take(&mut object) };
            let target = self.admit_new(request, &mut object, options)?;
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

    /// From what the caller sent to what may be stored: system metadata, admission, defaults, validation.
    pub(super) fn admit_new(
        &self,
        request: &Request,
        object: &mut Value,
        options: &WriteOptions,
    ) -> Result<Target, Status> {
        let mut target = request.target.clone();
        let resource = target.resource;
        self.begin(&mut target, object)?;
        check_creatable(&target, &target.name)?;
        let subject = Subject {
            user: &request.user,
            operation: Operation::Create,
            resource,
            subresource: "",
            namespace: &target.namespace,
            name: &target.name,
        };
        target.fill_defaults(object);
        // What others make of the object is not its author's.
        self.track(&target, None, object, options);
        self.admission(request).mutate(&subject, object, None)?;
        target.fill_defaults(object);
        strategy::prepare_create(resource, object);
        self.registry.settle_families(&target, object, None)?;
        let span = tracing::debug_span!("validation").entered();
        let mut errors = signing::request(resource, object);
        errors.extend(target.faults_of_new(object));
        if !errors.is_empty() {
            return Err(Status::invalid(resource.group, resource.kind, &target.name, &errors));
        }
        drop(span);
        self.admission(request).validate(&subject, Some(object), None)?;
        if is_definition(resource) {
            self.grant_names(object);
        }
        target.make_stored(object)?;
        Ok(target)
    }

    /// Name, namespace and what only the server sets.
    fn begin(&self, target: &mut Target, object: &mut Value) -> Result<(), Status> {
        check_namespace(target, object)?;
        let generate = meta::generate_name(object).to_owned();
        if meta::name(object).is_empty() && !generate.is_empty() {
            meta::set_name(object, &meta::generated_name(&generate, &self.nondet.rng.name_suffix(5)));
        }
        if !target.name.is_empty() && meta::name(object) != target.name {
            return Err(name_mismatch(meta::name(object), &target.name));
        }
        meta::name(object).clone_into(&mut target.name);
        meta::wipe_system_fields(object);
        meta::fill_system_fields(object, &self.nondet.rng.uuid(), self.nondet.clock.now_seconds());
        Ok(())
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
