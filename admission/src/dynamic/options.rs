//! The options of a request as webhooks see them: an object of `meta.k8s.io/v1`.

use kstore_registry::request::{DeleteOptions, FieldValidation, Propagation, WriteOptions};
use serde_json::{Map, Value, json};

/// The options of a request.
#[derive(Clone, Copy, Debug)]
pub enum Options<'a> {
    /// Options of a create.
    Create(&'a WriteOptions),
    /// Options of an update or patch.
    Update(&'a WriteOptions),
    /// Options of a deletion.
    Delete(&'a DeleteOptions, &'a WriteOptions),
    /// A stream has no options.
    None,
}

impl Options<'_> {
    /// Whether the request is a dry run.
    pub fn is_dry_run(&self) -> bool {
        match self {
            Self::Create(options) | Self::Update(options) | Self::Delete(_, options) => options.dry_run,
            Self::None => false,
        }
    }

    /// The options object with `apiVersion` and `kind`.
    pub fn to_json(self) -> Option<Value> {
        let (kind, write) = match self {
            Self::Create(options) => ("CreateOptions", options),
            Self::Update(options) => ("UpdateOptions", options),
            Self::Delete(_, options) => ("DeleteOptions", options),
            Self::None => return None,
        };
        let mut members = Map::new();
        members.insert("kind".into(), kind.into());
        members.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        if let Self::Delete(delete, _) = self {
            of_deletion(delete, &mut members);
        }
        if write.dry_run {
            members.insert("dryRun".into(), json!(["All"]));
        }
        if !matches!(self, Self::Delete(..)) {
            if write.names_manager {
                members.insert("fieldManager".into(), write.field_manager.as_str().into());
            }
            if write.names_validation {
                members.insert("fieldValidation".into(), name_of(write.field_validation).into());
            }
        }
        Some(members.into())
    }
}

fn of_deletion(options: &DeleteOptions, members: &mut Map<String, Value>) {
    if let Some(seconds) = options.grace_period_seconds {
        members.insert("gracePeriodSeconds".into(), seconds.into());
    }
    let mut preconditions = Map::new();
    if let Some(uid) = &options.uid {
        preconditions.insert("uid".into(), uid.as_str().into());
    }
    if let Some(version) = options.resource_version {
        preconditions.insert("resourceVersion".into(), version.to_string().into());
    }
    if !preconditions.is_empty() {
        members.insert("preconditions".into(), preconditions.into());
    }
    let propagation = options.propagation.map(|propagation| match propagation {
        Propagation::Orphan => "Orphan",
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
    });
    if let Some(propagation) = propagation {
        members.insert("propagationPolicy".into(), propagation.into());
    }
}

fn name_of(validation: FieldValidation) -> &'static str {
    match validation {
        FieldValidation::Ignore => "Ignore",
        FieldValidation::Warn => "Warn",
        FieldValidation::Strict => "Strict",
    }
}
