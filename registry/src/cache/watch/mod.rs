//! One watch over one or more kinds, in revision order, from any readable revision: history first, then live,
//! without gap or repetition. The front ends encode its events.
//!
//! **Clients that resume inside a revision.** A transaction writes several objects at one revision. Clients of the REST API know
//! their position only as the `resourceVersion` of the last event they read, and a connection can end between two events of one
//! revision. [`WatchStart::Resume`] is for them: if more than one change of that revision passes the watch's filters, the watch
//! begins with all of them again, as MODIFIED and DELETED, never as ADDED. Every informer handles these correctly: they repeat a
//! state that it already has, or delete an object that it no longer has. The price is that a client that listed at exactly such a
//! revision gets its objects once more. A separate version for each object would avoid that, but a `resourceVersion` would then no
//! longer be the revision that etcd, gRPC clients and `explain` show, and no number is left between two revisions. Watches whose filter
//! passes one change of the revision, as it is after every write of a single object, begin exactly after it. If compaction removed a
//! state that such a repetition needs, the watch ends as expired, and the client lists again.

mod bounded;

use super::Cache;
use super::bound::ReadBound;
use super::change::{Change, EventType};
use super::filter::Filter;
use super::kind::Kind;
use super::selection::Snapshot;
use super::watchers::{Delivery, Listening, Queue, QueueContent};
use crate::entry::Entry;
use bounded::HeldDeliveries;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::limits;
use kstore_storage::storage::{RawBatch, RawEvent, RawWatch, ReadError};
use kstore_storage::storage_key::ROOT;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The start position of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchStart {
    /// The watch begins with the current state: see [`Watch::initial`].
    State,
    /// The watch begins with the first change after this revision, all of whose changes the client has.
    After(i64),
    /// The watch begins after this revision, but repeats its changes if there are several: the client may have only some of them.
    Resume(i64),
}

/// Deliveries of a watch, and the progress of the watch.
#[derive(Debug)]
pub struct Batch {
    /// Deliveries in revision order; a revision is never split.
    pub deliveries: Vec<Delivery>,
    /// The revision up to which all matching changes have been delivered, including this batch.
    pub revision: i64,
}

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnd {
    /// The start revision is no longer in the history: list, and watch from there.
    #[error("too old resource version: {after} ({oldest})")]
    Expired {
        /// The requested start revision.
        after: i64,
        /// The oldest possible start revision.
        oldest: i64,
    },
    /// The watch fell too far behind: resume from the last revision seen.
    #[error("the watch fell behind and was ended; resume from the last revision seen")]
    Overrun,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Closed,
    /// The storage failed.
    #[error("{0}")]
    Failed(String),
    /// The watch cannot go on: its bound refuses it, or an object cannot be read.
    #[error("{}", .0.message)]
    Refused(Box<Status>),
}

impl WatchEnd {
    /// The status of a watch that ended, or could not begin.
    pub fn status(&self) -> Status {
        match self {
            Self::Expired { .. } => Status::expired(self.to_string()),
            Self::Overrun => Status::too_many_requests(self.to_string(), 1),
            Self::Closed => Status::service_unavailable(self.to_string()),
            Self::Failed(message) => Status::internal(message.clone()),
            Self::Refused(status) => (**status).clone(),
        }
    }
}

/// An open watch. Ends when dropped.
pub struct Watch {
    cache: Arc<Cache>,
    filters: Vec<Filter>,
    source: Source,
    /// The initial objects; `None` unless the watch starts with the state.
    initial: Option<Vec<(u32, Arc<Entry>)>>,
    revision: i64,
    /// Whether the client may have seen only a part of the changes of `revision`, so that they must be
    /// repeated.
    repeats: bool,
    /// Whether changes are left in the queue that can be taken at once.
    is_behind: bool,
    /// Values that were compared with the history since other tasks ran.
    checks: usize,
    /// The bound of the request, with the deliveries that it holds; `None` for most requests.
    held: Option<Box<HeldDeliveries>>,
}

