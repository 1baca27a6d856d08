//! Storage version migrator: writes every object of a resource again, so that all are stored in the present storage
//! version and encrypted with the present key. An empty patch changes nothing of an object; the server writes it
//! only if its stored form is outdated. `plan` decides; this file reads the objects and sends the patches. It runs
//! only if the server serves StorageVersionMigrations, in the version that it serves.
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
use crate::optional_api;
use crate::resource::{DEFINITIONS, gvr};
use crate::stable_kinds::{self, Migration};
use k8s_openapi::api::storagemigration::v1beta1;
use kstore_api::version::Minor;
use kstore_client::{ApiError, Client, ListParams, Obj};
use kstore_informer::{Action as Next, Context, Informer, Object};
use kstore_nondet::Nondet;
use plan::{MigratedKind, MigrationStep, Outcome, Resolution, Run};
use std::sync::Arc;

/// Migrations that run at a time, as in Kubernetes.
const WORKERS: usize = 5;

/// Selects hardly any object, for a list that only reads the present revision.
const NO_OBJECT: &str = "metadata.name=-";

/// Runs the controller until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    if optional_api::is_served::<stable_kinds::StorageVersionMigration>(&cluster).await {
        migrate::<stable_kinds::StorageVersionMigration>(cluster).await;
    } else if optional_api::is_served::<v1beta1::StorageVersionMigration>(&cluster).await {
        migrate::<v1beta1::StorageVersionMigration>(cluster).await;
    }
}

async fn migrate<M: Migration>(cluster: Arc<Cluster>) {
    let migrations: Informer<Obj<M>> = cluster.caches.whole();
    let all = migrations.clone();
    // The end of a migration is the turn of the next one of its resource.
    let waiting = move |migration: &Obj<M>| {
        let listed = all.list();
        let others = listed.iter().filter(|other| plan::is_same_resource::<M>(other, migration));
        others.map(|other| other.key()).chain([migration.key()]).collect::<Vec<_>>()
    };
    let controller =
        cluster.controller("storage-version-migrator").watch(&migrations, waiting).workers(WORKERS);
    let executor = cluster.executor("storage-version-migrator-controller");
    let (client, nondet, minor) = (cluster.client.clone(), cluster.nondet.clone(), cluster.config.minor);
    work(controller, cluster.stop.clone(), Migrator { client, nondet, minor, migrations, executor }).await;
}

struct Migrator<M: Migration> {
    /// Client for reading definitions.
    client: Client,
    nondet: Nondet,
    minor: Minor,
    migrations: Informer<Obj<M>>,
    executor: Executor,
}

impl<M: Migration> Reconcile for Migrator<M> {
    async fn reconcile(&self, cx: Context) -> Result<Next, ReconcileError> {
        let Some(migration) = self.migrations.get(&cx.key) else { return Ok(Next::Done) };
        let step = plan::step::<M>(&migration);
        let others = self.migrations.list();
        if step == MigrationStep::Ended
            || !plan::has_turn::<M>(self.minor, &migration, others.iter().map(|other| &***other))
        {
            return Ok(Next::Done);
        }
        let run = Run { minor: self.minor, now: self.nondet.clock.now() };
        let ended = |kind, outcome| run.ended::<M>(&migration, kind, outcome);
        let next = match self.resolve(&migration).await? {
            Resolution::Kind(kind) => match step {
                MigrationStep::Ended => return Ok(Next::Done),
                MigrationStep::Checkpoint => {
                    plan::with_checkpoint::<M>(&migration, &self.revision(&kind).await?)
                }
                MigrationStep::Begin => run.begun::<M>(&migration, &kind),
                MigrationStep::Migrate { upto } => match self.migrate(&kind, upto).await? {
                    Ok(()) => ended(Some(&kind), Outcome::Succeeded),
                    Err(error) => ended(Some(&kind), Outcome::Failed(&error.to_string())),
                },
            },
            Resolution::NotMigratable(why) => ended(None, Outcome::Failed(why)),
            Resolution::Unknown if plan::is_young::<M>(&migration, run.now) => {
                return Err(ReconcileError::Failed("the resource does not exist yet".to_owned()));
            }
            Resolution::Unknown => ended(None, Outcome::Failed("unable to obtain GVR from discovery")),
        };
        self.execute(&cx, &next).await
    }
}

impl<M: Migration> Migrator<M> {
    async fn execute(&self, cx: &Context, actions: &[Action]) -> Result<Next, ReconcileError> {
        match self.executor.execute(cx, actions).await.result() {
            // Deleted, or changed by another client: a definition at the next attempt, a migration when the cache shows it.
            Err(error) if error.is_conflict() && actions.len() > 1 => Err(error.into()),
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(Next::Done),
            other => Ok(other.map(|()| Next::Done)?),
        }
    }

    /// The kind that a migration names.
    async fn resolve(&self, migration: &M) -> Result<Resolution, ApiError> {
        if let Some(resolution) = plan::built_in(self.minor, migration) {
            return Ok(resolution);
        }
        let api = self.client.dynamic(gvr(&DEFINITIONS));
        let name = plan::definition_name(migration);
        let (found, _) =
            api.list("", &ListParams::default().fields(&format!("metadata.name={name}"))).await?;
        Ok(plan::custom(found.into_iter().next()))
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
            let Some(empty) = plan::patch(self.minor, kind, object, upto) else { continue };
            match api.patch(empty.namespace, empty.name, "", &empty.patch).await {
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
