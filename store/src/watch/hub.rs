//! Delivers what was published to the watchers that want it, in order, off the commit path. Watchers that are behind read
//! `history` and join here when they are level.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::{Condvar, Mutex};

use super::interests::Interests;
pub(crate) use super::slot::Ending;
use super::slot::{Mode, Offer, Slot};
use super::{Batch, WatchRequest};
use crate::commit::Commit;
use crate::metrics::Metrics;
use crate::{Limits, Revision};

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    /// `Inner::delivered`, to be read without the lock.
    delivered: AtomicI64,
    /// How many watchers there are.
    watchers: AtomicUsize,
    /// Something was published, or the hub ends; for a delivering thread.
    bell: Mutex<Bell>,
    rung: Condvar,
    limits: Limits,
}

/// What the hub's lock protects.
#[derive(Debug)]
pub(crate) struct Inner {
    interests: Interests,
    /// Everything up to this revision is in the queues of the watchers that are live.
    pub(crate) delivered: Revision,
    next_id: u64,
    /// Watchers to wake when a revision has been delivered, since they were asked for progress; by revision and id.
    asking: BTreeMap<(Revision, u64), Arc<Slot>>,
    ended: Option<Ending>,
}

#[derive(Debug, Default)]
struct Bell {
    published: bool,
    ended: bool,
}

impl Hub {
    pub(crate) fn new(revision: Revision, limits: &Limits) -> Self {
        let inner = Inner {
            interests: Interests::default(),
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

    /// How many watchers there are.
    pub(crate) fn watchers(&self) -> usize {
        self.watchers.load(Ordering::Relaxed)
    }

    /// How many watchers are behind, and how many events wait in queues.
    pub(crate) fn load(&self) -> (u64, u64) {
        let (mut behind, mut pending) = (0, 0);
        self.inner.lock().interests.visit_all(|slot| {
            let queue = slot.queue();
            behind += u64::from(matches!(queue.mode, Mode::Behind(_)));
            pending += queue.events() as u64;
        });
        (behind, pending)
    }

    /// Takes a watcher in. It is behind if its start has been delivered already.
    pub(crate) fn register(&self, request: WatchRequest, current: Revision) -> Arc<Slot> {
        let mut inner = self.inner.lock();
        let start = if request.start.0 <= 0 { current.next() } else { request.start };
        let mode = match inner.ended {
            Some(ending) => Mode::Ended(ending),
            None if start <= inner.delivered => Mode::Behind(start),
            None => Mode::Live(start),
        };
        let slot = Arc::new(Slot::new(inner.next_id, request, mode, &self.limits));
        inner.next_id += 1;
        inner.interests.insert(slot.clone());
        self.watchers.fetch_add(1, Ordering::Relaxed);
        slot
    }

    pub(crate) fn unregister(&self, slot: &Arc<Slot>) {
        let mut inner = self.inner.lock();
        inner.interests.remove(slot);
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if let Some(asked) = slot.queue().asked {
            inner.asking.remove(&(asked, slot.id));
        }
    }

    /// Whether a thread has the hub locked now.
    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// Puts the events of consecutive commits into the queues of the watchers that want them. One caller at a time.
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

    /// The commits up to `upto` are no longer at hand: every live watcher must read them from history.
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

    /// More was delivered: wakes those for whom it was, and those who asked for it, when nothing is locked any more.
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

    /// Lets the watcher answer, and wakes it for that, when everything up to `revision` has been delivered, but not before
    /// its start. Takes the place of an earlier request that was not answered yet.
    pub(crate) fn ask(&self, slot: &Arc<Slot>, revision: Revision) {
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

    /// Nothing more comes.
    pub(crate) fn end(&self, ending: Ending) {
        let (mut inner, mut wakers) = (self.inner.lock(), Vec::new());
        if inner.ended.is_none() || ending == Ending::Failed {
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

    /// Tells the delivering thread that nothing more will be published.
    pub(crate) fn stop(&self) {
        self.bell.lock().ended = true;
        self.rung.notify_all();
    }

    /// Tells the delivering thread that something was published.
    pub(crate) fn ring(&self) {
        let mut bell = self.bell.lock();
        if !bell.published {
            bell.published = true;
            self.rung.notify_one();
        }
    }

    /// Waits for [`Hub::ring`]; false when nothing more will be published after what was.
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
        let mut count = |slot: &Slot, batch: Batch| {
            let events = batch.events.len() as u64;
            match slot.offer(batch) {
                Offer::Queued => metrics.events_delivered.add(events),
                Offer::Lagged => metrics.watchers_lagged.add(1),
                Offer::Ignored => return,
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
        // Each watcher with what it wants: nobody looks at the events of others.
        let mut concerned: BTreeMap<u64, (Arc<Slot>, Vec<usize>)> = BTreeMap::new();
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
