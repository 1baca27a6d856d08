//! Objects over the storage seam: read from the watch cache, written as one guarded commit with its provenance. Knows keys,
//! revisions and races; does not know users, bodies or HTTP. The verbs have a file each.

mod create;
mod delete;
mod fenced;
mod guaranteed_update;
mod list;
mod namespace;
mod quota;
mod service;
mod stage;
mod unreadable;

pub use delete::{DeletePlan, Deleted, plan_delete, removed_by_update};
pub use guaranteed_update::{Next, UpdateEffect, Updated};
pub use list::{ContinueToken, Listed};
pub(crate) use namespace::{is_terminating, namespaces, terminating};
pub use stage::Stage;
pub(crate) use stage::View;

use crate::cache::{Cache, Entry};
use crate::error;
use crate::fence::Fence;
use crate::limits;
use crate::request::{GetOptions, Target};
use crate::service_ranges::ServiceRanges;
use crate::storage::{Commit, Guard, Outcome, Raw, Write};
use bytes::Bytes;
use kstore_api::kind::Resource;
use kstore_api::object;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use serde_json::Value;
use std::sync::Arc;

/// By what right something is written, and what is remembered of it.
#[derive(Clone, Debug, Default)]
pub struct Mandate {
    /// Who does it and why (see `provenance`), stored with the revision.
    pub note: Bytes,
    /// The term of leadership that must go on at the revision of the write.
    pub fence: Option<Arc<Fence>>,
    /// The transaction that it belongs to: then nothing is stored before [`Registry::commit_stage`].
    pub stage: Option<Arc<Stage>>,
}

/// The registry. Cheap to share by `Arc`.
pub struct Registry {
    cache: Arc<Cache>,
    nondet: Nondet,
    ranges: ServiceRanges,
    /// `None`: quotas bound nothing.
    quotas: Option<quota::QuotaLedgers>,
}

impl Registry {
    /// Over a filled cache and its storage. Services have their addresses in the usual network.
    pub fn new(cache: Arc<Cache>, nondet: Nondet) -> Self {
        Self { cache, nondet, ranges: ServiceRanges::default(), quotas: Some(quota::QuotaLedgers::default()) }
    }

    /// With networks of the server's own for addresses of services.
    #[must_use]
    pub fn with_service_ranges(self, ranges: ServiceRanges) -> Self {
        Self { ranges, ..self }
    }

    /// The networks that the server was told to give services addresses from.
    pub fn service_ranges(&self) -> &ServiceRanges {
        &self.ranges
    }

    /// The cache it reads from.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Reads one object: the newest state, or the state at exactly one revision.
    pub async fn get(&self, target: &Target, options: &GetOptions) -> Result<Arc<Entry>, Status> {
        if options.exact > 0 {
            return self.get_exact(target, options.exact).await;
        }
        self.not_older_than(options.not_older_than).await?;
        self.cache.get(target.resource, &target.key()).ok_or_else(|| self.absent(target))
    }

    async fn get_exact(&self, target: &Target, revision: i64) -> Result<Arc<Entry>, Status> {
        let read = self.cache.storage().get(&target.key(), revision).await;
        let raw = read.map_err(error::of_read)?.ok_or_else(|| not_found(target))?;
        entry_of(target.resource, &raw).map(Arc::new)
    }

    /// Why the cache does not show an object: there is none, or its stored value cannot be read.
    fn absent(&self, target: &Target) -> Status {
        match self.cache.unreadable(&target.key()) {
            Some(unreadable) => unreadable::status(&unreadable),
            None => not_found(target),
        }
    }

    /// Waits until the cache is current; returns the revision at which it is.
    async fn fresh(&self) -> Result<i64, Status> {
        self.cache.fresh().await.map_err(error::of_read)
    }

    /// Waits until the cache is current, and not older than `revision`.
    async fn not_older_than(&self, revision: i64) -> Result<i64, Status> {
        let current = self.fresh().await?;
        if revision <= current {
            return Ok(current);
        }
        let reached = tokio::time::timeout(limits::FRESH_WAIT, self.cache.reached(revision)).await;
        reached
            .ok()
            .filter(|now| *now >= revision)
            .ok_or_else(|| error::revision_too_large(revision, self.cache.revision()))
    }

    /// The cluster as an operation of this mandate sees it.
    fn view(&self, mandate: &Mandate) -> View {
        View::new(self.cache.clone(), mandate.stage.clone())
    }

