//! [`ConnectionSlots`]: the open connections of a listener, and the choice of an idle one to close when there are too many. No
//! sockets.
//!
//! A client may keep a connection without a call open for ever. Without the choice, a server whose connections are all idle would
//! accept no other client. Clients of etcd connect again when they need to.

use crate::limits::{IDLE_FOR, SLOT_RETRY};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The calls of one connection, as far as the choice of a connection to close needs them.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    opened: Instant,
    /// Streams that are open.
    streams: AtomicUsize,
    /// Milliseconds from `opened` to the end of the last stream.
    idle_since: AtomicU64,
    /// Ends the connection in favour of another one.
    pub(crate) evicted: CancellationToken,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        let (streams, idle_since, evicted) = Default::default();
        Self { opened: Instant::now(), streams, idle_since, evicted }
    }
}

impl ConnectionActivity {
    /// Records the number of open streams.
    pub(crate) fn has_streams(&self, streams: usize) {
        if self.streams.swap(streams, Ordering::Relaxed) > 0 && streams == 0 {
            let since = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.idle_since.store(since, Ordering::Relaxed);
        }
    }

    /// The time since which no stream is open, if it is long enough to close the connection for another one.
    fn idle_since(&self) -> Option<Instant> {
        let since = self.opened + Duration::from_millis(self.idle_since.load(Ordering::Relaxed));
        (self.streams.load(Ordering::Relaxed) == 0 && since.elapsed() >= IDLE_FOR).then_some(since)
    }
}

/// The open connections of one listener.
#[derive(Debug)]
pub(crate) struct ConnectionSlots {
    capacity: usize,
    open: Mutex<OpenConnections>,
    left: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Activities of open connections, in the order of their arrival.
    activities: BTreeMap<u64, Arc<ConnectionActivity>>,
}

/// The slot of an open connection; it is freed on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    id: u64,
    pub(crate) activity: Arc<ConnectionActivity>,
}

impl ConnectionSlots {
    /// No connections yet; at most `capacity` may be open.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity: capacity.max(1), open: Mutex::default(), left: Notify::new() })
    }

    /// Waits for a slot. If all are taken, the connection that is idle for the longest time is closed. Cancel safe.
    pub(crate) async fn slot(self: &Arc<Self>) -> ConnectionSlot {
        loop {
            let left = self.left.notified();
            if let Some(slot) = self.try_slot() {
                return slot;
            }
            // No event tells that a connection has been idle for long enough.
            tokio::select! {
                biased;
                () = left => {}
                () = sleep(SLOT_RETRY) => {}
            }
        }
    }

    fn try_slot(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let mut open = self.open();
        if open.activities.len() >= self.capacity {
            let idle =
                open.activities.iter().filter_map(|(id, activity)| Some((activity.idle_since()?, *id)));
            let (_, id) = idle.min()?;
            open.activities.remove(&id)?.evicted.cancel();
        }
        let id = open.next;
        open.next += 1;
        let activity = Arc::<ConnectionActivity>::default();
        open.activities.insert(id, activity.clone());
        Some(ConnectionSlot { slots: self.clone(), id, activity })
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        // Each change under the lock is complete by itself.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // An evicted connection has lost its slot already.
        if self.slots.open().activities.remove(&self.id).is_some() {
            self.slots.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    fn is_open(slot: &ConnectionSlot) -> bool {
        !slot.activity.evicted.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_the_longest_time_is_closed_for_a_new_one() {
        let slots = ConnectionSlots::new(3);
        let open = [slots.slot().await, slots.slot().await, slots.slot().await];
        open[0].activity.has_streams(1);
        open[1].activity.has_streams(2);
        sleep(IDLE_FOR).await;
        open[0].activity.has_streams(0);
        let new = timeout(Duration::from_millis(1), slots.slot()).await.unwrap();
        assert_eq!(open.each_ref().map(is_open), [true, true, false], "it never had a stream");
        new.activity.has_streams(1);
        assert!(timeout(IDLE_FOR / 2, slots.slot()).await.is_err(), "a call may follow soon");
        let next = timeout(IDLE_FOR, slots.slot()).await.unwrap();
        assert_eq!((open.each_ref().map(is_open), is_open(&new)), ([false, true, false], true));
        next.activity.has_streams(1);
        assert!(timeout(10 * IDLE_FOR, slots.slot()).await.is_err(), "all have calls");
        drop(open);
        timeout(Duration::from_millis(1), slots.slot()).await.unwrap();
    }
}
