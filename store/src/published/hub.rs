//! The hub delivers published events to interested watchers, in order and outside the commit path. Lagging watchers
//! read the history (`read::watcher`) and rejoin the hub when they have caught up.

pub(crate) use super::registration::WatchEnd;
use super::registration::{DeliveryMode, OfferResult, Registration};
use super::watcher_index::WatcherIndex;
use crate::types::commit::Commit;
use crate::types::metrics::Metrics;
use crate::types::watch::{Batch, WatchRequest};
use crate::{Limits, Revision};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::Waker;

/// The registry of watchers, and the progress of delivery.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// A copy of `Inner::delivered` that is read without the lock.
    delivered: AtomicI64,
    /// Number of watchers.
    watchers: AtomicUsize,
    /// Notifies the delivery thread that something was published, or that the hub ends.
    signal: Mutex<DeliverySignal>,
    signal_changed: Condvar,
    limits: Limits,
}

/// The state that the hub's lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    watcher_index: WatcherIndex,
    /// Everything up to this revision is queued for the live watchers.
    pub(crate) delivered: Revision,
    next_id: u64,
    /// Watchers with a progress request, by the revision whose delivery wakes them, and by id.
    progress_requests: BTreeMap<(Revision, u64), Arc<Registration>>,
    ended: Option<WatchEnd>,
}

#[derive(Debug, Default)]
struct DeliverySignal {
    published: bool,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(revision: Revision, limits: &Limits) -> Self {
        let inner = Inner {
            watcher_index: WatcherIndex::default(),
            delivered: revision,
            next_id: 0,
            progress_requests: BTreeMap::new(),
            ended: None,
        };
        Self {
            inner: Mutex::new(inner),
            delivered: AtomicI64::new(revision.0),
            watchers: AtomicUsize::new(0),
            signal: Mutex::default(),
            signal_changed: Condvar::new(),
            limits: limits.clone(),
        }
    }

    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    pub(crate) fn delivered(&self) -> Revision {
        Revision(self.delivered.load(Ordering::Acquire))
    }

    /// Number of watchers.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Number of lagging watchers, and number of queued events.
    pub(crate) fn load(&self) -> (u64, u64) {
        let (mut behind, mut pending) = (0, 0);
        self.inner.lock().watcher_index.visit_all(|registration| {
            let queue = registration.queue();
            behind += u64::from(matches!(queue.mode, DeliveryMode::Behind(_)));
            pending += queue.events() as u64;
        });
        (behind, pending)
    }

    /// Registers a watcher. It starts as lagging if its start revision was delivered already.
    pub(crate) fn register(&self, request: WatchRequest, current: Revision) -> Arc<Registration> {
        let mut inner = self.inner.lock();
        let start = if request.start.0 <= 0 { current.next() } else { request.start };
        let mode = match inner.ended {
            Some(ending) => DeliveryMode::Ended(ending),
            None if start <= inner.delivered => DeliveryMode::Behind(start),
            None => DeliveryMode::Live(start),
        };
        let registration = Arc::new(Registration::new(inner.next_id, request, mode, &self.limits));
        inner.next_id += 1;
        inner.watcher_index.insert(registration.clone());
        self.watchers.fetch_add(1, Ordering::Relaxed);
        registration
    }

    pub(crate) fn unregister(&self, registration: &Arc<Registration>) {
        let mut inner = self.inner.lock();
        inner.watcher_index.remove(registration);
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if let Some(requested) = registration.queue().progress_requested {
            inner.progress_requests.remove(&(requested, registration.id));
        }
    }

    /// Whether a thread holds the hub's lock.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// Queues the events of consecutive commits for the interested watchers. One caller at a time.
    pub(crate) fn deliver(&self, commits: &[Arc<Commit>], metrics: &Metrics) {
        let _span = tracing::debug_span!("hub", commits = commits.len()).entered();
        let (mut inner, mut wakers) = (self.inner.lock(), Vec::new());
        for commit in commits {
            debug_assert_eq!(commit.revision, inner.delivered.next(), "revisions are delivered in order");
            inner.deliver(commit, metrics, &mut wakers);
            inner.delivered = commit.revision;
        }
        self.advanced(inner, wakers);
    }

