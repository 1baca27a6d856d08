//! [`Subscribers`]: the subscribers of one informer and their pending changes. Merging subscribers share one
//! [`Backlog`]; each lossless subscriber has its own queue of shared batches. Pure: the lock and the wakers
//! are in `shared`.

pub(crate) mod backlog;
pub(crate) mod delta_fifo;
pub(crate) mod waiters;

use crate::cache::indexer::{Batch, Indexer};
use crate::hub::backlog::{Backlog, Content, Position};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// How a [`Subscription`](crate::Subscription) stores changes that its reader has not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Merges the changes of each key. Stores at most one entry for each live object and for each deletion
    /// that the reader has not seen. A slow reader delays no other. Suits most readers, which act on the
    /// newest state.
    ///
    /// Also delivers an object that was added and deleted before the reader took it: a reader that has created
    /// the object hears of its deletion. Up to 4,096 of them wait
    /// ([`limits::MAX_PASSED`](crate::limits::MAX_PASSED)); a reader that lags by more misses the later ones.
    #[default]
    Coalesce,
    /// Delivers every change, in the order of the source.
    Lossless {
        /// Number of pending changes at which `overflow` applies. The batch that reaches the limit is still
        /// stored whole. Memory is bounded by `capacity` and the changes of one network message, which all
        /// subscriptions share.
        capacity: NonZeroUsize,
        /// Behaviour when `capacity` is reached.
        overflow: Overflow,
    },
}

/// Behaviour of a lossless subscription whose reader is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The informer stops reading its source until the reader catches up. No change is lost, and *all*
    /// readers of this informer wait. The reader must not wait for the informer's progress, or both wait
    /// forever.
    SlowSource,
    /// The subscription drops its backlog. The reader then gets the merged changes from its last seen state
    /// to the cache, as with [`Delivery::Coalesce`]. Afterwards it gets every change again.
    /// [`Subscription::replays`](crate::Subscription::replays) counts these replays.
    Replay,
}

/// Changes that subscribers have not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BacklogSize {
    /// Each change counted once.
    pub(crate) kept: usize,
    /// Each change counted once per subscriber.
    pub(crate) pending: usize,
}

/// Subscribers of one informer and their pending changes.
#[derive(Default)]
pub(crate) struct Subscribers {
    pub(crate) backlog: Backlog,
    queues: BTreeMap<u64, Queue>,
    next: u64,
    /// Whether a complete state has been published.
    pub(crate) synced: bool,
    /// Whether the informer has ended.
    pub(crate) closed: bool,
}

/// Handle of a subscriber in the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriberHandle {
    /// The subscriber has not read yet: everything in the cache is pending.
    New,
    /// A merging subscriber at this position in the backlog.
    Merging(Position),
    /// A lossless subscriber with this queue.
    Queue(u64),
}

/// Pending changes of a lossless subscriber.
struct Queue {
    capacity: NonZeroUsize,
    /// The state at the time of the subscription, until the subscriber has taken it.
    initial: Option<Arc<Indexer>>,
    batches: VecDeque<Arc<Batch>>,
    /// Number of changes in `batches`.
    pending: usize,
    replay: Option<Replay>,
}

/// Backlog position of a lossless subscriber that gets merged changes after an overflow.
struct Replay {
    position: Position,
    due: ReplayScope,
}

/// The replay that a subscriber gets after its queue overflowed and was dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplayScope {
    /// The queue did not overflow.
    Nothing,
    /// The changes since its last read, merged.
    Changes,
    /// The whole cache, since it has never read.
    Everything,
}

/// Changes that a subscriber takes in one read.
pub(crate) enum PendingChanges {
    /// The whole state is new to the subscriber.
    All(Arc<Indexer>),
    /// The changes between two positions, to be merged.
    Merged(Vec<Arc<Content>>),
    /// Every single change, possibly after an initial state.
    Each(Option<Arc<Indexer>>, VecDeque<Arc<Batch>>),
    /// The queue overflowed: the changes since the last read, merged.
    Replayed(Vec<Arc<Content>>),
}

impl Subscribers {
    /// No subscribers; `synced`: the cache starts with a complete state.
    pub(crate) fn new(synced: bool) -> Self {
        Self { synced, ..Self::default() }
    }

    /// Adds a subscriber that starts at the state `now`.
    pub(crate) fn join(
        &mut self,
        delivery: Delivery,
        now: impl FnOnce() -> Arc<Indexer>,
    ) -> SubscriberHandle {
        let Delivery::Lossless { capacity, overflow } = delivery else { return SubscriberHandle::New };
        let replay = match overflow {
            Overflow::SlowSource => None,
            Overflow::Replay => Some(Replay { position: self.backlog.enter(), due: ReplayScope::Nothing }),
        };
        let queue = Queue { capacity, initial: Some(now()), batches: VecDeque::new(), pending: 0, replay };
        let id = self.next;
        self.next += 1;
        self.queues.insert(id, queue);
        SubscriberHandle::Queue(id)
    }

