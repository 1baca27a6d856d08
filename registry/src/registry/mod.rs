//! Objects over the storage seam: read from the watch cache, written as one guarded commit with its
//! provenance. Deals with keys, revisions and races, not with users, bodies or HTTP. Each verb has its own
//! file.

mod create;
mod delete;
#[cfg(test)]
mod encryption_tests;
mod fenced;
mod guaranteed_update;
mod list;
mod namespace;
mod quota;
mod service;
#[cfg(test)]
mod uncommitted_tests;
mod unreadable;

use crate::cache::Cache;
use crate::entry::{Entry, UncommittedEntry};
use crate::error;
use crate::fence::Fence;
use crate::request::{GetOptions, Target};
use crate::service_ranges::ServiceRanges;
use crate::stage::{Stage, View};
use bytes::Bytes;
pub use delete::{DeletePlan, Deleted, Shown, has_plain_deletion, plan_delete, removed_by_update};
pub use guaranteed_update::{Decision, UpdateEffect, Updated};
use kstore_api::object;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_nondet::Nondet;
use kstore_storage::limits;
use kstore_storage::storage::{Commit, CommitGroup, Guard, Outcome, Raw, Write};
pub use list::{ContinueToken, Listed};
pub use namespace::{is_terminating, namespaces, terminating};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The context of a write: its provenance note, the leadership term it is fenced by, and the transaction or the group that it
/// belongs to.
#[derive(Clone, Debug, Default)]
pub struct WriteContext {
    /// The encoded record of the writer and its reasons (see `provenance`), stored with the revision.
    pub note: Bytes,
    /// The leadership term that must still hold at the revision of the write.
    pub fence: Option<Arc<Fence>>,
    /// The transaction that the write belongs to. Its writes are stored only by [`Registry::commit_stage`].
    pub stage: Option<Arc<Stage>>,
    /// The group of requests with which the write is committed; `None`: alone.
    pub group: Option<Arc<CommitGroup>>,
}

/// Stores and reads objects: keys, guards, quotas, Service addresses. Cheap to share by `Arc`.
pub struct Registry {
    cache: Arc<Cache>,
    nondet: Nondet,
    ranges: ServiceRanges,
    /// `None` if the plugin ResourceQuota is disabled.
    quotas: Option<quota::QuotaAdmission>,
    /// Lifetime of Events in whole seconds; 0 if unlimited.
    event_ttl_seconds: u64,
}

impl Registry {
    /// A registry over a filled cache and its storage, with the default ranges of Service addresses.
    pub fn new(cache: Arc<Cache>, nondet: Nondet) -> Self {
        Self {
            cache,
            nondet,
            ranges: ServiceRanges::default(),
            quotas: Some(quota::QuotaAdmission::default()),
            event_ttl_seconds: limits::EVENT_TTL.as_secs(),
        }
    }

    /// Sets how long Events live after each write, in whole seconds; less than a second is without end, as with kube-apiserver.
    #[must_use]
    pub fn with_event_ttl(self, ttl: Duration) -> Self {
        Self { event_ttl_seconds: ttl.as_secs(), ..self }
    }

    /// Sets the address ranges of Services.
    #[must_use]
    pub fn with_service_ranges(self, ranges: ServiceRanges) -> Self {
        Self { ranges, ..self }
    }

    /// The configured address ranges of Services.
    pub fn service_ranges(&self) -> &ServiceRanges {
        &self.ranges
    }

    /// The cache that the registry reads from.
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

    /// The error for an object that is not in the cache: it does not exist, or its stored value cannot be
    /// read.
    fn absent(&self, target: &Target) -> Status {
        match self.cache.unreadable(&target.key()) {
            Some(unreadable) => self.status_of(&unreadable),
            None => not_found(target),
        }
    }

    /// The write of an object. Events of both groups share their storage, and expire.
    fn put(&self, target: &Target, value: Bytes) -> Write {
        let is_event = target.resource.storage_row().is("", "events");
        let ttl_seconds = if is_event { self.event_ttl_seconds } else { 0 };
        Write::Put { key: target.key(), value, ttl_seconds }
    }

    /// Waits until the cache is current; returns the revision at which it is.
    async fn fresh(&self) -> Result<i64, Status> {
        self.cache.fresh().await.map_err(error::of_read)
    }

    /// Waits until the cache is current and has reached `revision`.
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

    /// The cluster as the write with this context sees it.
    fn view(&self, context: &WriteContext) -> View {
        View::new(self.cache.clone(), context.stage.clone())
    }

    /// Commits one object under its guard and its fence, together with the writes of its claims (see
    /// `service`); or adds all of it to the transaction of the context. `entry` is that of the object, if one is stored.
    async fn commit(
        &self,
        guards: Vec<Guard>,
        writes: Vec<Write>,
        entry: Option<&UncommittedEntry>,
        context: &WriteContext,
    ) -> Result<Outcome, Status> {
        if let Some(stage) = &context.stage {
            return stage.add_made(&guards, writes, entry).map(|revision| Outcome::Committed { revision });
        }
        let commit = Commit { guards, writes, note: context.note.clone() };
        self.commit_whole(commit, entry.map_or(&[], std::slice::from_ref), context).await
    }