    /// Commits one object under its guard, with what belongs to it (see `service`), and under its fence; or adds it to the
    /// transaction that it belongs to.
    async fn commit(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write>,
        mandate: &Mandate,
    ) -> Result<Outcome, Status> {
        if let Some(stage) = &mandate.stage {
            return stage.add(&guards, writes).map(|revision| Outcome::Committed { revision });
        }
        let commit = Commit { guards, writes, note: mandate.note.clone() };
        self.commit_whole(commit, mandate).await
    }

    /// The object as a transaction sees it, which relies on it from here on: it must still be so at its revision.
    pub(crate) fn expect_staged(
        &self,
        target: &Target,
        stage: &Arc<Stage>,
    ) -> Result<Option<Arc<Entry>>, Status> {
        let entry = View::new(self.cache.clone(), Some(stage.clone())).get(target.resource, &target.key());
        if stage.object(&target.key()).is_none() {
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            stage.add(&[Guard { key: target.key(), revision }], Vec::new())?;
        }
        Ok(entry)
    }

    /// Stores everything that was staged, at one revision, which it returns; `None` if another writer changed anything that
    /// the transaction relied on: then nothing happened, and the transaction starts over on a newer state.
    ///
    /// # Errors
    /// 413 beyond [`limits::TRANSACTION_KEYS`]; 409 if the mandate's fence is broken.
    pub async fn commit_stage(&self, stage: &Stage, mandate: &Mandate) -> Result<Option<i64>, Status> {
        let commit = stage.commit(mandate.note.clone());
        let keys = commit.guards.len().max(commit.writes.len()) + usize::from(mandate.fence.is_some());
        if keys > limits::TRANSACTION_KEYS {
            let limit = limits::TRANSACTION_KEYS;
            return Err(Status::too_large(&format!("the transaction touches {keys} keys, limit is {limit}")));
        }
        match self.commit_whole(commit, mandate).await? {
            Outcome::Committed { revision } => Ok(Some(revision)),
            Outcome::Lost { .. } => Ok(None),
        }
    }

    async fn commit_whole(&self, commit: Commit, mandate: &Mandate) -> Result<Outcome, Status> {
        match &mandate.fence {
            None => self.cache.storage().commit(commit).await.map_err(error::of_commit),
            Some(fence) => self.commit_fenced(commit, fence).await,
        }
    }
}

/// What a write to a custom kind relies on: the definition by which it was judged.
fn definition_guard(target: &Target) -> Option<Guard> {
    let kind = &target.custom.as_ref()?.kind;
    Some(Guard { key: kind.key.clone(), revision: kind.revision })
}

/// Refuses a write that was judged by a definition which is not the current one: its guard could not hold.
///
/// # Errors
/// [`error::definition_changed`]; the pipeline then begins the request anew.
fn check_definition(cache: &Cache, target: &Target) -> Result<(), Status> {
    let Some(judged) = &target.custom else { return Ok(()) };
    let current = cache.kinds().custom(target.resource).map(|current| current.kind.revision);
    if current == Some(judged.kind.revision) { Ok(()) } else { Err(error::definition_changed(target)) }
}

/// The stored bytes of an object, within the size limit.
fn encode(target: &Target, value: &Value) -> Result<Bytes, Status> {
    let bytes = object::encode_stored(value);
    if bytes.len() > limits::OBJECT_BYTES {
        return Err(error::object_too_large(target, bytes.len()));
    }
    Ok(bytes.into())
}

/// Events go away by themselves after an hour, as in Kubernetes.
fn ttl_seconds(resource: &Resource) -> u64 {
    if resource.plural == "events" { 3600 } else { 0 }
}

fn put(target: &Target, value: Bytes) -> Write {
    Write::Put { key: target.key(), value, ttl_seconds: ttl_seconds(target.resource) }
}

fn entry_of(resource: &'static Resource, raw: &Raw) -> Result<Entry, Status> {
    Entry::from_raw(resource.storage_row(), raw).map_err(Status::internal)
}

/// The entry of what was just stored.
fn new_entry(
    row: &'static Resource,
    target: &Target,
    value: &Value,
    stored: &Bytes,
    revision: i64,
    created: i64,
) -> Result<Arc<Entry>, Status> {
    Entry::new(row, &target.key(), value, stored.clone(), revision, created)
        .map(Arc::new)
        .map_err(Status::internal)
}

fn not_found(target: &Target) -> Status {
    Status::not_found(target.resource, &target.name)
}
