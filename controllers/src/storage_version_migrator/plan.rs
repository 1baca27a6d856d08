//! The steps of a storage version migration. Pure.
//!
//! Kubernetes 1.35 runs migrations side by side and reports no more than that one is in progress. Since 1.36 one migration of a resource
//! runs at a time, its definition shows that it runs, and loses its former storage versions at the end. Objects are written by an empty
//! apply, and since 1.37 by an empty merge patch.

use crate::action::{Action, PatchKind, Target};
use crate::definition::CustomKind;
use crate::object::Object;
use crate::resource::{DEFINITIONS, Resource};
use crate::stable_kinds::Migration;
use crate::view::seconds;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kstore_api::object::list;
use kstore_api::resource::Resource as ResourceRow;
use kstore_api::version::Minor;
use kstore_api::{kind, meta};
use kstore_client::Patch;
use serde_json::{Value, json};

/// Time after the creation of a migration in which its resource may still appear.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
const FAILED: &str = "Failed";

/// Condition of a definition whose objects are migrated.
const MIGRATING: &str = "StorageMigrating";

/// The first version that runs migrations of a resource one after another and shows them in its definition.
const FIRST_WITH_TURNS: Minor = Minor::V36;

/// The first version that writes objects by a merge patch.
const FIRST_WITH_MERGE: Minor = Minor::V37;

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
    /// The definition of a custom kind, as it was at the beginning of the run.
    pub(super) definition: Option<Value>,
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

/// The custom kind of a definition.
pub(super) fn custom(definition: Option<Value>) -> Resolution {
    let kind = definition.as_ref().and_then(CustomKind::from_value);
    kind.map_or(Resolution::Unknown, |CustomKind { resource, kind, .. }| {
        Resolution::Kind(MigratedKind { resource, kind, definition })
    })
}

/// The next step of a migration.
pub(super) fn step<M: Migration>(migration: &M) -> MigrationStep {
    let status = migration.status().cloned().unwrap_or_default();
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

/// Whether two migrations are of the same resource.
pub(super) fn is_same_resource<M: Migration>(one: &M, other: &M) -> bool {
    let resource = |migration: &M| migration.spec().map(|spec| spec.resource.clone());
    resource(one) == resource(other)
}

/// Whether a migration may run beside `others`: since 1.36 the oldest of its resource runs first, of equals the one with the lower name.
pub(super) fn has_turn<'m, M: Migration>(
    minor: Minor,
    migration: &M,
    others: impl IntoIterator<Item = &'m M>,
) -> bool {
    let place = |migration: &M| {
        let metadata = migration.metadata();
        (metadata.creation_timestamp.as_ref().map(|created| created.0), metadata.name.clone())
    };
    let is_before = |other: &M| {
        is_same_resource(other, migration)
            && place(other) < place(migration)
            && step(other) != MigrationStep::Ended
    };
    minor < FIRST_WITH_TURNS || !others.into_iter().any(is_before)
}

/// The built-in kind that a migration names; `None` if it is not built-in.
pub(super) fn built_in<M: Migration>(minor: Minor, migration: &M) -> Option<Resolution> {
    let wanted = &migration.spec()?.resource;
    let is_wanted = |row: &&'static ResourceRow| row.group == wanted.group && row.plural == wanted.resource;
    let row = kind::every_of(minor).find(is_wanted)?;
    let verbs = ["list", "patch", "update"];
    if !row.is_stored() || !verbs.iter().all(|verb| row.supports(verb)) {
        return Some(Resolution::NotMigratable("resource does not support list, patch and update"));
    }
    let resource = Resource::named(row.group, row.version, row.plural);
    Some(Resolution::Kind(MigratedKind { resource, kind: row.kind.to_owned(), definition: None }))
}

/// Name of the definition of the custom kind that a migration names.
pub(super) fn definition_name<M: Migration>(migration: &M) -> String {
    let resource = migration.spec().map(|spec| &spec.resource);
    resource.map(|resource| format!("{}.{}", resource.resource, resource.group)).unwrap_or_default()
}

