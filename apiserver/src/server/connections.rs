//! [`Connections`]: the open connections of a listener, and the choice of an idle one to close when there are
//! too many. No sockets.
//!
//! A full server accepts a new connection by closing an idle one, so that silent peers cannot lock out others.
//! Connections without an answered request are closed first. Then the order is: connections of the address with
//! the most connections, and the connection that has been idle for the longest time.

use super::activity::Activity;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    /// The largest number of open connections.
    capacity: usize,
    open: Mutex<OpenConnections>,
    left: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Activities of open connections, in the order of their arrival.
    activities: BTreeMap<u64, Arc<Activity>>,
}

impl Connections {
    /// No connections yet; at most `capacity` may be open.
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity: capacity.max(1), open: Mutex::default(), left: Notify::new() })
    }

    /// Waits for a slot for a connection from `address`. If all are taken, an idle connection is closed; if
    /// none is idle, the call waits until one ends. Cancel safe.
    pub(super) async fn slot(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        loop {
            let left = self.left.notified();
            if let Some(slot) = self.try_slot(address) {
                return slot;
            }
            left.await;
        }
    }

    fn try_slot(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock();
        if open.activities.len() >= self.capacity {
            let id = open.idle_victim()?;
            let victim = open.activities.remove(&id)?;
            victim.evicted.cancel();
        }
        let id = open.next;
        open.next += 1;
        let activity = Arc::new(Activity::new(address));
        open.activities.insert(id, activity.clone());
        Some(ConnectionSlot { connections: self.clone(), id, activity })
    }
}

impl OpenConnections {
    /// The idle connection to close; `None` if none is idle.
    fn idle_victim(&self) -> Option<u64> {
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for activity in self.activities.values() {
            *by_address.entry(activity.address).or_default() += 1;
        }
        let idle = self.activities.iter().filter_map(|(id, activity)| {
            let (has_answered, since) = activity.idle_since()?;
            Some(((has_answered, Reverse(by_address[&activity.address]), since, *id), *id))
        });
        idle.min().map(|(_, id)| id)
    }
}

/// The slot of an open connection; it is freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // An evicted connection has lost its slot already.
        if self.connections.open.lock().activities.remove(&self.id).is_some() {
            self.connections.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn is_open(slot: &ConnectionSlot) -> bool {
        !slot.activity.evicted.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_connection_is_closed_for_a_new_one() {
        let connections = Connections::new(3);
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(connections.slot(HERE).await);
            sleep(Duration::from_secs(1)).await;
        }
        let new = timeout(Duration::from_secs(1), connections.slot(HERE)).await.unwrap();
        assert_eq!(silent.iter().map(is_open).collect::<Vec<_>>(), [false, true, true]);
        assert!(is_open(&new));
        // The slot was given to another connection; dropping it must not free another.
        drop(silent.remove(0));
        assert_eq!(connections.open.lock().activities.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_with_answered_requests_are_closed_later_and_busy_ones_never() {
        let connections = Connections::new(3);
        let (served, busy) = (connections.slot(HERE).await, connections.slot(HERE).await);
        drop(served.activity.begin());
        let request = busy.activity.begin();
        sleep(Duration::from_secs(1)).await;
        let silent = connections.slot(HERE).await;
        let _first = connections.slot(HERE).await;
        assert_eq!([&served, &busy, &silent].map(is_open), [true, true, false]);
        let _second = connections.slot(HERE).await;
        let _third = connections.slot(HERE).await;
        assert!(is_open(&busy));
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_the_busiest_address_are_closed_first() {
        let connections = Connections::new(4);
        let alone = connections.slot(THERE).await;
        sleep(Duration::from_secs(1)).await;
        let mut flood = Vec::new();
        for _ in 0..100 {
            flood.push(connections.slot(HERE).await);
        }
        assert!(is_open(&alone));
        assert_eq!(flood.iter().filter(|slot| is_open(slot)).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn without_idle_connections_a_new_one_waits_for_a_slot() {
        let connections = Connections::new(1);
        let busy = connections.slot(HERE).await;
        let request = busy.activity.begin();
        assert!(timeout(Duration::from_secs(60), connections.slot(HERE)).await.is_err());
        let waiting = connections.slot(HERE);
        let leaving = async {
            sleep(Duration::from_secs(1)).await;
            drop(request);
            drop(busy);
        };
        let (new, ()) = tokio::join!(waiting, leaving);
        assert!(is_open(&new));
    }
}
