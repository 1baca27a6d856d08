//! [`Hub`]: the subscribers of one informer, and what waits for each. Those that merge share one [`Backlog`]; a lossless one
//! has a queue of its own, of batches that all share. Pure: the lock and the bells are in `shared`.

use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
};

use crate::{
    Delivery, Object, Overflow, View,
    backlog::{Backlog, Content, Position},
    indexer::Batch,
    informer::figures::Waiting,
};

/// See the module.
pub(crate) struct Hub<T> {
    pub(crate) backlog: Backlog<T>,
    queues: BTreeMap<u64, Queue<T>>,
    next: u64,
    /// A complete state has been published.
    pub(crate) synced: bool,
    /// Nothing comes any more.
    pub(crate) closed: bool,
}

impl<T> Default for Hub<T> {
    fn default() -> Self {
        Self { backlog: Backlog::default(), queues: BTreeMap::new(), next: 0, synced: false, closed: false }
    }
}

/// How a subscriber is known to the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// It has not taken anything yet: everything in the cache is pending.
    New,
    /// It merges, and stands here.
    Merging(Position),
    /// It has a queue.
    Queue(u64),
}

/// What waits for a lossless subscriber.
struct Queue<T> {
    capacity: NonZeroUsize,
    /// The state it joined at, until it has taken that.
    initial: Option<View<T>>,
    batches: VecDeque<Arc<Batch<T>>>,
    /// Changes in `batches`.
    pending: usize,
    replay: Option<Replay>,
}

/// Where a subscriber stands that takes the merged changes when it has too many single ones.
struct Replay {
    position: Position,
    due: Due,
}

/// What a subscriber has to be told instead of its queue, which overflowed and was dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// It did not.
    Nothing,
    /// What happened since it read last.
    Changes,
    /// Everything, since it has never read.
    Everything,
}

/// What a subscriber takes.
pub(crate) enum Taken<T> {
    /// Everything in this state is new to it.
    All(View<T>),
    /// The changes between two positions.
    Merged(Vec<Arc<Content<T>>>),
    /// These, one by one, perhaps after a first state.
    Each(Option<View<T>>, VecDeque<Arc<Batch<T>>>),
    /// It overflowed: the changes since it read last, merged.
    Replayed(Vec<Arc<Content<T>>>),
}

impl<T: Object> Hub<T> {
    /// A new subscriber, which joins at `now`.
    pub(crate) fn join(&mut self, delivery: Delivery, now: impl FnOnce() -> View<T>) -> Seat {
        let Delivery::Lossless { capacity, overflow } = delivery else { return Seat::New };
        let replay = match overflow {
            Overflow::SlowSource => None,
            Overflow::Replay => Some(Replay { position: self.backlog.enter(), due: Due::Nothing }),
        };
        let queue = Queue { capacity, initial: Some(now()), batches: VecDeque::new(), pending: 0, replay };
        let id = self.next;
        self.next += 1;
        self.queues.insert(id, queue);
        Seat::Queue(id)
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        match seat {
            Seat::New => {}
            Seat::Merging(position) => self.backlog.leave(position),
            Seat::Queue(id) => {
                if let Some(Queue { replay: Some(replay), .. }) = self.queues.remove(&id) {
                    self.backlog.leave(replay.position);
                }
            }
        }
    }

    /// Tells everyone. A complete state is one that everything before it led to.
    pub(crate) fn publish(&mut self, batch: &Arc<Batch<T>>, complete: bool) {
        self.synced |= complete;
        if batch.changes.is_empty() {
            return;
        }
        self.backlog.push(batch);
        self.queues.values_mut().for_each(|queue| queue.push(batch));
    }

    /// Whether someone lets the source wait.
    pub(crate) fn is_full(&self) -> bool {
        self.queues.values().any(|queue| queue.replay.is_none() && queue.pending >= queue.capacity.get())
    }

    /// What a subscriber has not seen; `now` is the cache.
    pub(crate) fn take(&mut self, seat: &mut Seat, now: impl FnOnce() -> View<T>) -> Taken<T> {
        match *seat {
            Seat::New => {
                *seat = Seat::Merging(self.backlog.enter());
                Taken::All(now())
            }
            Seat::Merging(position) => {
                let (contents, position) = self.backlog.take(position);
                *seat = Seat::Merging(position);
                Taken::Merged(contents)
            }
            Seat::Queue(id) => self.take_queue(id, now),
        }
    }

    fn take_queue(&mut self, id: u64, now: impl FnOnce() -> View<T>) -> Taken<T> {
        let queue = self.queues.get_mut(&id).expect("a subscriber's queue goes with its subscription");
        let initial = queue.initial.take();
        queue.pending = 0;
        let batches = std::mem::take(&mut queue.batches);
        let Some(replay) = &mut queue.replay else { return Taken::Each(initial, batches) };
        let (contents, position) = self.backlog.take(replay.position);
        replay.position = position;
        match std::mem::replace(&mut replay.due, Due::Nothing) {
            Due::Nothing => Taken::Each(initial, batches),
            Due::Changes => Taken::Replayed(contents),
            Due::Everything => Taken::All(now()),
        }
    }

    /// What waits for all that have begun to read, or are to get each change.
    pub(crate) fn waiting(&self) -> Waiting {
        let mut waiting = self.backlog.waiting();
        for queue in self.queues.values() {
            waiting.kept += queue.pending;
            waiting.pending += queue.pending;
        }
        waiting
    }

    /// Keys or changes that wait for a subscriber; `all` is the size of the cache.
    pub(crate) fn pending(&self, seat: Seat, all: usize) -> usize {
        match seat {
            Seat::New => all,
            Seat::Merging(position) => self.backlog.pending(position),
            Seat::Queue(id) => self.queues.get(&id).map_or(0, |queue| match &queue.replay {
                Some(Replay { due: Due::Everything, .. }) => all,
                Some(Replay { due: Due::Changes, position }) => self.backlog.pending(*position),
                Some(Replay { due: Due::Nothing, .. }) | None => {
                    queue.pending + queue.initial.as_ref().map_or(0, View::len)
                }
            }),
        }
    }

    /// Subscribers that have a place here.
    #[cfg(test)]
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }
}

impl<T> Queue<T> {
    fn push(&mut self, batch: &Arc<Batch<T>>) {
        let pending = self.pending + batch.changes.len();
        match &mut self.replay {
            Some(replay) if replay.due != Due::Nothing => {}
            Some(replay) if pending > self.capacity.get() => {
                replay.due = match self.initial.take() {
                    Some(_) => Due::Everything,
                    None => Due::Changes,
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
