//! The steps of a storage version migration. Pure.

use crate::action::Action;
use crate::definition::CustomKind;
use crate::object::Object;
use crate::resource::Resource;
use crate::view::seconds;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kstore_api::resource::Resource as ResourceRow;
use kstore_api::{kind, meta};
use serde_json::{Value, json};

/// Time after the creation of a migration in which its resource may still appear.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// What a migration needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MigrationStep {
    /// Nothing: it has succeeded or failed.
    Ended,
    /// The revision up to which objects are migrated.
    Checkpoint,
    /// The condition Running.
    Begin,
    /// The objects last written at or before this revision, and the result.
    Migrate {
        /// The revision.
        upto: u64,
    },
}

/// The kind whose objects are migrated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MigratedKind {
    pub(super) resource: Resource,
    pub(super) kind: String,
}

/// The kind that a migration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    Kind(MigratedKind),
    /// Objects of the kind are not stored, or not written by clients.
    NotMigratable(&'static str),
    /// The kind is not served.
    Unknown,
}

impl From<CustomKind> for MigratedKind {
    fn from(custom: CustomKind) -> Self {
        Self { resource: custom.resource, kind: custom.kind }
    }
}

/// The next step of a migration.
pub(super) fn step(migration: &StorageVersionMigration) -> MigrationStep {
    let status = migration.status.clone().unwrap_or_default();
    let is_true =
        |kind: &str| status.conditions.iter().flatten().any(|one| one.type_ == kind && one.status == "True");
    if is_true(SUCCEEDED) || is_true(FAILED) {
        return MigrationStep::Ended;
    }
    match status.resource_version.as_deref().and_then(|version| version.parse().ok()) {
        None => MigrationStep::Checkpoint,
        Some(_) if !is_true(RUNNING) => MigrationStep::Begin,
        Some(upto) => MigrationStep::Migrate { upto },
    }
}

/// The built-in kind that a migration names; `None` if it is not built-in.
pub(super) fn built_in(migration: &StorageVersionMigration) -> Option<Resolution> {
    let wanted = &migration.spec.as_ref()?.resource;
    let is_wanted = |row: &&'static ResourceRow| row.group == wanted.group && row.plural == wanted.resource;
    let row = kind::every().find(is_wanted)?;
    let verbs = ["list", "patch", "update"];
    if !row.is_stored() || !verbs.iter().all(|verb| row.supports(verb)) {
        return Some(Resolution::NotMigratable("resource does not support list, patch and update"));
    }
    let resource = Resource::named(row.group, row.version, row.plural);
    Some(Resolution::Kind(MigratedKind { resource, kind: row.kind.to_owned() }))
}

/// Name of the definition of the custom kind that a migration names.
pub(super) fn definition_name(migration: &StorageVersionMigration) -> String {
    let resource = migration.spec.as_ref().map(|spec| &spec.resource);
    resource.map(|resource| format!("{}.{}", resource.resource, resource.group)).unwrap_or_default()
}

/// Whether the resource of the migration may still appear.
pub(super) fn is_young(migration: &StorageVersionMigration, now: Timestamp) -> bool {
    let created = migration.metadata.creation_timestamp.as_ref();
    created.is_some_and(|created| now.duration_since(created.0) < GRACE)
}

/// Records the revision up to which objects are migrated.
pub(super) fn with_checkpoint(migration: &StorageVersionMigration, revision: &str) -> Action {
    let mut migration = migration.clone();
    migration.status.get_or_insert_default().resource_version = Some(revision.to_owned());
    Action::UpdateStatus(Object::of(&migration))
}

/// Records that the migration runs.
pub(super) fn begun(migration: &StorageVersionMigration, now: Timestamp) -> Action {
    with_condition(migration, RUNNING, "StorageVersionMigrationInProgress", "", now)
}

/// Records that all objects are migrated.
pub(super) fn succeeded(migration: &StorageVersionMigration, now: Timestamp) -> Action {
    with_condition(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "", now)
}

/// Records why the migration cannot be completed.
pub(super) fn failed(migration: &StorageVersionMigration, why: &str, now: Timestamp) -> Action {
    let message = format!("migration encountered unhandled error: {why}");
    with_condition(migration, FAILED, "StorageVersionMigrationFailed", &message, now)
}

/// Adds a condition that is true; the condition Running is false from the end on.
fn with_condition(
    migration: &StorageVersionMigration,
    kind: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Action {
    let mut migration = migration.clone();
    let conditions = migration.status.get_or_insert_default().conditions.get_or_insert_default();
    if kind != RUNNING {
        let running = conditions.iter_mut().filter(|one| one.type_ == RUNNING);
        running.for_each(|one| "False".clone_into(&mut one.status));
    }
    conditions.retain(|one| one.type_ != kind);
    conditions.push(Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        last_transition_time: seconds(now),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: None,
    });
    Action::UpdateStatus(Object::of(&migration))
}

/// An apply that changes nothing of an object.
pub(super) struct EmptyApply<'o> {
    pub(super) namespace: &'o str,
    pub(super) name: &'o str,
    pub(super) body: Value,
}

/// The apply that writes an object again; `None` if it was written after the revision `upto`. With its uid and
/// resourceVersion it conflicts if the object was changed, deleted or recreated.
pub(super) fn patch<'o>(kind: &MigratedKind, object: &'o Value, upto: u64) -> Option<EmptyApply<'o>> {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if version.parse().is_ok_and(|version: u64| version > upto) {
        return None;
    }
    let resource = &kind.resource;
    let api_version = match &*resource.group {
        "" => resource.version.to_string(),
        group => format!("{group}/{}", resource.version),
    };
    let metadata = json!({
        "name": meta::name(object),
        "uid": meta::uid(object),
        "resourceVersion": version,
    });
    let mut body = json!({ "apiVersion": api_version, "kind": kind.kind, "metadata": metadata });
    let namespace = meta::namespace(object);
    if !namespace.is_empty() {
        body["metadata"]["namespace"] = json!(namespace);
    }
    Some(EmptyApply { namespace, name: meta::name(object), body })
}

/// Whether a refusal may not happen at the next attempt: no answer, overload, or a failure of the server.
pub(super) fn is_transient(code: Option<u16>) -> bool {
    code.is_none_or(|code| code == 429 || code >= 500)
}