    /// Commits each guarded write at a revision of its own, in one group where neither a transaction nor a fence binds them together.
    /// Returns the outcomes in order; one that fails does not keep the others from being executed.
    async fn commit_each(
        &self,
        writes: Vec<(Guard, Write)>,
        context: &WriteContext,
    ) -> Vec<Result<Outcome, Status>> {
        if writes.is_empty() {
            return Vec::new();
        }
        if context.stage.is_some() || context.fence.is_some() {
            let mut outcomes = Vec::with_capacity(writes.len());
            for (guard, write) in writes {
                outcomes.push(self.commit(vec![guard], vec![write], None, context).await);
            }
            return outcomes;
        }
        let commit =
            |(guard, write)| Commit { guards: vec![guard], writes: vec![write], note: context.note.clone() };
        let outcomes = self.cache.storage().commit_each(writes.into_iter().map(commit).collect()).await;
        outcomes.into_iter().map(|outcome| outcome.map_err(error::of_commit)).collect()
    }

    /// The object as a transaction sees it. The transaction's commit guards that the object is still
    /// unchanged.
    pub fn expect_staged(&self, target: &Target, stage: &Arc<Stage>) -> Result<Option<Arc<Entry>>, Status> {
        let entry = View::new(self.cache.clone(), Some(stage.clone())).get(target.resource, &target.key());
        if stage.object(&target.key()).is_none() {
            let revision = entry.as_ref().map_or(0, |entry| entry.revision);
            stage.add(&[Guard { key: target.key(), revision }], Vec::new())?;
        }
        Ok(entry)
    }

    /// Stores all staged writes at one revision, and returns it. `None` if another writer changed an object
    /// that the transaction relied on: nothing is stored then, and the transaction starts over on a newer
    /// state.
    ///
    /// # Errors
    /// 413 beyond [`limits::TRANSACTION_KEYS`]; 409 if the fence's term has ended.
    pub async fn commit_stage(&self, stage: &Stage, context: &WriteContext) -> Result<Option<i64>, Status> {
        let commit = stage.commit(context.note.clone());
        let keys = commit.guards.len().max(commit.writes.len()) + usize::from(context.fence.is_some());
        if keys > limits::TRANSACTION_KEYS {
            let limit = limits::TRANSACTION_KEYS;
            return Err(Status::too_large(&format!("the transaction touches {keys} keys, limit is {limit}")));
        }
        match self.commit_whole(commit, &stage.entries(), context).await? {
            Outcome::Committed { revision } => Ok(Some(revision)),
            Outcome::Lost { .. } => Ok(None),
        }
    }

    /// Commits, and announces to the watch cache the entries of the objects that the commit writes.
    async fn commit_whole(
        &self,
        commit: Commit,
        entries: &[UncommittedEntry],
        context: &WriteContext,
    ) -> Result<Outcome, Status> {
        entries.iter().for_each(|entry| self.cache.announce(entry.clone()));
        let outcome = match &context.fence {
            None => match &context.group {
                None => self.cache.storage().commit(commit).await.map_err(error::of_commit),
                Some(group) => group.commit(commit).await.map_err(error::of_commit),
            },
            Some(fence) => self.commit_fenced(commit, fence).await,
        };
        if !matches!(outcome, Ok(Outcome::Committed { .. })) {
            entries.iter().for_each(|entry| self.cache.retract(entry));
        }
        outcome
    }
}

/// Guards that the definition of a custom kind is still the one that judged the write.
fn definition_guard(target: &Target) -> Option<Guard> {
    let kind = &target.custom.as_ref()?.kind;
    Some(Guard { key: kind.key.clone(), revision: kind.revision })
}

/// Refuses a write judged by a definition that is no longer the current one: its guard would fail.
///
/// # Errors
/// [`error::definition_changed`]; the pipeline then starts the request over.
fn check_definition(cache: &Cache, target: &Target) -> Result<(), Status> {
    let Some(judged) = &target.custom else { return Ok(()) };
    let current = cache.kinds().custom(target.resource).map(|current| current.kind.revision);
    if current == Some(judged.kind.revision) { Ok(()) } else { Err(error::definition_changed(target)) }
}

/// The object's stored bytes, within the size limit.
fn encode(target: &Target, value: &Value) -> Result<Bytes, Status> {
    within_limit(target, object::encode_stored(value).into())
}

/// The stored bytes of an object with the deletion members of `value`, within the size limit.
fn marked(target: &Target, entry: &Entry, value: &Value) -> Result<Bytes, Status> {
    within_limit(target, entry.stored_as_marked(value).map_err(Status::internal)?)
}

fn within_limit(target: &Target, bytes: Bytes) -> Result<Bytes, Status> {
    match bytes.len() > limits::OBJECT_BYTES {
        true => Err(error::object_too_large(target, bytes.len())),
        false => Ok(bytes),
    }
}

fn entry_of(resource: &'static Resource, raw: &Raw) -> Result<Entry, Status> {
    Entry::from_raw(resource.storage_row(), raw).map_err(Status::internal)
}

/// The entry of an object that is about to be stored.
fn uncommitted_entry(target: &Target, value: &Value, stored: &Bytes) -> Result<UncommittedEntry, Status> {
    let row = target.resource.storage_row();
    UncommittedEntry::new(row, &target.key(), value, stored.clone()).map_err(Status::internal)
}

fn not_found(target: &Target) -> Status {
    Status::not_found(target.resource, &target.name)
}
