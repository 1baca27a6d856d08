//! Custom kinds in the pipeline: validation, versions and stored form by the schema of the
//! requested version. Each function here calls the built-in rules for built-in kinds. Writes of the
//! definitions themselves are in `definition`.

use super::{Answer, ObjectAnswer, Pipeline};
use kstore_api::crd::scale::ScalePaths;
use kstore_api::field::ErrorList;
use kstore_api::patch::apply::{self, ObjectType, ReplicasPath};
use kstore_api::status::Status;
use kstore_api::structural::{Tree, ValidationScope, rules_blocked};
use kstore_api::{scale, schema, stored, structural, validate};
use kstore_registry::conversion::{FieldSelection, filter_by_version};
use kstore_registry::error;
use kstore_registry::kinds::is_conversion_needed;
use kstore_registry::registry::Listed;
use kstore_registry::request::{ListOptions, Request, Target};
use kstore_registry::undecided::Undecided;
use kstore_storage::limits;
use serde_json::{Value, json};
use std::sync::Arc;

/// The rules of the kind that a request is about: those of a built-in kind, or of the definition of a custom one in the requested
/// version.
pub(super) trait TargetRules {
    /// Restores the metadata of a custom object after a write to its status, which may change only the
    /// managed fields.
    fn keep_metadata(&self, new: &mut Value, old: &Value);

    /// Validation errors of a new object.
    fn validate_new(&self, object: &Value) -> ErrorList;

    /// Validation errors of an object that replaces `old`. A CEL rule that fails for an unchanged value
    /// yields a warning.
    fn validate_change(&self, new: &Value, old: &Value, warnings: &mut Vec<String>) -> ErrorList;

    /// Converts a stored object to the version of the request. `stored` must already conform to the storage
    /// version's schema.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    fn in_version(&self, stored: Value) -> Result<Value, Status>;

    /// Converts an object to its stored form: the storage version, with the unset members that Kubernetes
    /// always prints.
    ///
    /// # Errors
    /// 500 if it cannot be converted.
    fn make_stored(&self, object: &mut Value) -> Result<(), Status>;

    /// The kind's schema, for server-side apply.
    ///
    /// # Errors
    /// 500 if the field table does not have the kind.
    fn object_type(&self) -> Result<ObjectType<'_>, Status>;

    /// The Scale of a stored object.
    ///
    /// # Errors
    /// 500 if a custom object has no replicas where its definition says, or cannot be converted.
    fn scale_of(&self, stored: Value) -> Result<Value, Status>;

    /// The Scale of an object in the version of the request.
    ///
    /// # Errors
    /// 500 if a custom object has no replicas where its definition says.
    fn scale_of_decoded(&self, object: &Value) -> Result<Value, Status>;

    /// The Scale of an object as base of a write, in the version of the request. A custom object without replicas has one, too.
    ///
    /// # Errors
    /// 500 if a value of a custom object has the wrong type.
    fn scale_to_change(&self, object: &Value) -> Result<Value, Status>;

    /// Where an object has its replicas.
    fn replicas_path(&self) -> ReplicasPath;

    /// Sets the replicas of `object`, in the version of the request, to those of a Scale.
    ///
    /// # Errors
    /// 400 or 422 if the Scale has no valid replicas.
    fn rescale(&self, scale: &Value, object: &mut Value) -> Result<(), Status>;
}

impl TargetRules for Target {
    fn keep_metadata(&self, new: &mut Value, old: &Value) {
        if self.custom.is_none() || self.subresource != "status" {
            return;
        }
        let managed = new["metadata"]["managedFields"].take();
        new["metadata"] = old["metadata"].clone();
        new["metadata"]["managedFields"] = managed;
    }

    fn validate_new(&self, object: &Value) -> ErrorList {
        let mut errors = validate::create(self.resource, object);
        if let Some(custom) = &self.custom {
            let mut found = custom.version().tree.validate(object, None, ValidationScope::Whole);
            structural::accept_unknown_formats(self.resource.minor, &mut found);
            errors.extend(found);
            if let Some(scale) = &custom.version().scale {
                errors.extend(scale.check_spec(object));
                errors.extend(scale.check_status(object));
            }
            evaluate_rules(&custom.version().tree, object, None, &mut errors);
        }
        errors
    }