/// The source of a watch's changes.
enum Source {
    /// Reads the storage's history until the kept recent changes reach back far enough.
    History(Box<dyn RawWatch>),
    /// Registered with the cache under this id. `repeated` are deliveries of the revision from which the watch resumes.
    Live { id: u64, queue: Arc<Queue>, repeated: Vec<Delivery> },
    /// Nothing follows: a bound shows the state only.
    Silent,
    /// The watch could not begin.
    Ended(WatchEnd),
}

impl Watch {
    /// Begins a watch.
    pub async fn start(cache: Arc<Cache>, filters: Vec<Filter>, start: WatchStart) -> Result<Self, WatchEnd> {
        let begun = match start {
            WatchStart::State => Self::from_state(cache.clone(), filters).await,
            WatchStart::After(revision) => {
                Self::from_revision(cache.clone(), filters, revision, false).await?
            }
            WatchStart::Resume(revision) => {
                Self::from_revision(cache.clone(), filters, revision, true).await?
            }
        };
        // A cache that closes marks itself before it ends its watches: a watch that began after that would
        // wait for ever.
        if cache.is_closed() { Err(WatchEnd::Closed) } else { Ok(begun) }
    }

    /// A watch that ends at once, with the reason in its stream.
    pub fn ended(cache: Arc<Cache>, filters: Vec<Filter>, end: WatchEnd) -> Self {
        Self::of(cache, filters, Source::Ended(end), 0)
    }

    /// A watch at a revision that delivers no change.
    pub fn silent(cache: Arc<Cache>, filters: Vec<Filter>, revision: i64) -> Self {
        Self::of(cache, filters, Source::Silent, revision)
    }

    fn of(cache: Arc<Cache>, filters: Vec<Filter>, source: Source, revision: i64) -> Self {
        Self {
            cache,
            filters,
            source,
            initial: None,
            revision,
            repeats: false,
            is_behind: false,
            checks: 0,
            held: None,
        }
    }

    async fn from_state(cache: Arc<Cache>, filters: Vec<Filter>) -> Self {
        let (source, snapshots, revision) = {
            let mut state = cache.state.write();
            let revision = cache.revision();
            let source = match state.unreadable_in(&filters) {
                Some(status) => Source::Ended(WatchEnd::Refused(Box::new(status))),
                None => state.register(&filters, revision),
            };
            let begun = if matches!(source, Source::Ended(_)) { &[][..] } else { &filters[..] };
            let snapshots: Vec<Snapshot> =
                begun.iter().map(|filter| state.snapshot(filter, revision)).collect();
            (source, snapshots, revision)
        };
        let mut initial = Vec::new();
        for (selector, (filter, snapshot)) in (0u32..).zip(filters.iter().zip(snapshots)) {
            let found = snapshot.select_in_steps(filter, "", 0).await.entries;
            initial.extend(found.into_iter().map(|entry| (selector, entry)));
        }
        Self {
            cache,
            filters,
            source,
            initial: Some(initial),
            revision,
            repeats: false,
            is_behind: false,
            checks: 0,
            held: None,
        }
    }

    async fn from_revision(
        cache: Arc<Cache>,
        filters: Vec<Filter>,
        revision: i64,
        repeats: bool,
    ) -> Result<Self, WatchEnd> {
        let resumed = cache.state.write().resume(&filters, revision, repeats);
        if let Some(source) = resumed {
            return Ok(Self::of(cache, filters, source, revision));
        }
        let history = cache.storage.watch(ROOT, revision - i64::from(repeats)).await;
        let history = history.map_err(|error| WatchEnd::of(error, revision))?;
        let mut begun = Self::of(cache, filters, Source::History(history), revision);
        begun.repeats = repeats;
        Ok(begun)
    }

    /// The watch within a bound. `state` replaces the initial objects, as of the watch's revision.
    #[must_use]
    pub fn within(mut self, bound: Arc<dyn ReadBound>, state: Option<Vec<(u32, Arc<Entry>)>>) -> Self {
        self.held = Some(Box::new(HeldDeliveries::new(bound, self.revision)));
        self.initial = state.or(self.initial.take());
        self
    }

