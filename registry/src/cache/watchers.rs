//! The watchers of one kind, indexed so that a change costs only as much as the watchers it concerns; and the
//! bounded queue between the cache and one watch. The watch as a client sees it is in `watch`.
//!
//! The one task that feeds the cache evaluates the selectors of a watch only if they are cheap. For a watch with more
//! requirements it queues changes without evaluating them, and the watch's own task does that: one client's selectors must
//! not delay the writes and watches of all others.

use super::change::{Change, EventType};
use super::filter::{Filter, indexed_field};
use super::wake_ups::WakeUps;
use crate::entry::Entry;
use kstore_api::status::Status;
use kstore_storage::limits;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A change that is queued for one watch.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The index of the watch's filter that the change matches.
    pub selector: u32,
    /// The event type for that filter.
    pub seen: EventType,
    /// The change.
    pub change: Arc<Change>,
}

/// The queue of one watch. Bounded by bytes and count; at a bound it is cleared and stays marked as overrun.
#[derive(Debug, Default)]
pub(super) struct Queue {
    inner: Mutex<Backlog>,
    wake: Notify,
    /// Whether the queue waits to be woken. Only the task that feeds the cache sets it.
    is_waiting: AtomicBool,
}

#[derive(Debug, Default)]
struct Backlog {
    /// Changes that the watch has to evaluate; all of them are older than `deliveries`.
    unevaluated: VecDeque<Arc<Change>>,
    deliveries: VecDeque<Delivery>,
    /// Bytes of both.
    bytes: usize,
    overrun: bool,
    closed: bool,
    /// Why the watch ends after `deliveries`.
    refusal: Option<Arc<Status>>,
}

/// The result of taking deliveries from a queue.
#[derive(Debug)]
pub(super) enum QueueContent {
    /// All queued deliveries, in order; possibly none.
    Deliveries(VecDeque<Delivery>),
    /// The oldest queued changes, in order, to be evaluated by the watch; and the revision up to which they are complete.
    Unevaluated(VecDeque<Arc<Change>>, i64),
    /// The watch fell behind, and its queued deliveries were dropped.
    Overrun,
    /// The cache has closed, and everything was delivered.
    Closed,
    /// The watch ends for this reason, and everything before it was delivered.
    Refused(Arc<Status>),
}

impl Queue {
    /// Appends a delivery without waking the watch: see [`Queue::wake`].
    pub(super) fn push(&self, delivery: Delivery) {
        let mut backlog = self.inner.lock();
        if backlog.overrun || backlog.refusal.is_some() {
            return;
        }
        backlog.bytes += delivery.change.weight();
        backlog.deliveries.push_back(delivery);
        backlog.bound();
    }

    /// Appends a change that the watch evaluates itself, unless it is the last one already: several filters of a watch may
    /// get the same change. Does not wake the watch.
    pub(super) fn push_unevaluated(&self, change: &Arc<Change>) {
        let mut backlog = self.inner.lock();
        let has_ended = backlog.overrun || backlog.refusal.is_some();
        if has_ended || backlog.unevaluated.back().is_some_and(|last| Arc::ptr_eq(last, change)) {
            return;
        }
        backlog.bytes += change.weight();
        backlog.unevaluated.push_back(change.clone());
        backlog.bound();
    }

