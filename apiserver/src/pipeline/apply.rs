//! Server-side apply, and the books on field ownership that every other write keeps. The rules are `kstore_api::patch::apply`'s.

use super::update::parse_patch;
use super::{Answer, Pipeline};
use crate::decode::{self, Expected};
use crate::request::{FieldValidation, Request, WriteOptions};
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::meta;
use kstore_api::patch::apply::{self, ObjectType, Write};
use kstore_api::schema::{self, Type};
use kstore_api::status::{Reason, Status};
use serde_json::Value;

/// How often an apply that finds the object created or gone meanwhile starts over.
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
        let ty = type_of(target.resource)?;
        let config = configuration(request, patch, options.field_validation, warnings)?;
        let now = meta::format_time(self.nondet.clock.now());
        let api_version = target.resource.api_version();
        let write = Write {
            manager: &options.field_manager,
            subresource: target.subresource,
            api_version: &api_version,
            now: &now,
            reset: apply::reset_fields(target.resource, target.subresource),
        };
        let applied = |live: Option<&Value>| {
            let merged = apply::apply(live, &config, &write, options.force, ObjectType::BuiltIn(ty));
            merged.map_err(|refused| refused.to_status(target.resource, &target.name))
        };
        let options = WriteOptions { books_kept: true, ..options.clone() };
        let mut last = Status::internal("an apply takes at least one attempt");
        for _ in 0..ATTEMPTS {
            let outcome = if self.is_absent(request).await? && target.subresource.is_empty() {
                self.check(&request.user, "create", target, &target.name)?;
                self.create_object(request, applied(None)?, &options).await
            } else {
                self.change(request, &options, |live| applied(Some(live))).await
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

    /// Writes down who owns what after a write that is no apply. `before`: the object, and the subresource that was written.
    pub(super) fn track(
        &self,
        resource: &'static Resource,
        before: Option<(&Value, &str)>,
        object: &mut Value,
        options: &WriteOptions,
    ) {
        let Ok(ty) = type_of(resource) else { return };
        if options.books_kept {
            return;
        }
        let subresource = before.map_or("", |(_, subresource)| subresource);
        let write = Write {
            manager: &options.field_manager,
            subresource,
            api_version: &resource.api_version(),
            now: &meta::format_time(self.nondet.clock.now()),
            reset: apply::reset_fields(resource, subresource),
        };
        apply::track_update(before.map(|(live, _)| live), object, &write, ObjectType::BuiltIn(ty));
    }
}

fn type_of(resource: &Resource) -> Result<&'static Type, Status> {
    schema::of(resource.group, resource.version, resource.kind)
        .ok_or_else(|| Status::internal(format!("no schema for {}", resource.qualified_kind())))
}

/// The apply configuration: what its author wrote, checked against the schema, nothing added or taken away.
fn configuration(
    request: &Request,
    patch: &[u8],
    validation: FieldValidation,
    warnings: &mut Vec<String>,
) -> Result<Value, Status> {
    let target = &request.target;
    let mut config = parse_patch(patch)?;
    decode::partial(Expected::of(target.resource, ""), &mut config, validation, warnings)?;
    match meta::name(&config) {
        "" => meta::set_name(&mut config, &target.name),
        name if name != target.name => return Err(super::create::name_mismatch(name, &target.name)),
        _ => {}
    }
    Ok(config)
}
