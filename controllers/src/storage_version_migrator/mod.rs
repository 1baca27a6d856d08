//! Storage version migrator: writes every object of a resource again, so that all are stored in the present storage
//! version and encrypted with the present key. An empty apply changes nothing of an object; the server writes it
//! only if its stored form is outdated. `plan` decides; this file reads the objects and sends the patches. It runs
//! only if the server serves StorageVersionMigrations.
//!
//! A migration proceeds by its status: first the revision up to which objects are migrated, then the condition
//! Running, at last Succeeded or Failed. So a restarted controller continues: objects that were written since the
//! revision are skipped, and others that are up to date cost no write.

mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::Executor;
use crate::cluster::{Cluster, Reconcile, ReconcileError, work};
use crate::definition::CustomKind;
use crate::optional_api;
use crate::resource::{DEFINITIONS, gvr};
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use kstore_client::{ApiError, Client, ListParams, Obj, Patch};
use kstore_informer::{Action as Next, Context, Informer, Object};
use kstore_nondet::Nondet;
use plan::{MigratedKind, MigrationStep, Resolution};
use std::sync::Arc;

/// Migrations that run at a time, as in Kubernetes.
const WORKERS: usize = 5;

/// Selects hardly any object, for a list that only reads the present revision.
const NO_OBJECT: &str = "metadata.name=-";

/// Runs the controller until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    if !optional_api::is_served::<StorageVersionMigration>(&cluster).await {
        return;
    }
    let migrations = cluster.caches.whole();
    let controller = cluster
        .controller("storage-version-migrator")
        .watch(&migrations, |migration: &Obj<StorageVersionMigration>| [migration.key()])
        .workers(WORKERS);
    let executor = cluster.executor("storage-version-migrator-controller");
    let (client, nondet) = (cluster.client.clone(), cluster.nondet.clone());
    work(controller, cluster.stop.clone(), Migrator { client, nondet, migrations, executor }).await;
}

struct Migrator {
    /// Client for reading definitions.
    client: Client,
    nondet: Nondet,
    migrations: Informer<Obj<StorageVersionMigration>>,
    executor: Executor,
}

impl Reconcile for Migrator {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(migration) = self.migrations.get(&cx.key) else { return Ok(Next::Done) };
        let step = plan::step(&migration);
        if step == MigrationStep::Ended {
            return Ok(Next::Done);
        }
        let now = self.nondet.clock.now();
        let next = match self.resolve(&migration).await? {
            Resolution::Kind(kind) => match step {
                MigrationStep::Ended => return Ok(Next::Done),
                MigrationStep::Checkpoint => plan::with_checkpoint(&migration, &self.revision(&kind).await?),
                MigrationStep::Begin => plan::begun(&migration, now),
                MigrationStep::Migrate { upto } => match self.migrate(&kind, upto).await? {
                    Ok(()) => plan::succeeded(&migration, now),
                    Err(error) => plan::failed(&migration, &error.to_string(), now),
                },
            },
            Resolution::NotMigratable(why) => plan::failed(&migration, why, now),
            Resolution::Unknown if plan::is_young(&migration, now) => {
                return Err(ReconcileError::Failed("the resource does not exist yet".to_owned()));
            }
            Resolution::Unknown => plan::failed(&migration, "unable to obtain GVR from discovery", now),
        };
        self.execute(&cx, next).await
    }
}

impl Migrator {
    async fn execute(&self, cx: &Context, action: Action) -> Result<Next, ReconcileError> {
        match self.executor.execute(cx, &[action]).await.result() {
            // Deleted, or changed by another client, which the cache will show.
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Next::Done),
            other => Ok(other.map(|()| Next::Done)?),
        }
    }

    /// The kind that a migration names.
    async fn resolve(&self, migration: &StorageVersionMigration) -> Result<Resolution, ApiError> {
        if let Some(resolution) = plan::built_in(migration) {
            return Ok(resolution);
        }
        let api = self.client.dynamic(gvr(&DEFINITIONS));
        let name = plan::definition_name(migration);
        let (found, _) =
            api.list("", &ListParams::default().fields(&format!("metadata.name={name}"))).await?;
        let custom = found.first().and_then(CustomKind::from_value);
        Ok(custom.map_or(Resolution::Unknown, |custom| Resolution::Kind(custom.into())))
    }

    /// The present revision of the kind's objects.
    async fn revision(&self, kind: &MigratedKind) -> Result<String, ApiError> {
        let api = self.executor.client.dynamic(gvr(&kind.resource));
        let (_, revision) = api.list("", &ListParams::default().fields(NO_OBJECT)).await?;
        Ok(revision.to_string())
    }

    /// Writes all objects of the kind again that were last written at or before the revision `upto`. The inner
    /// result is the refusal that ends the migration; the outer error is worth another attempt.
    async fn migrate(&self, kind: &MigratedKind, upto: u64) -> Result<Result<(), ApiError>, ApiError> {
        let api = self.executor.client.dynamic(gvr(&kind.resource));
        let (objects, _) = api.list("", &ListParams::default()).await?;
        for object in &objects {
            let Some(patch) = plan::patch(kind, object, upto) else { continue };
            let applied = Patch::Apply { object: patch.body, force: false };
            match api.patch(patch.namespace, patch.name, "", &applied).await {
                Ok(_) => {}
                // Updated, deleted or recreated meanwhile: stored in the present form, or gone.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) if plan::is_transient(error.code()) => return Err(error),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }
}