/// Whether the resource of the migration may still appear.
pub(super) fn is_young<M: Migration>(migration: &M, now: Timestamp) -> bool {
    let created = migration.metadata().creation_timestamp.as_ref();
    created.is_some_and(|created| now.duration_since(created.0) < GRACE)
}

/// Records the revision up to which objects are migrated.
pub(super) fn with_checkpoint<M: Migration>(migration: &M, revision: &str) -> Vec<Action> {
    let mut migration = migration.clone();
    migration.status_mut().get_or_insert_default().resource_version = Some(revision.to_owned());
    vec![Action::UpdateStatus(Object::of(&migration))]
}

/// How a migration ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome<'a> {
    Succeeded,
    /// Why it cannot be completed.
    Failed(&'a str),
}

/// A run of a migration at a time, in a version of Kubernetes.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) minor: Minor,
    pub(super) now: Timestamp,
}

impl Run {
    /// Records that the migration runs, in the definition first.
    pub(super) fn begun<M: Migration>(self, migration: &M, kind: &MigratedKind) -> Vec<Action> {
        let message =
            format!("Migration {} is running", migration.metadata().name.as_deref().unwrap_or_default());
        let shown = self
            .definition(kind)
            .map(|definition| self.with_migrating(definition, ("True", "MigrationRunning", &message), &[]));
        let (reason, text) = match self.minor < FIRST_WITH_TURNS {
            true => ("StorageVersionMigrationInProgress", ""),
            false => ("MigrationRunning", "The migration is running"),
        };
        let running = self.with_condition(migration, RUNNING, reason, text);
        shown.into_iter().chain([running]).collect()
    }

    /// Records the end of the migration, in the definition first, which then has no former storage versions.
    pub(super) fn ended<M: Migration>(
        self,
        migration: &M,
        kind: Option<&MigratedKind>,
        outcome: Outcome<'_>,
    ) -> Vec<Action> {
        let definition = kind.and_then(|kind| self.definition(kind));
        let shown = definition.map(|definition| self.with_outcome(definition, outcome));
        let ended = match outcome {
            Outcome::Succeeded => {
                self.with_condition(migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "")
            }
            Outcome::Failed(why) => {
                let message = format!("migration encountered unhandled error: {why}");
                self.with_condition(migration, FAILED, "StorageVersionMigrationFailed", &message)
            }
        };
        shown.into_iter().chain([ended]).collect()
    }

    /// The definition that shows the migration.
    fn definition(self, kind: &MigratedKind) -> Option<&Value> {
        kind.definition.as_ref().filter(|_| self.minor >= FIRST_WITH_TURNS)
    }

    fn with_outcome(self, definition: &Value, outcome: Outcome<'_>) -> Action {
        let Outcome::Succeeded = outcome else {
            let failed = ("False", "MigrationFailed", "The migration has failed");
            return self.with_migrating(definition, failed, &[]);
        };
        let begun = list(&definition["status"]["conditions"]).iter().find(|one| one["type"] == MIGRATING);
        let begun = begun.and_then(|condition| condition["observedGeneration"].as_i64());
        let succeeded = |message| ("False", "MigrationSucceeded", message);
        match begun == definition["metadata"]["generation"].as_i64() {
            true => {
                let versions = list(&definition["spec"]["versions"]).iter();
                let stored: Vec<&Value> = versions
                    .filter(|version| version["storage"] == true)
                    .map(|version| &version["name"])
                    .collect();
                let message = "The migration has succeeded and the stored versions have been updated";
                self.with_migrating(definition, succeeded(message), &stored)
            }
            false => {
                let message = "The migration has succeeded but the stored versions have not been updated due to a \
                    generation mismatch";
                self.with_migrating(definition, succeeded(message), &[])
            }
        }
    }

