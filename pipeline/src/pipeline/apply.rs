//! Server-side apply, and the tracking of managed fields for all other writes. The rules are in
//! `kstore_api::patch::apply`.

use super::create::{check_namespace, name_mismatch};
use super::custom::TargetRules as _;
use super::{Answer, Pipeline};
use bytes::Bytes;
use jiff::Timestamp;
use kstore_api::patch::apply::{self, Write};
use kstore_api::resource::{Reset, Resource};
use kstore_api::status::{Reason, Status};
use kstore_api::{initializers, meta};
use kstore_registry::decode::{self, Configuration, Expected};
use kstore_registry::request::{FieldValidation, ManagedFieldsUpdate, Request, Target, WriteOptions};
use serde_json::Value;

/// Attempts of an apply whose object is created or deleted concurrently.
const ATTEMPTS: usize = 5;

impl Pipeline {
    pub(super) async fn apply(
        &self,
        request: &Request,
        patch: &Bytes,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let config = configuration(target, patch, options.field_validation)?;
        let options = WriteOptions { managed_fields: ManagedFieldsUpdate::Kept, ..options.clone() };
        let mut repeated = &[][..];
        let mut object_warnings = Vec::new();
        let applied = |live: Option<&Value>| {
            let next = self.merge_configuration(target, &config.value, &options, live)?;
            repeated = config.repeated_keys(options.field_validation)?;
            Ok(next)
        };
        let outcome = match target.subresource {
            "scale" => {
                let mut applied = applied;
                let change = |scale: &Value| {
                    let next = applied(Some(scale))?;
                    if target.custom.is_some() { Err(unconvertible_scale(target)) } else { Ok(next) }
                };
                self.change_scale(request, &options, &mut object_warnings, change).await
            }
            _ => self.create_or_change(request, &options, &mut object_warnings, applied).await,
        };
        warnings.extend_from_slice(repeated);
        warnings.extend(object_warnings);
        outcome
    }

    /// Creates the object if it is absent, otherwise changes it. Starts over if the object is created or
    /// deleted concurrently.
    async fn create_or_change(
        &self,
        request: &Request,
        options: &WriteOptions,
        warnings: &mut Vec<String>,
        mut applied: impl FnMut(Option<&Value>) -> Result<Value, Status> + Send,
    ) -> Result<Answer, Status> {
        let target = &request.target;
        let mut last = Status::internal("an apply takes at least one attempt");
        for _ in 0..ATTEMPTS {
            let outcome = if target.subresource.is_empty() && self.is_absent(request).await? {
                self.check(&request.user, "create", target, &target.name).await?;
                self.create_decoded(request, created(target, applied(None)?)?, options, warnings).await
            } else {
                self.change(request, options, warnings, |live| Ok(applied(Some(live))?)).await
            };
            match outcome {
                Err(status) if matches!(status.reason, Reason::AlreadyExists | Reason::NotFound) => {
                    last = status;
                }
                outcome => return outcome,
            }
        }
        Err(last)
    }

    /// The object that a configuration results in, in canonical form, with its managed fields.
    fn merge_configuration(
        &self,
        target: &Target,
        config: &Value,
        options: &WriteOptions,
        live: Option<&Value>,
    ) -> Result<Value, Status> {
        let expected = Expected::at(target);
        let (api_version, now) = (expected.api_version(), meta::format_time(self.nondet.clock.now()));
        let write = write(target.resource, target.subresource, &api_version, &now, options);
        let merged = apply::apply(live, config, &write, options.force, target.object_type()?);
        let mut merged = merged.map_err(|refused| refused.to_status(target.resource, &target.name))?;
        decode::applied(expected, &mut merged)?;
        // A configuration cannot name the initializers: the schema by which it is merged does not have them.
        if let Some(live) = live.filter(|_| self.initializes()) {
            initializers::carry(&mut merged, live);
        }
        Ok(merged)
    }

    /// Updates the managed fields after a write that is not an apply. `before` is the stored object and the
    /// subresource that was written.
    pub(super) fn track(
        &self,
        target: &Target,
        before: Option<(&Value, &str)>,
        object: &mut Value,
        options: &WriteOptions,
        now: Timestamp,
    ) {
        match options.managed_fields {
            ManagedFieldsUpdate::Tracked => {}
            ManagedFieldsUpdate::Kept => return,
            ManagedFieldsUpdate::Dropped => return apply::remove_managed_fields(object),
        }
        let resource = target.resource;
        let whole = Target { subresource: "", ..target.clone() };
        let Ok(ty) = whole.object_type() else { return };
        let subresource = before.map_or("", |(_, subresource)| subresource);
        let (api_version, now) = (resource.api_version(), meta::format_time(now));
        let write = write(resource, subresource, &api_version, &now, options);
        match before {
            None if target.custom.is_none() && apply::states_no_managed_fields(object) => {
                self.created_fields.track(resource, object, &write, ty);
            }
            _ => apply::track_update(before.map(|(live, _)| live), object, &write, ty),
        }
    }

    /// Updates the managed fields of a workload's Scale.
    pub(super) fn track_scale(
        &self,
        request: &Request,
        options: &WriteOptions,
        scale: &Value,
        wanted: &mut Value,
    ) -> Result<(), Status> {
        let target = Target { subresource: "scale", ..request.target.clone() };
        let resource = target.resource;
        let expected = Expected::of(resource, "scale");
        let (api_version, now) = (expected.api_version(), meta::format_time(self.nondet.clock.now()));
        let write = write(resource, "scale", &api_version, &now, options);
        apply::track_update(Some(scale), wanted, &write, target.object_type()?);
        Ok(())
    }
}

/// 500: kube-apiserver cannot apply the Scale of a custom object, since it converts the result to the versions of the object's kind.
/// Conflicts come first. Other writes of the Scale work, and so does an apply of a built-in workload's.
fn unconvertible_scale(target: &Target) -> Status {
    let (name, scale) = (&target.name, Expected::of(target.resource, "scale").api_version());
    Status::unclassified(format!(
        "failed to convert new object (/{name}; {scale}, Kind=Scale) to proper version: request to convert CR to an invalid \
         group/version: {scale}"
    ))
}

pub(super) fn write<'a>(
    resource: &Resource,
    subresource: &'a str,
    api_version: &'a str,
    now: &'a str,
    options: &'a WriteOptions,
) -> Write<'a> {
    // A Scale has a schema of its own, and none of its fields is reset.
    let reset = match subresource {
        "scale" => Reset::Fields(&[]),
        _ => apply::reset_fields(resource, subresource),
    };
    Write { manager: &options.field_manager, subresource, api_version, now, reset }
}

/// Reads an apply configuration: the sent fields only, checked against the schema, without defaults.
fn configuration(target: &Target, body: &[u8], validation: FieldValidation) -> Result<Configuration, Status> {
    let mut config = Configuration::read(body, validation)?;
    let value = &mut config.value;
    decode::configuration(Expected::at(target), target.object_type()?, value)?;
    match meta::name(value) {
        "" => {}
        name if name != target.name => return Err(name_mismatch(name, &target.name)),
        _ => {}
    }
    check_namespace(target, value)?;
    Ok(config)
}

/// Prepares an object that an apply creates. A configuration with a uid is refused, for no object has it, and so is one without a
/// name; a resourceVersion is ignored.
fn created(target: &Target, mut object: Value) -> Result<Value, Status> {
    let uid = meta::uid(&object);
    if !uid.is_empty() {
        let text = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(target.resource, &target.name, &text));
    }
    if meta::name(&object).is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    meta::set_resource_version(&mut object, "");
    Ok(object)
}