    /// Wakes the watch. Must be called after the cache has reached the revision of the queued changes:
    /// before, the watch takes nothing.
    pub(super) fn wake(&self) {
        self.is_waiting.store(false, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Marks the queue as waiting to be woken; false if it already was.
    pub(super) fn begin_waiting(&self) -> bool {
        !self.is_waiting.swap(true, Ordering::Relaxed)
    }

    /// Marks the end of the queue.
    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        self.wake.notify_one();
    }

    /// Ends the queue with an error, behind what is queued.
    fn refuse(&self, refusal: &Arc<Status>) {
        self.inner.lock().refusal.get_or_insert_with(|| refusal.clone());
        self.wake.notify_one();
    }

    /// Marks the queue as overrun, because the following changes are unknown.
    fn cut(&self) {
        *self.inner.lock() = Backlog { overrun: true, ..Backlog::default() };
        self.wake.notify_one();
    }

    /// Takes the deliveries up to a revision, or, if there are older changes to evaluate, the first of these: about `most`.
    /// The revision must be the cache's just before the call, so that no revision is split.
    pub(super) fn take(&self, revision: i64, most: impl FnOnce() -> usize) -> QueueContent {
        let mut backlog = self.inner.lock();
        if backlog.overrun {
            return QueueContent::Overrun;
        }
        match backlog.unevaluated.front() {
            Some(change) if change.revision <= revision => return backlog.take_unevaluated(revision, most()),
            Some(_) => return QueueContent::Deliveries(VecDeque::new()),
            None => {}
        }
        if backlog.deliveries.is_empty() {
            if let Some(refusal) = &backlog.refusal {
                return QueueContent::Refused(refusal.clone());
            }
            if backlog.closed {
                return QueueContent::Closed;
            }
        }
        let complete = backlog.deliveries.partition_point(|delivery| delivery.change.revision <= revision);
        let rest = backlog.deliveries.split_off(complete);
        backlog.bytes = rest.iter().map(|delivery| delivery.change.weight()).sum();
        QueueContent::Deliveries(std::mem::replace(&mut backlog.deliveries, rest))
    }

    /// Resolves once the watch was woken or the queue closed since the last time it resolved.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Backlog {
    /// Drops everything if a bound is exceeded.
    fn bound(&mut self) {
        let changes = self.unevaluated.len() + self.deliveries.len();
        if self.bytes > limits::WATCH_BACKLOG_BYTES || changes > limits::WATCH_BACKLOG_CHANGES {
            *self = Self { overrun: true, ..Self::default() };
        }
    }

    /// Takes the first changes up to a revision: at least one revision, and no part of another.
    fn take_unevaluated(&mut self, revision: i64, most: usize) -> QueueContent {
        let (mut taken, mut last) = (0, i64::MIN);
        for change in self.unevaluated.iter().take_while(|change| change.revision <= revision) {
            if taken >= most && change.revision != last {
                break;
            }
            (taken, last) = (taken + 1, change.revision);
        }
        let changes: VecDeque<_> = self.unevaluated.drain(..taken).collect();
        self.bytes -= changes.iter().map(|change| change.weight()).sum::<usize>();
        let is_all = self.unevaluated.is_empty() && self.deliveries.is_empty();
        QueueContent::Unevaluated(changes, if is_all { revision } else { last })
    }
}

/// One filter of one watch.
#[derive(Debug)]
struct Listener {
    selector: u32,
    /// Whether the watch evaluates its filters itself.
    evaluates: bool,
    filter: Filter,
    /// The revision up to which the watch has all changes.
    after: i64,
    queue: Arc<Queue>,
}

/// How a filter of a watch is fed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listening<'q> {
    /// The index of the filter in its watch.
    pub(super) selector: u32,
    /// Whether the watch evaluates its filters itself.
    pub(super) evaluates: bool,
    /// The revision up to which the watch has all changes.
    pub(super) after: i64,
    pub(super) queue: &'q Arc<Queue>,
}

/// Listeners by id. Boxed, because most watched objects have one listener, and a node of the map has space for eleven.
type Listeners = BTreeMap<u64, Box<Listener>>;

/// The listeners of one kind, indexed by object, by the value of the indexed field, or by namespace.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    by_object: BTreeMap<(String, String), Listeners>,
    /// By the value of the kind's indexed field.
    by_value: BTreeMap<String, Listeners>,
    by_namespace: BTreeMap<String, Listeners>,
    everywhere: Listeners,
}

impl Watchers {
    /// Registers a filter under an id that is unique in this set.
    pub(super) fn add(&mut self, id: u64, filter: Filter, listening: Listening<'_>) {
        let Listening { selector, evaluates, after, queue } = listening;
        let listener = Listener { selector, evaluates, after, queue: queue.clone(), filter };
        let filter = &listener.filter;
        let slot = if filter.only_key().is_some() {
            self.by_object.entry((filter.namespace.clone(), filter.name.clone())).or_default()
        } else if let Some(value) = filter.indexed() {
            self.by_value.entry(value.to_owned()).or_default()
        } else if !filter.namespace.is_empty() {
            self.by_namespace.entry(filter.namespace.clone()).or_default()
        } else {
            &mut self.everywhere
        };
        slot.insert(id, Box::new(listener));
    }

    /// Removes the filter that was registered under `id`.
    pub(super) fn remove(&mut self, id: u64, filter: &Filter) {
        let object = (filter.namespace.clone(), filter.name.clone());
        remove_from(&mut self.by_object, &object, id);
        if let Some(value) = filter.indexed() {
            remove_from(&mut self.by_value, &value.to_owned(), id);
        }
        remove_from(&mut self.by_namespace, &filter.namespace, id);
        self.everywhere.remove(&id);
    }

    /// Queues the change for every listener whose filter it matches, and adds their queues to `wake_ups`.
    pub(super) fn dispatch(&self, change: &Arc<Change>, wake_ups: &mut WakeUps) {
        let entry = change.any();
        if !self.by_object.is_empty() {
            let key = (entry.namespace().to_owned(), entry.name().to_owned());
            self.by_object.get(&key).into_iter().for_each(|l| deliver(l, change, wake_ups));
        }
        if !self.by_value.is_empty() {
            let value =
                |entry: &Entry| indexed_field(entry.resource).map(|field| entry.field(field).to_owned());
            let values: BTreeSet<String> =
                change.new.iter().chain(&change.old).filter_map(|e| value(e)).collect();
            values
                .iter()
                .filter_map(|value| self.by_value.get(value))
                .for_each(|l| deliver(l, change, wake_ups));
        }
        self.by_namespace.get(entry.namespace()).into_iter().for_each(|l| deliver(l, change, wake_ups));
        deliver(&self.everywhere, change, wake_ups);
    }