    /// Sets the condition of a definition, and its stored versions unless `stored` is empty. The write conflicts if the definition was
    /// changed meanwhile.
    fn with_migrating(
        self,
        definition: &Value,
        (status, reason, message): (&str, &str, &str),
        stored: &[&Value],
    ) -> Action {
        let mut conditions = list(&definition["status"]["conditions"]).to_vec();
        let before = conditions.iter().find(|one| one["type"] == MIGRATING && one["status"] == status);
        let since =
            before.map_or_else(|| json!(seconds(self.now)), |before| before["lastTransitionTime"].clone());
        let mut condition = json!({
            "type": MIGRATING, "status": status, "reason": reason, "message": message, "lastTransitionTime": since,
        });
        if let Some(generation) = definition["metadata"]["generation"].as_i64() {
            condition["observedGeneration"] = json!(generation);
        }
        match conditions.iter_mut().find(|one| one["type"] == MIGRATING) {
            Some(own) => *own = condition,
            None => conditions.push(condition),
        }
        let version = definition["metadata"]["resourceVersion"].as_str().map(str::to_owned);
        let mut patch = json!({"status": {"conditions": conditions}});
        if let Some(version) = &version {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        if !stored.is_empty() {
            patch["status"]["storedVersions"] = json!(stored);
        }
        let target = Target {
            resource: DEFINITIONS,
            namespace: String::new(),
            name: meta::name(definition).to_owned(),
            uid: meta::uid(definition).to_owned(),
            resource_version: version,
        };
        Action::Patch { target, status: true, kind: PatchKind::Merge, patch }
    }

    /// Adds a condition that is true; the condition Running is false from the end on.
    fn with_condition<M: Migration>(self, migration: &M, kind: &str, reason: &str, message: &str) -> Action {
        let mut migration = migration.clone();
        let conditions = migration.status_mut().get_or_insert_default().conditions.get_or_insert_default();
        for running in conditions.iter_mut().filter(|one| kind != RUNNING && one.type_ == RUNNING) {
            "False".clone_into(&mut running.status);
            if self.minor >= FIRST_WITH_TURNS {
                "MigrationCompleted".clone_into(&mut running.reason);
                "Migration completed".clone_into(&mut running.message);
                running.last_transition_time = seconds(self.now);
            }
        }
        conditions.retain(|one| one.type_ != kind);
        conditions.push(Condition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            last_transition_time: seconds(self.now),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: None,
        });
        Action::UpdateStatus(Object::of(&migration))
    }
}

/// A patch that changes nothing of an object.
pub(super) struct EmptyPatch<'o> {
    pub(super) namespace: &'o str,
    pub(super) name: &'o str,
    pub(super) patch: Patch,
}

/// The patch that writes an object again; `None` if it was written after the revision `upto`. With its uid and
/// resourceVersion it conflicts if the object was changed, deleted or recreated.
pub(super) fn patch<'o>(
    minor: Minor,
    kind: &MigratedKind,
    object: &'o Value,
    upto: u64,
) -> Option<EmptyPatch<'o>> {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if version.parse().is_ok_and(|version: u64| version > upto) {
        return None;
    }
    let (namespace, name) = (meta::namespace(object), meta::name(object));
    let identity = json!({"uid": meta::uid(object), "resourceVersion": version});
    let patch = match minor >= FIRST_WITH_MERGE {
        true => Patch::Merge(json!({ "metadata": identity })),
        false => Patch::Apply { object: applied(kind, (namespace, name), identity), force: false },
    };
    Some(EmptyPatch { namespace, name, patch })
}

/// An apply without content.
fn applied(kind: &MigratedKind, (namespace, name): (&str, &str), mut metadata: Value) -> Value {
    let resource = &kind.resource;
    let api_version = match &*resource.group {
        "" => resource.version.to_string(),
        group => format!("{group}/{}", resource.version),
    };
    metadata["name"] = json!(name);
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({ "apiVersion": api_version, "kind": kind.kind, "metadata": metadata })
}

/// Whether a refusal may not happen at the next attempt: no answer, overload, or a failure of the server.
pub(super) fn is_transient(code: Option<u16>) -> bool {
    code.is_none_or(|code| code == 429 || code >= 500)
}