    fn validate_change(&self, new: &Value, old: &Value, warnings: &mut Vec<String>) -> ErrorList {
        let mut errors = validate::update_subresource(self.resource, self.subresource, new, old);
        if let Some(custom) = &self.custom {
            let part =
                if self.subresource == "status" { ValidationScope::Status } else { ValidationScope::Whole };
            let mut found = custom.version().tree.validate(new, Some(old), part);
            structural::accept_unknown_formats(self.resource.minor, &mut found);
            errors.extend(found);
            if let Some(scale) = &custom.version().scale {
                if self.subresource != "status" {
                    errors.extend(scale.check_spec(new));
                }
                errors.extend(scale.check_status(new));
            }
            warnings.extend(evaluate_rules(&custom.version().tree, new, Some(old), &mut errors));
        }
        errors
    }

    fn in_version(&self, stored: Value) -> Result<Value, Status> {
        match &self.custom {
            Some(custom) => custom.converted(stored),
            None => Ok(kstore_registry::conversion::in_version(self.resource, stored)),
        }
    }

    fn make_stored(&self, object: &mut Value) -> Result<(), Status> {
        if let Some(custom) = &self.custom {
            if custom.is_stored() {
                // Preparation removed members after the defaults were set: the status of a new object. A kube-apiserver sets defaults
                // again when it decodes what it stored, so they are in the answer.
                custom.version().tree.fill_defaults(object);
                return Ok(());
            }
            // An object read from the store has all defaults of the storage version; so does an object that is converted to that version.
            *object = custom.storage().read(custom.storage().converted(std::mem::take(object))?)?;
            return Ok(());
        }
        let row = self.resource.storage_row();
        if !row.is_same_version(self.resource) {
            stored::to_storage(self.resource, object);
        }
        if let Some(ty) = row.object_type() {
            schema::fill::fill_stored(object, ty);
        }
        Ok(())
    }

    fn object_type(&self) -> Result<ObjectType<'_>, Status> {
        if let Some(custom) = self.schema() {
            return Ok(ObjectType::Custom(Some(&custom.version().tree)));
        }
        self.resource.body_type(self.subresource).map(ObjectType::BuiltIn).ok_or_else(|| {
            let (row, subresource) = (self.resource, self.subresource);
            Status::internal(format!("no schema for {} {subresource}", row.qualified()))
        })
    }

    fn scale_of(&self, stored: Value) -> Result<Value, Status> {
        let object = self.in_version(self.read_stored(stored)?)?;
        self.scale_of_decoded(&object)
    }

    fn scale_of_decoded(&self, object: &Value) -> Result<Value, Status> {
        match scale_paths(self) {
            Some(paths) => paths.of(object),
            None => Ok(scale::of(object)),
        }
    }

    fn scale_to_change(&self, object: &Value) -> Result<Value, Status> {
        match scale_paths(self) {
            Some(paths) => paths.for_update(object),
            None => Ok(scale::of(object)),
        }
    }

    fn replicas_path(&self) -> ReplicasPath {
        match scale_paths(self) {
            Some(paths) => ReplicasPath::new(paths.spec_replicas.iter().map(String::as_str)),
            None => ReplicasPath::new(apply::REPLICAS),
        }
    }

    fn rescale(&self, scale: &Value, object: &mut Value) -> Result<(), Status> {
        if let Some(paths) = scale_paths(self) {
            return paths.apply(scale, object);
        }
        scale::check(self.resource, &self.name, scale)?;
        // Decoding drops `replicas: 0` from a Scale.
        object["spec"]["replicas"] = json!(scale["spec"]["replicas"].as_i64().unwrap_or(0));
        Ok(())
    }
}

/// Where a custom kind has its replicas, if it has a Scale.
fn scale_paths(target: &Target) -> Option<&ScalePaths> {
    target.custom.as_ref().and_then(|custom| custom.version().scale.as_deref())
}

impl Pipeline {
    /// A decision without a result: if admission refused it because an object must be converted by a webhook first, the decision is
    /// pending until the webhook has answered. The decision is then repeated as it is, with the answers of the webhooks that it has called.
    pub(super) fn awaiting(&self, target: &Target, undecided: Undecided) -> Undecided {
        match undecided {
            Undecided::Refused(status) => self.undecided(target, status),
            pending @ Undecided::Pending(_) => pending,
        }
    }

    /// A refusal while deciding. If conversion by a webhook is needed, the decision is pending until the
    /// webhook has answered.
    pub(super) fn undecided(&self, target: &Target, status: Status) -> Undecided {
        match &target.custom {
            Some(custom) if is_conversion_needed(&status) => {
                let (converter, cache) = (self.converter.clone(), self.cache().clone());
                let kind = custom.kind.clone();
                Undecided::Pending(Box::pin(async move { converter.convert(&cache, &kind).await }))
            }
            _ => status.into(),
        }
    }
}

