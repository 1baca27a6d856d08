//! [`Connections`]: the open connections of a listener, and the choice of an idle one to close when there are
//! too many. No sockets.
//!
//! A full server accepts a new connection by closing an idle one, so that silent peers cannot lock out
//! others. Connections without an answered request are closed first. Among these, the address with the most
//! connections comes first, then the connection that has been idle for the longest time.

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
    open: Mutex<Open>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Open {
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
    pub(super) async fn place(self: &Arc<Self>, address: IpAddr) -> Place {
        loop {
            let left = self.left.notified();
            if let Some(place) = self.try_place(address) {
                return place;
            }
            left.await;
        }
    }

    fn try_place(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
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
        Some(Place { connections: self.clone(), id, activity })
    }
}

impl Open {
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
pub(super) struct Place {
    connections: Arc<Connections>,
    id: u64,
    pub(super) activity: Arc<Activity>,
}

impl Drop for Place {
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

    fn is_open(place: &Place) -> bool {
        !place.activity.evicted.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_give_way_to_new_ones_the_oldest_first() {
        let connections = Connections::new(3);
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(connections.place(HERE).await);
            sleep(Duration::from_secs(1)).await;
        }
        let new = timeout(Duration::from_secs(1), connections.place(HERE)).await.unwrap();
        assert_eq!(silent.iter().map(is_open).collect::<Vec<_>>(), [false, true, true]);
        assert!(is_open(&new));
        // The slot was given to another connection; dropping it must not free another.
        drop(silent.remove(0));
        assert_eq!(connections.open.lock().activities.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_were_answered_stay_longer_and_those_being_answered_stay() {
        let connections = Connections::new(3);
        let (served, busy) = (connections.place(HERE).await, connections.place(HERE).await);
        drop(served.activity.begin());
        let request = busy.activity.begin();
        sleep(Duration::from_secs(1)).await;
        let silent = connections.place(HERE).await;
        let _first = connections.place(HERE).await;
        assert_eq!([&served, &busy, &silent].map(is_open), [true, true, false]);
        let _second = connections.place(HERE).await;
        let _third = connections.place(HERE).await;
        assert!(is_open(&busy));
        drop(request);
    }

    #[tokio::test(start_paused = true)]
    async fn the_address_with_the_most_connections_gives_way_first() {
        let connections = Connections::new(4);
        let alone = connections.place(THERE).await;
        sleep(Duration::from_secs(1)).await;
        let mut flood = Vec::new();
        for _ in 0..100 {
            flood.push(connections.place(HERE).await);
        }
        assert!(is_open(&alone));
        assert_eq!(flood.iter().filter(|place| is_open(place)).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn when_none_is_idle_a_new_connection_waits_for_one_that_leaves() {
        let connections = Connections::new(1);
        let busy = connections.place(HERE).await;
        let request = busy.activity.begin();
        assert!(timeout(Duration::from_secs(60), connections.place(HERE)).await.is_err());
        let waiting = connections.place(HERE);
        let leaving = async {
            sleep(Duration::from_secs(1)).await;
            drop(request);
            drop(busy);
        };
        let (new, ()) = tokio::join!(waiting, leaving);
        assert!(is_open(&new));
    }
}