    /// Takes the initial objects: (selector, object) in order of selectors and keys, as of
    /// [`Watch::revision`]. Empty unless the watch started with [`WatchStart::State`], or if they were taken
    /// before.
    pub fn initial(&mut self) -> Vec<(u32, Arc<Entry>)> {
        self.initial.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether the watch begins with the current state. A watch that ended as it began has none, and an empty one would be false.
    pub fn starts_with_state(&self) -> bool {
        self.initial.is_some() && !self.has_ended()
    }

    /// Whether the watch shows nothing more and its end is known.
    pub fn has_ended(&self) -> bool {
        matches!(self.source, Source::Ended(_))
    }

    /// The revision up to which all matching changes have been returned.
    pub fn revision(&self) -> i64 {
        self.held.as_ref().map_or(self.revision, |held| held.shown())
    }

    /// The cache that the watch reads.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The filters of the watch, by selector.
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// Waits for deliveries. Cancel safe.
    pub async fn next(&mut self) -> Result<Batch, WatchEnd> {
        match self.held {
            None => self.next_unbound().await,
            // Boxed because it is rare: otherwise the future of every watch would be larger.
            Some(_) => Box::pin(self.next_within_bound()).await,
        }
    }

    async fn next_unbound(&mut self) -> Result<Batch, WatchEnd> {
        loop {
            if let Some(batch) = self.poll_once().await? {
                return Ok(batch);
            }
        }
    }

    /// The watch's progress and any deliveries that are queued, without waiting.
    pub fn progress(&mut self) -> Result<Batch, WatchEnd> {
        match self.held {
            None => self.progress_unbound(),
            Some(_) => self.progress_within_bound(),
        }
    }

    fn progress_unbound(&mut self) -> Result<Batch, WatchEnd> {
        match &self.source {
            Source::History(_) | Source::Silent => {
                Ok(Batch { deliveries: Vec::new(), revision: self.revision })
            }
            Source::Live { .. } => self.take(),
            Source::Ended(end) => Err(end.clone()),
        }
    }

    /// Makes one step; `None` if it yielded nothing for this watch.
    async fn poll_once(&mut self) -> Result<Option<Batch>, WatchEnd> {
        let batch = match &mut self.source {
            Source::Ended(end) => return Err(end.clone()),
            Source::Silent => return std::future::pending().await,
            Source::Live { queue, .. } => {
                let queue = queue.clone();
                if std::mem::take(&mut self.is_behind) {
                    // Other tasks run before further changes are evaluated.
                    tokio::task::yield_now().await;
                }
                let batch = self.take()?;
                if batch.deliveries.is_empty() {
                    if !self.is_behind {
                        queue.woken().await;
                    }
                    return Ok(None);
                }
                batch
            }
            Source::History(history) => {
                let resumed = self.cache.state.write().resume(&self.filters, self.revision, self.repeats);
                if let Some(live) = resumed {
                    (self.source, self.repeats) = (live, false);
                    return Ok(None);
                }
                if self.checks >= limits::SELECTION_CHECKS {
                    self.checks = 0;
                    tokio::task::yield_now().await;
                }
                let raw = history.next().await.ok_or(WatchEnd::Closed)?;
                let raw = raw.map_err(|error| WatchEnd::of(error, self.revision))?;
                let repeated = std::mem::take(&mut self.repeats) && raw.revision <= self.revision;
                self.checks += raw.events.len() * (limits::CHANGE_CHECKS + requirements(&self.filters));
                let mut deliveries = self.deliveries(&raw);
                if repeated {
                    if self.is_cut_by_compaction(&raw) {
                        let (after, oldest) = (self.revision, self.revision + 1);
                        return Err(WatchEnd::Expired { after, oldest });
                    }
                    deliveries = again(deliveries);
                }
                self.revision = raw.revision.max(self.revision);
                Batch { deliveries, revision: self.revision }
            }
        };
        Ok((!batch.deliveries.is_empty()).then_some(batch))
    }

    /// Takes what is queued; of changes that are still to be evaluated, as many as are cheap.
    fn take(&mut self) -> Result<Batch, WatchEnd> {
        let Source::Live { queue, repeated, .. } = &mut self.source else {
            unreachable!("only live watches have a queue")
        };
        if !repeated.is_empty() {
            self.is_behind = true;
            return Ok(Batch { deliveries: std::mem::take(repeated), revision: self.revision });
        }
        // The revision is loaded first: all changes of the cache up to it are in the queue.
        let revision = self.cache.revision();
        let most = || limits::SELECTION_CHECKS / (1 + requirements(&self.filters));
        let (deliveries, reached) = match queue.take(revision, most) {
            QueueContent::Deliveries(deliveries) => (deliveries.into(), revision),
            QueueContent::Unevaluated(changes, reached) => {
                (changes.iter().flat_map(|change| seen(&self.filters, change)).collect(), reached)
            }
            QueueContent::Overrun => return Err(WatchEnd::Overrun),
            QueueContent::Closed => return Err(WatchEnd::Closed),
            QueueContent::Refused(status) => return Err(WatchEnd::Refused(Box::new((*status).clone()))),
        };
        self.revision = reached.max(self.revision);
        self.is_behind = reached < revision;
        Ok(Batch { deliveries, revision: self.revision })
    }

    /// Whether compaction removed a state that decides which events the changes of a revision are. The
    /// revision then cannot be repeated, and the client must list again. At the newest revision a list has
    /// the same revision, so the client returns with it until the next write. Automatic compaction keeps the
    /// states before the newest revision, and each apiserver renews its own Lease every ten seconds.
    fn is_cut_by_compaction(&self, raw: &RawBatch) -> bool {
        let lacks_state_before = |event: &RawEvent| {
            let is_created = event.current.as_ref().is_some_and(|raw| raw.created == raw.revision);
            event.previous.is_none() && !is_created
        };
        let kinds = self.cache.kinds();
        let is_watched = |event: &&RawEvent| {
            kinds
                .of_key(&event.key)
                .is_some_and(|row| self.filters.iter().any(|filter| filter.resource.storage == row.storage))
        };
        let mut watched = raw.events.iter().filter(is_watched);
        watched.clone().nth(1).is_some() && watched.any(lacks_state_before)
    }

    fn deliveries(&self, raw: &RawBatch) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        let of_bound = self.held.as_ref().and_then(|held| held.kinds());
        let kinds = of_bound.unwrap_or_else(|| self.cache.kinds());
        for event in &raw.events {
            // Most of the history is about other kinds: it is not parsed.
            let Some(resource) = kinds.of_key(&event.key) else { continue };
            if !self.filters.iter().any(|filter| filter.resource.storage == resource.storage) {
                continue;
            }
            let Some(change) = change_of(raw.revision, resource, event) else { continue };
            deliveries.extend(seen(&self.filters, &change));
        }
        deliveries
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Source::Live { id, .. } = self.source {
            let mut state = self.cache.state.write();
            for (selector, filter) in (0u64..).zip(&self.filters) {
                if let Some(kind) = state.kinds.get_mut(super::root(filter.resource)) {
                    kind.watchers.remove(id + selector, filter);
                }
            }
        }
    }
}