impl Pipeline {
    /// Lists what `options` select. Selectable fields of a custom kind are those of the requested version.
    pub(super) async fn list_selected(
        &self,
        target: &Target,
        options: &ListOptions,
    ) -> Result<Listed, Status> {
        let filter = filter_by_version(&options.filter, target.custom.as_ref());
        let (Some(custom), Some(fields)) = (&target.custom, filter.unevaluated().cloned()) else {
            return self.registry.list(options).await;
        };
        let limit = usize::try_from(options.limit).unwrap_or(0);
        // Few objects of a small page may match, so the registry is asked for larger pages than the client's.
        let page = if limit == 0 { 0 } else { options.limit.max(limits::LIST_CHUNK_ITEMS as i64) };
        let selection =
            FieldSelection { converter: &self.converter, cache: self.cache(), custom, fields: &fields };
        let mut next = ListOptions { filter, limit: page, ..options.clone() };
        let mut items = Vec::new();
        loop {
            let mut listed = self.registry.list(&next).await?;
            items.append(&mut selection.entries(std::mem::take(&mut listed.items)).await?);
            if limit > 0 && items.len() > limit {
                items.truncate(limit);
                listed.continue_behind(&next.filter, &items[limit - 1]);
            }
            // The remaining count is unknown: it would take the conversion of all following objects.
            listed.remaining = None;
            if listed.continue_token.is_empty() || items.len() == limit {
                return Ok(Listed { items, ..listed });
            }
            next.continue_token.clone_from(&listed.continue_token);
        }
    }
}

/// Evaluates the CEL rules of a schema and appends their errors, unless earlier errors make the rules
/// meaningless. Returns the warnings: rules that fail for unchanged values.
fn evaluate_rules(
    tree: &Arc<Tree>,
    object: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) -> Vec<String> {
    if !tree.has_rules() {
        return Vec::new();
    }
    if let Some(blocked) = rules_blocked(errors) {
        errors.push(blocked);
        return Vec::new();
    }
    let report = tree.validate_rules(object, old);
    errors.extend(report.errors);
    report.warnings
}

/// Attempts of a request whose kind's definition changes concurrently.
const ATTEMPTS: usize = 8;

impl Pipeline {
    /// Serves a request to a custom kind by the newest definition, in the version of the request.
    pub(super) async fn act_on_custom(
        &self,
        request: &mut Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let mut acted = self.act_by_definition(request, warnings).await;
        for _ in 1..ATTEMPTS {
            if !acted.as_ref().is_err_and(error::is_definition_changed) {
                break;
            }
            let Target { resource, .. } = request.target;
            let served = self.cache().kinds().lookup(resource.group, resource.version, resource.plural);
            let served = served.ok_or_else(Status::no_such_route)?;
            (request.target.resource, request.target.custom) = (served.resource, served.custom);
            warnings.clear();
            acted = self.act_by_definition(request, warnings).await;
        }
        acted
    }

    async fn act_by_definition(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Status> {
        let Some(custom) = request.target.custom.clone() else {
            return self.act(request, warnings).await;
        };
        let (warned, mut calls) = (warnings.len(), 0);
        let answer = loop {
            warnings.truncate(warned);
            warnings.extend(custom.version().warning.as_deref().map(str::to_owned));
            match self.act(request, warnings).await {
                Err(status) if is_conversion_needed(&status) && calls < limits::DECISION_ANSWERS => {
                    calls += 1;
                    self.converter.convert(self.cache(), &custom.kind).await;
                }
                acted => break acted?,
            }
        };
        Ok(match answer {
            Answer::Object(object) => {
                self.converter.prepare(self.cache(), &custom, [&object.entry].into_iter()).await?;
                Answer::Object(ObjectAnswer { entry: custom.view(&object.entry)?, ..object })
            }
            Answer::List(mut listed) => {
                self.converter.prepare(self.cache(), &custom, listed.items.iter()).await?;
                for entry in &mut listed.items {
                    *entry = custom.view(entry)?;
                }
                Answer::List(listed)
            }
            // Watch events are converted when they are sent, because the definition may change before.
            answer @ (Answer::Value { .. } | Answer::Status { .. } | Answer::Watch(_)) => answer,
        })
    }
}

/// 403 if objects of the kind can no longer be created because its definition is being deleted.
pub(super) fn check_creatable(target: &Target, name: &str) -> Result<(), Status> {
    match &target.custom {
        Some(custom) if custom.definition().terminating => {
            let text = "create not allowed while custom resource definition is terminating";
            Err(Status::forbidden(target.resource, name, text))
        }
        _ => Ok(()),
    }
}