    /// Skips commits that left the window before delivery: every live watcher must read them from history.
    pub(crate) fn skip_to(&self, upto: Revision, metrics: &Metrics) {
        let (mut inner, mut wakers) = (self.inner.lock(), Vec::new());
        let delivered = inner.delivered;
        inner.watcher_index.visit_all(|registration| {
            if registration.skip(delivered) {
                metrics.watchers_lagged.add(1);
                registration.take_waker(&mut wakers);
            }
        });
        inner.delivered = upto;
        self.advanced(inner, wakers);
    }

    /// Publishes the new delivered revision. Unlocks the hub, then wakes the watchers with new events and those whose
    /// progress request is due.
    fn advanced(&self, mut inner: parking_lot::MutexGuard<'_, Inner>, mut wakers: Vec<Waker>) {
        let delivered = inner.delivered;
        self.delivered.store(delivered.0, Ordering::Release);
        while let Some(progress_requests) = inner.progress_requests.first_entry()
            && progress_requests.key().0 <= delivered
        {
            progress_requests.remove().take_waker(&mut wakers);
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Registers a progress request: wakes the watcher when everything up to `revision`, and at least up to its start,
    /// has been delivered. Replaces an earlier pending request.
    pub(crate) fn request_progress(&self, registration: &Arc<Registration>, revision: Revision) {
        let revision = revision.max(registration.request.start);
        let mut inner = self.inner.lock();
        let before = registration.queue().progress_requested.replace(revision);
        if let Some(before) = before {
            inner.progress_requests.remove(&(before, registration.id));
        }
        if revision <= inner.delivered {
            drop(inner);
            registration.waker.wake();
        } else {
            inner.progress_requests.insert((revision, registration.id), registration.clone());
        }
    }

    /// Ends all watches.
    pub(crate) fn end(&self, ending: WatchEnd) {
        let (mut inner, mut wakers) = (self.inner.lock(), Vec::new());
        if inner.ended.is_none() || ending == WatchEnd::Failed {
            inner.ended = Some(ending);
            inner.watcher_index.visit_all(|registration| {
                registration.end(ending);
                registration.take_waker(&mut wakers);
            });
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        self.stop();
    }

    /// Tells the delivery thread that nothing more will be published.
    pub(crate) fn stop(&self) {
        self.signal.lock().ended = true;
        self.signal_changed.notify_all();
    }

    /// Tells the delivery thread that something was published.
    pub(crate) fn notify_published(&self) {
        let mut signal = self.signal.lock();
        if !signal.published {
            signal.published = true;
            self.signal_changed.notify_one();
        }
    }

    /// Waits for [`Hub::notify_published`]. Returns false when everything published was delivered and nothing more will be
    /// published.
    pub(crate) fn wait(&self) -> bool {
        let mut signal = self.signal.lock();
        while !signal.published && !signal.ended {
            self.signal_changed.wait(&mut signal);
        }
        signal.published = false;
        !signal.ended
    }
}

impl Inner {
    fn deliver(&self, commit: &Commit, metrics: &Metrics, wakers: &mut Vec<Waker>) {
        let mut count = |registration: &Registration, batch: Batch| {
            let events = batch.events.len() as u64;
            match registration.offer(batch) {
                OfferResult::Queued => metrics.events_delivered.add(events),
                OfferResult::Lagged => metrics.watchers_lagged.add(1),
                OfferResult::Ignored => return,
            }
            registration.take_waker(wakers);
        };
        if let [event] = &commit.events[..] {
            self.watcher_index.visit(event.key(), |registration| {
                if registration.wants(event) {
                    count(registration, Batch { revision: commit.revision, events: commit.events.clone() });
                }
            });
            return;
        }
        // The events per interested watcher, so that no watcher visits the events of others.
        let mut recipients: BTreeMap<u64, (Arc<Registration>, Vec<usize>)> = BTreeMap::new();
        for (at, event) in commit.events.iter().enumerate() {
            self.watcher_index.visit(event.key(), |registration| {
                if registration.wants(event) {
                    recipients
                        .entry(registration.id)
                        .or_insert_with(|| (registration.clone(), Vec::new()))
                        .1
                        .push(at);
                }
            });
        }
        for (registration, wanted) in recipients.values() {
            let events = if wanted.len() == commit.events.len() {
                commit.events.clone()
            } else {
                wanted.iter().map(|at| commit.events[*at].clone()).collect()
            };
            count(registration, Batch { revision: commit.revision, events });
        }
    }
}