impl super::CacheState {
    /// The error of a watch whose initial state would leave out objects that cannot be read.
    fn unreadable_in(&self, filters: &[Filter]) -> Option<Status> {
        let filters = filters.iter().filter(|_| self.unreadable.are_reported);
        filters.map(|filter| self.unreadable.refusal(filter)).find_map(|refusal| refusal)
    }

    /// Registers all filters with one queue for changes after `revision`. A watch with an outdated filter
    /// ends at once: its client resumes, and the new definition then evaluates its fields.
    fn register(&mut self, filters: &[Filter], revision: i64) -> Source {
        if filters.iter().any(|filter| self.is_outdated(filter)) {
            return Source::Ended(WatchEnd::Overrun);
        }
        let queue = Arc::new(Queue::default());
        let id = self.next_listener;
        self.next_listener += filters.len() as u64;
        let cost: usize = filters.iter().map(Filter::cost_of_feeding).sum();
        let evaluates = cost > limits::FED_REQUIREMENTS;
        for (selector, filter) in (0u32..).zip(filters) {
            if let Some(kind) = self.kinds.get_mut(super::root(filter.resource)) {
                let listening = Listening { selector, evaluates, after: revision, queue: &queue };
                kind.watchers.add(id + u64::from(selector), filter.clone(), listening);
            }
        }
        Source::Live { id, queue, repeated: Vec::new() }
    }