    pub(crate) fn leave(&mut self, handle: SubscriberHandle) {
        match handle {
            SubscriberHandle::New => {}
            SubscriberHandle::Merging(position) => self.backlog.leave(position),
            SubscriberHandle::Queue(id) => {
                if let Some(Queue { replay: Some(replay), .. }) = self.queues.remove(&id) {
                    self.backlog.leave(replay.position);
                }
            }
        }
    }

    /// Publishes a batch to all subscribers. `complete` marks the end of the initial state.
    pub(crate) fn publish(&mut self, batch: &Arc<Batch>, complete: bool) {
        self.synced |= complete;
        if batch.changes.is_empty() {
            return;
        }
        self.backlog.push(batch);
        self.queues.values_mut().for_each(|queue| queue.push(batch));
    }

    /// Whether a subscriber's full queue must stop the source.
    pub(crate) fn is_full(&self) -> bool {
        self.queues.values().any(|queue| queue.replay.is_none() && queue.pending >= queue.capacity.get())
    }

    /// Takes the changes that a subscriber has not seen; `now` is the cache.
    pub(crate) fn take(
        &mut self,
        handle: &mut SubscriberHandle,
        now: impl FnOnce() -> Arc<Indexer>,
    ) -> PendingChanges {
        match *handle {
            SubscriberHandle::New => {
                *handle = SubscriberHandle::Merging(self.backlog.enter());
                PendingChanges::All(now())
            }
            SubscriberHandle::Merging(position) => {
                let (contents, position) = self.backlog.take(position);
                *handle = SubscriberHandle::Merging(position);
                PendingChanges::Merged(contents)
            }
            SubscriberHandle::Queue(id) => self.take_queue(id, now),
        }
    }

    fn take_queue(&mut self, id: u64, now: impl FnOnce() -> Arc<Indexer>) -> PendingChanges {
        let queue =
            self.queues.get_mut(&id).expect("a subscriber's queue exists as long as its subscription");
        let initial = queue.initial.take();
        queue.pending = 0;
        let batches = std::mem::take(&mut queue.batches);
        let Some(replay) = &mut queue.replay else { return PendingChanges::Each(initial, batches) };
        let (contents, position) = self.backlog.take(replay.position);
        replay.position = position;
        match std::mem::replace(&mut replay.due, ReplayScope::Nothing) {
            ReplayScope::Nothing => PendingChanges::Each(initial, batches),
            ReplayScope::Changes => PendingChanges::Replayed(contents),
            ReplayScope::Everything => PendingChanges::All(now()),
        }
    }

    /// Pending changes of all subscribers that have started to read or are lossless.
    pub(crate) fn waiting(&self) -> BacklogSize {
        let mut waiting = self.backlog.waiting();
        for queue in self.queues.values() {
            waiting.kept += queue.pending;
            waiting.pending += queue.pending;
        }
        waiting
    }

    /// Number of keys or changes pending for a subscriber; `all` is the size of the cache.
    pub(crate) fn pending(&self, handle: SubscriberHandle, all: usize) -> usize {
        match handle {
            SubscriberHandle::New => all,
            SubscriberHandle::Merging(position) => self.backlog.pending(position),
            SubscriberHandle::Queue(id) => self.queues.get(&id).map_or(0, |queue| match &queue.replay {
                Some(Replay { due: ReplayScope::Everything, .. }) => all,
                Some(Replay { due: ReplayScope::Changes, position }) => self.backlog.pending(*position),
                Some(Replay { due: ReplayScope::Nothing, .. }) | None => {
                    queue.pending + queue.initial.as_ref().map_or(0, |initial| initial.len())
                }
            }),
        }
    }

    /// Number of lossless subscribers.
    #[cfg(test)]
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }
}

impl Queue {
    fn push(&mut self, batch: &Arc<Batch>) {
        let pending = self.pending + batch.changes.len();
        match &mut self.replay {
            Some(replay) if replay.due != ReplayScope::Nothing => {}
            Some(replay) if pending > self.capacity.get() => {
                replay.due = match self.initial.take() {
                    Some(_) => ReplayScope::Everything,
                    None => ReplayScope::Changes,
                };
                self.pending = 0;
                self.batches = VecDeque::new();
            }
            _ => {
                self.pending = pending;
                self.batches.push_back(batch.clone());
            }
        }
    }
}