    /// The number of listeners that look at changes of an object: those of the object, of its namespace, and of
    /// all objects. Those of a value of the indexed field count for no object.
    pub(super) fn of_object(&self, namespace: &str, name: &str) -> usize {
        let one = match self.by_object.is_empty() {
            true => None,
            false => self.by_object.get(&(namespace.to_owned(), name.to_owned())),
        };
        let of = |listeners: Option<&Listeners>| listeners.map_or(0, BTreeMap::len);
        of(one) + of(self.by_namespace.get(namespace)) + self.everywhere.len()
    }

    /// Closes all queues.
    pub(super) fn close(&self) {
        self.queues().for_each(|queue| queue.close());
    }

    /// Ends the watches that may concern an object which cannot be read, with this reason. Those of a value of the indexed field end
    /// too: the object's value is unknown.
    pub(super) fn refuse(&self, namespace: &str, name: &str, refusal: &Arc<Status>) {
        let one = self.by_object.get(&(namespace.to_owned(), name.to_owned()));
        let sets = one.into_iter().chain(self.by_value.values()).chain(self.by_namespace.get(namespace));
        let concerned = sets.chain([&self.everywhere]).flat_map(BTreeMap::values);
        concerned.for_each(|listener| listener.queue.refuse(refusal));
    }

    /// Ends every listener's watch, because changes were lost.
    pub(super) fn cut(&self) {
        self.queues().for_each(|queue| queue.cut());
    }

    /// Ends the listeners whose filters use fields declared by another definition of the kind.
    pub(super) fn cut_outdated(&self, spec_hash: &[u8; 32]) {
        let is_outdated = |listener: &&Listener| {
            listener.filter.declared.as_ref().is_some_and(|declared| declared.spec_hash != *spec_hash)
        };
        self.listeners().filter(is_outdated).for_each(|listener| listener.queue.cut());
    }

    fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.listeners().map(|listener| &listener.queue)
    }

    fn listeners(&self) -> impl Iterator<Item = &Listener> {
        let nested = self.by_object.values().chain(self.by_value.values()).chain(self.by_namespace.values());
        nested.chain([&self.everywhere]).flat_map(BTreeMap::values).map(Box::as_ref)
    }
}

fn remove_from<K: Ord>(map: &mut BTreeMap<K, Listeners>, key: &K, id: u64) {
    if let Some(listeners) = map.get_mut(key) {
        listeners.remove(&id);
        if listeners.is_empty() {
            map.remove(key);
        }
    }
}

fn deliver(listeners: &Listeners, change: &Arc<Change>, wake_ups: &mut WakeUps) {
    for listener in listeners.values().filter(|l| change.revision > l.after) {
        if listener.evaluates {
            listener.queue.push_unevaluated(change);
            wake_ups.add(&listener.queue);
        } else if let Some(seen) = change.seen_by(&listener.filter) {
            listener.queue.push(Delivery { selector: listener.selector, seen, change: change.clone() });
            wake_ups.add(&listener.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::config_map;

    #[test]
    fn a_queue_beyond_its_bounds_is_cleared() {
        let change = |revision| Arc::new(Change::new(revision, Some(config_map("a", revision)), None));
        let changes = [change(1), change(2)];
        let deliver = |queue: &Queue, change: &Arc<Change>| {
            queue.push(Delivery { selector: 0, seen: EventType::Added, change: change.clone() });
        };
        let keep = |queue: &Queue, change: &Arc<Change>| queue.push_unevaluated(change);
        for push in [&deliver as &dyn Fn(&Queue, &Arc<Change>), &keep] {
            let queue = Queue::default();
            for number in 0..limits::WATCH_BACKLOG_CHANGES {
                push(&queue, &changes[number % 2]);
            }
            assert!(!matches!(queue.take(0, || 1), QueueContent::Overrun));
            push(&queue, &changes[0]);
            assert!(matches!(queue.take(0, || 1), QueueContent::Overrun));
            assert!(queue.inner.lock().deliveries.is_empty() && queue.inner.lock().unevaluated.is_empty());
        }
    }

    #[test]
    fn unevaluated_changes_are_taken_by_whole_revisions_before_later_deliveries() {
        let queue = Queue::default();
        let change = |revision| Arc::new(Change::new(revision, Some(config_map("a", revision)), None));
        for revision in [1, 2, 2, 3] {
            let change = change(revision);
            queue.push_unevaluated(&change);
            queue.push_unevaluated(&change);
        }
        queue.push(Delivery { selector: 0, seen: EventType::Added, change: change(4) });
        let mut taken = Vec::new();
        loop {
            match queue.take(4, || 1) {
                QueueContent::Unevaluated(changes, reached) => taken.push((changes.len(), reached)),
                QueueContent::Deliveries(deliveries) => break assert_eq!(deliveries.len(), 1),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(taken, [(1, 1), (2, 2), (1, 3)]);
        assert_eq!(queue.inner.lock().bytes, 0);
    }
}