    /// Registers the watch, with the missed changes from the kinds' rings in its queue. `None` if a ring does
    /// not reach back to `revision`. With `repeats`, also queues the changes of `revision` itself.
    fn resume(&mut self, filters: &[Filter], revision: i64, repeats: bool) -> Option<Source> {
        if filters.iter().any(|filter| self.is_outdated(filter)) {
            return Some(Source::Ended(WatchEnd::Overrun));
        }
        let roots: BTreeSet<&str> = filters.iter().map(|filter| super::root(filter.resource)).collect();
        let kinds = || roots.iter().filter_map(|root| self.kinds.get(root));
        let reaches_back = |kind: &Kind| match repeats && revision <= kind.changed {
            true => kind.recent.start() < revision,
            false => kind.recent.start() <= revision,
        };
        if !kinds().all(reaches_back) {
            return None;
        }
        let changes = kinds().flat_map(|kind| kind.recent.after(revision - i64::from(repeats)));
        let mut missed: Vec<(u64, Arc<Change>)> =
            changes.map(|(number, change)| (number, change.clone())).collect();
        // In the order of the changes, across kinds.
        missed.sort_by_key(|(number, _)| *number);
        let newer = missed.partition_point(|(_, change)| change.revision <= revision);
        let first = missed[..newer].iter().flat_map(|(_, change)| seen(filters, change)).collect();
        let mut source = self.register(filters, revision);
        let Source::Live { queue, repeated, .. } = &mut source else {
            unreachable!("a registered watch is live")
        };
        *repeated = again(first);
        // The watch evaluates them: under the lock of the cache, that would delay everybody.
        missed[newer..].iter().for_each(|(_, change)| queue.push_unevaluated(change));
        Some(source)
    }
}

/// The changes of one revision for a client that may have seen some of them. Empty if there is only one,
/// which the client has seen.
fn again(mut deliveries: Vec<Delivery>) -> Vec<Delivery> {
    if deliveries.len() < 2 {
        return Vec::new();
    }
    for delivery in &mut deliveries {
        if delivery.seen == EventType::Added {
            delivery.seen = EventType::Modified;
        }
    }
    deliveries
}

/// The number of values with which a change is compared.
fn requirements(filters: &[Filter]) -> usize {
    filters.iter().map(Filter::requirements).sum()
}

/// The deliveries of a change to the filters that it matches, in their order.
fn seen<'a>(filters: &'a [Filter], change: &'a Arc<Change>) -> impl Iterator<Item = Delivery> + 'a {
    let storage = change.any().resource.storage;
    let of_kind = (0u32..).zip(filters).filter(move |(_, filter)| filter.resource.storage == storage);
    of_kind.filter_map(|(selector, filter)| {
        Some(Delivery { selector, seen: change.seen_by(filter)?, change: change.clone() })
    })
}

fn change_of(revision: i64, resource: &'static Resource, event: &RawEvent) -> Option<Arc<Change>> {
    let entry = |raw: &Option<kstore_storage::storage::Raw>| {
        raw.as_ref().and_then(|raw| Entry::from_raw(resource, raw).ok()).map(Arc::new)
    };
    let (new, old) = (entry(&event.current), entry(&event.previous));
    (new.is_some() || old.is_some()).then(|| Arc::new(Change::new(revision, new, old)))
}

impl WatchEnd {
    /// The end of a watch whose progress was `after`.
    fn of(error: ReadError, after: i64) -> Self {
        match error {
            ReadError::Compacted { oldest } => Self::Expired { after, oldest },
            ReadError::Future { .. } | ReadError::Unavailable(_) | ReadError::Failed(_) => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl EventType {
    /// Whether the watcher still has the object after the event.
    pub fn is_put(self) -> bool {
        !matches!(self, Self::Deleted)
    }
}

#[cfg(test)]
mod tests;
