//! The deletion of CustomResourceDefinitions: after a DELETE the objects of the kind are deleted, and once
//! none is left, the definition is removed. Driven by changes of definitions and objects, without polling.
//! Each step starts from stored state, so that a restarted server continues.

use futures::FutureExt as _;
use kstore_api::crd::deletion::{self, Progress};
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_pipeline::pipeline::Pipeline;
use kstore_pipeline::pipeline::definition::definitions;
use kstore_registry::cache::{Cache, Filter, Watch, WatchEnd, WatchStart};
use kstore_registry::entry::Entry;
use kstore_registry::kinds::CustomKind;
use kstore_registry::registry::Decision;
use kstore_storage::restart;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Objects of one kind that are deleted concurrently.
const PARALLEL: usize = 16;
/// Wait before the deletion of a kind's objects is retried after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Name of this task, and of each definition's deletion, in the restart metric.
pub(crate) const TASK: &str = "definitions";

/// Completes the deletion of definitions until the storage closes. A deletion that panics is tried again.
pub(crate) async fn run(pipeline: Arc<Pipeline>) {
    let mut ending: JoinSet<(String, String)> = JoinSet::new();
    let mut begun = BTreeSet::new();
    let (mut watch, mut changed) = watch(pipeline.cache()).await;
    loop {
        for definition in changed.drain(..).filter(|definition| is_terminating(&pipeline, definition)) {
            let (uid, name) = (definition.uid().to_owned(), definition.name().to_owned());
            if begun.insert(uid.clone()) {
                let pipeline = pipeline.clone();
                let restarts = pipeline.metrics().restarts().clone();
                ending.spawn(async move {
                    restart::until_done(TASK, restarts, || end(&pipeline, &name)).await;
                    (uid, name)
                });
            }
        }
        tokio::select! {
            biased;
            Some(ended) = ending.join_next(), if !ending.is_empty() => match ended {
                Ok((uid, name)) => {
                    begun.remove(&uid);
                    // Changes that arrived while its end was under way were ignored.
                    let key = definitions().storage_key("", &name);
                    changed.extend(pipeline.cache().get(definitions(), &key));
                }
                Err(error) => tracing::error!(%error, "the end of a CustomResourceDefinition failed"),
            },
            batch = watch.next() => match batch {
                Ok(batch) => changed.extend(batch.deliveries.iter().filter_map(|delivery| delivery.change.new.clone())),
                Err(WatchEnd::Closed) => return,
                Err(_) => (watch, changed) = self::watch(pipeline.cache()).await,
            },
        }
    }
}

/// A watch of the definitions, and those that are stored when it begins.
async fn watch(cache: &Arc<Cache>) -> (Watch, Vec<Arc<Entry>>) {
    let filters = vec![Filter::all(definitions())];
    let started = Watch::start(cache.clone(), filters.clone(), WatchStart::State).await;
    let mut watch = started.unwrap_or_else(|end| Watch::ended(cache.clone(), filters, end));
    let stored = watch.initial().into_iter().map(|(_, definition)| definition).collect();
    (watch, stored)
}

/// Whether this definition is being deleted and waits for its objects.
fn is_terminating(pipeline: &Pipeline, definition: &Entry) -> bool {
    let (plural, group) = definition.name().split_once('.').unwrap_or_default();
    // Few are being deleted: only those, and those that cannot be compiled, are worth parsing.
    let kinds = pipeline.cache().kinds();
    kinds.definition(group, plural).is_none_or(|kind| kind.definition.terminating)
        && awaits_cleanup(&definition.parse())
}

fn awaits_cleanup(definition: &Value) -> bool {
    meta::is_being_deleted(definition)
        && meta::finalizers(definition).any(|finalizer| finalizer == kstore_api::crd::CLEANUP_FINALIZER)
}

/// Deletes the objects of a definition, waits until they are gone, and removes the definition.
async fn end(pipeline: &Pipeline, name: &str) {
    let (plural, group) = name.split_once('.').unwrap_or_default();
    loop {
        let kinds = pipeline.cache().kinds();
        let custom = kinds.definition(group, plural).cloned();
        let progress = match custom {
            Some(_) if kinds.rows().is_built_in_group(group) => Progress::OverlappingBuiltIn,
            Some(custom) if custom.definition.established => match empty(pipeline, &custom).await {
                Ok(()) => Progress::Completed,
                Err(status) => {
                    tracing::warn!(name, %status, "the objects of a CustomResourceDefinition cannot be deleted");
                    report(pipeline, name, Progress::DeleteFailed(&status.message)).await;
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            },
            _ => Progress::NeverEstablished,
        };
        let now = meta::format_time(pipeline.nondet().clock.now_seconds());
        let ended = pipeline.change_definition(name, |definition| {
            let mut next = definition.clone();
            awaits_cleanup(definition).then(|| deletion::finish(&mut next, progress, &now))?;
            let has_finalizers = meta::finalizers(&next).next().is_some();
            Some(if has_finalizers { Decision::Put(next) } else { Decision::Remove(next) })
        });
        match ended.await {
            Ok(()) => return pipeline.grant_waiting_names(group).await,
            Err(status) => {
                tracing::warn!(name, %status, "a CustomResourceDefinition cannot be ended");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Deletes all objects of a kind; returns when none is left.
async fn empty(pipeline: &Pipeline, custom: &Arc<CustomKind>) -> Result<(), Status> {
    report(pipeline, &custom.definition.name, Progress::InProgress).await;
    let filter = Filter::all(custom.storage_row());
    let cache = pipeline.cache();
    cache.fresh().await.map_err(kstore_registry::error::of_read)?;
    let mut watch = Watch::start(cache.clone(), vec![filter.clone()], WatchStart::State)
        .await
        .map_err(|end| end.status())?;
    let (entries, _) = cache.scan(&filter);
    for some in entries.chunks(PARALLEL) {
        let deletions = some.iter().map(|entry| pipeline.delete_instance(custom, entry).boxed());
        futures::future::try_join_all(deletions.collect::<Vec<_>>()).await?;
    }
    while cache.count(custom.storage_row()) > 0 {
        match watch.next().await {
            Ok(_) => {}
            Err(end) => return Err(end.status()),
        }
    }
    Ok(())
}

async fn report(pipeline: &Pipeline, name: &str, progress: Progress<'_>) {
    let now = meta::format_time(pipeline.nondet().clock.now_seconds());
    let written = pipeline.change_definition(name, |definition| {
        let mut next = definition.clone();
        deletion::set_progress(&mut next, progress, &now).then_some(Decision::Put(next))
    });
    if let Err(status) = written.await {
        tracing::warn!(name, %status, "cannot write the status of a CustomResourceDefinition");
    }
}

#[cfg(test)]
mod tests;
