//! The hub delivers published events to interested watchers, in order and outside the commit path. Lagging watchers
//! read `history` and rejoin the hub when they have caught up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::{Condvar, Mutex};

pub(crate) use super::registration::WatchEnd;
use super::registration::{DeliveryMode, OfferResult, Registration};
use super::watcher_index::WatcherIndex;
use super::{Batch, WatchRequest};
use crate::commit::Commit;
use crate::metrics::Metrics;
use crate::{Limits, Revision};

/// The registry of watchers, and the progress of delivery.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// A copy of `Inner::delivered` that is read without the lock.
    delivered: AtomicI64,
    /// Number of watchers.
    watchers: AtomicUsize,
    /// Notifies the delivery thread that something was published, or that the hub ends.
    bell: Mutex<DeliverySignal>,
    rung: Condvar,
    limits: Limits,
}

/// The state that the hub's lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    interests: WatcherIndex,
    /// Everything up to this revision is queued for the live watchers.
    pub(crate) delivered: Revision,
    next_id: u64,
    /// Watchers with a progress request, by the revision whose delivery wakes them, and by id.
    asking: BTreeMap<(Revision, u64), Arc<Registration>>,
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
            interests: WatcherIndex::default(),
            delivered: revision,
            next_id: 0,
            asking: BTreeMap::new(),
            ended: None,
        };
        Self {
            inner: Mutex::new(inner),
            delivered: AtomicI64::new(revision.0),
            watchers: AtomicUsize::new(0),
            bell: Mutex::default(),
            rung: Condvar::new(),
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
        self.inner.lock().interests.visit_all(|slot| {
            let queue = slot.queue();
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
        let slot = Arc::new(Registration::new(inner.next_id, request, mode, &self.limits));
        inner.next_id += 1;
        inner.interests.insert(slot.clone());
        self.watchers.fetch_add(1, Ordering::Relaxed);
        slot
    }

    pub(crate) fn unregister(&self, slot: &Arc<Registration>) {
        let mut inner = self.inner.lock();
        inner.interests.remove(slot);
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if let Some(asked) = slot.queue().asked {
            inner.asking.remove(&(asked, slot.id));
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
        inner.interests.visit_all(|slot| {
            if slot.skip(delivered) {
                metrics.watchers_lagged.add(1);
                slot.take_waker(&mut wakers);
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
        while let Some(asking) = inner.asking.first_entry()
            && asking.key().0 <= delivered
        {
            asking.remove().take_waker(&mut wakers);
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Registers a progress request: wakes the watcher when everything up to `revision`, and at least up to its start,
    /// has been delivered. Replaces an earlier pending request.
    pub(crate) fn ask(&self, slot: &Arc<Registration>, revision: Revision) {
        let revision = revision.max(slot.request.start);
        let mut inner = self.inner.lock();
        let before = slot.queue().asked.replace(revision);
        if let Some(before) = before {
            inner.asking.remove(&(before, slot.id));
        }
        if revision <= inner.delivered {
            drop(inner);
            slot.waker.wake();
        } else {
            inner.asking.insert((revision, slot.id), slot.clone());
        }
    }

    /// Ends all watches.
    pub(crate) fn end(&self, ending: WatchEnd) {
        let (mut inner, mut wakers) = (self.inner.lock(), Vec::new());
        if inner.ended.is_none() || ending == WatchEnd::Failed {
            inner.ended = Some(ending);
            inner.interests.visit_all(|slot| {
                slot.end(ending);
                slot.take_waker(&mut wakers);
            });
        }
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
        self.stop();
    }

    /// Tells the delivery thread that nothing more will be published.
    pub(crate) fn stop(&self) {
        self.bell.lock().ended = true;
        self.rung.notify_all();
    }

    /// Tells the delivery thread that something was published.
    pub(crate) fn ring(&self) {
        let mut bell = self.bell.lock();
        if !bell.published {
            bell.published = true;
            self.rung.notify_one();
        }
    }

    /// Waits for [`Hub::ring`]. Returns false when everything published was delivered and nothing more will be
    /// published.
    pub(crate) fn wait(&self) -> bool {
        let mut bell = self.bell.lock();
        while !bell.published && !bell.ended {
            self.rung.wait(&mut bell);
        }
        bell.published = false;
        !bell.ended
    }
}

impl Inner {
    fn deliver(&self, commit: &Commit, metrics: &Metrics, wakers: &mut Vec<Waker>) {
        let mut count = |slot: &Registration, batch: Batch| {
            let events = batch.events.len() as u64;
            match slot.offer(batch) {
                OfferResult::Queued => metrics.events_delivered.add(events),
                OfferResult::Lagged => metrics.watchers_lagged.add(1),
                OfferResult::Ignored => return,
            }
            slot.take_waker(wakers);
        };
        if let [event] = &commit.events[..] {
            self.interests.visit(event.key(), |slot| {
                if slot.wants(event) {
                    count(slot, Batch { revision: commit.revision, events: commit.events.clone() });
                }
            });
            return;
        }
        // The events per interested watcher, so that no watcher visits the events of others.
        let mut concerned: BTreeMap<u64, (Arc<Registration>, Vec<usize>)> = BTreeMap::new();
        for (at, event) in commit.events.iter().enumerate() {
            self.interests.visit(event.key(), |slot| {
                if slot.wants(event) {
                    concerned.entry(slot.id).or_insert_with(|| (slot.clone(), Vec::new())).1.push(at);
                }
            });
        }
        for (slot, wanted) in concerned.values() {
            let events = if wanted.len() == commit.events.len() {
                commit.events.clone()
            } else {
                wanted.iter().map(|at| commit.events[*at].clone()).collect()
            };
            count(slot, Batch { revision: commit.revision, events });
        }
    }
}
