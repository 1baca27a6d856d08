//! [`Connections`]: the open connections of a listener, and the choice of one to close when there are too many. No
//! sockets.
//!
//! A full server accepts a new connection by closing another one, so that peers that are silent, take nothing, or ask without
//! credentials cannot lock out others. The order is [`Closable`]'s, then: connections of the address with the most connections,
//! and the connection without progress for the longest time. A connection that serves a user is closed only if no other user has
//! as many, and they are more than its share.
//!
//! A few slots are kept back: a connection that gets one serves only health checks and administrators, and those that do
//! neither are closed for the next one. So a supervisor and an administrator reach a server whose users hold all connections.

use super::activity::Activity;
use super::open_sockets::OpenSocket;
use kstore_storage::limits::{
    KEPT_CONNECTION, KEPT_CONNECTIONS, SLOT_RETRY, STALLED_CONNECTION, USER_CONNECTIONS,
};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Why a connection may be closed for another one, from the first to be closed to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closable {
    /// No request was answered, and none is in flight.
    Silent,
    /// No request is in flight.
    Idle,
    /// The client takes nothing of its answers.
    Stalled,
    /// Requests without credentials are in flight for a while.
    Anonymous,
}

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    /// The largest number of open connections, without the kept slots.
    capacity: usize,
    /// The number of slots that are kept back.
    kept: usize,
    open: Mutex<OpenConnections>,
    left: Notify,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    /// Activities of open connections, in the order of their arrival.
    activities: BTreeMap<u64, Arc<Activity>>,
    /// The same of the connections in kept slots.
    kept: BTreeMap<u64, Arc<Activity>>,
}

impl Connections {
    /// No connections yet; at most `capacity` may be open.
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        let kept = KEPT_CONNECTIONS.min(capacity / 16);
        let capacity = (capacity - kept).max(1);
        Arc::new(Self { capacity, kept, open: Mutex::default(), left: Notify::new() })
    }

    /// Waits for a slot for a connection from `address`. If all are taken, another connection is closed; if
    /// none may be closed, the connection gets a kept slot. Without a free one the call waits. Cancel safe.
    pub(super) async fn slot(self: &Arc<Self>, address: IpAddr) -> ConnectionSlot {
        loop {
            let left = self.left.notified();
            if let Some(slot) = self.try_slot(address) {
                return slot;
            }
            // No event tells that a connection has made no progress for a while.
            tokio::select! {
                biased;
                () = left => {}
                () = sleep(SLOT_RETRY) => {}
            }
        }
    }

    fn try_slot(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionSlot> {
        let mut open = self.open.lock();
        let is_full = open.activities.len() >= self.capacity;
        let victim =
            if is_full { open.victim().or_else(|| open.victim_of_user(self.capacity)) } else { None };
        let is_kept = is_full && victim.is_none();
        if is_kept && open.kept.len() >= self.kept {
            let id = open.victim_of_kept()?;
            evict(&mut open.kept, id);
        }
        if let Some(id) = victim {
            evict(&mut open.activities, id);
        }
        let id = open.next;
        open.next += 1;
        let activity = Arc::new(Activity::new(address, is_kept));
        let slots = if is_kept { &mut open.kept } else { &mut open.activities };
        slots.insert(id, activity.clone());
        Some(ConnectionSlot { connections: self.clone(), id, activity, _socket: None })
    }
}

/// Ends a connection in favour of another one.
fn evict(activities: &mut BTreeMap<u64, Arc<Activity>>, id: u64) {
    if let Some(victim) = activities.remove(&id) {
        victim.evicted.cancel();
    }
}

impl OpenConnections {
    /// The connection to close; `None` if none may be closed.
    fn victim(&self) -> Option<u64> {
        let mut by_address: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for activity in self.activities.values() {
            *by_address.entry(activity.address).or_default() += 1;
        }
        let closable = self.activities.iter().filter_map(|(id, activity)| {
            let (reason, since) = closable(activity)?;
            Some(((reason, Reverse(by_address[&activity.address]), since, *id), *id))
        });
        closable.min().map(|(_, id)| id)
    }

    /// A connection of the user with the most connections, if they are more than its share: the one whose client has taken
    /// nothing for the longest time.
    fn victim_of_user(&self, capacity: usize) -> Option<u64> {
        let mut by_user: BTreeMap<String, (usize, Reverse<(Instant, u64)>)> = BTreeMap::new();
        for (id, activity) in &self.activities {
            if let Some(user) = &*activity.user.lock() {
                let idlest = Reverse((activity.last_taken(), *id));
                let of_user = by_user.entry(user.username.clone()).or_insert((0, idlest));
                *of_user = (of_user.0 + 1, of_user.1.max(idlest));
            }
        }
        let (count, Reverse((_, idlest))) = by_user.into_values().max()?;
        (count > (capacity / USER_CONNECTIONS).max(1)).then_some(idlest)
    }

    /// The oldest connection in a kept slot that was answered, or had its time and serves no administrator at present.
    fn victim_of_kept(&self) -> Option<u64> {
        let mut kept = self.kept.iter().filter(|(_, activity)| {
            let has_had_its_time = activity.age() >= KEPT_CONNECTION;
            match activity.idle_since() {
                Some((was_answered, _)) => was_answered || has_had_its_time,
                None => has_had_its_time && (activity.is_anonymous() || activity.stalled_since().is_some()),
            }
        });
        kept.next().map(|(id, _)| *id)
    }
}

/// Why and since when a connection may be closed for another one.
fn closable(activity: &Activity) -> Option<(Closable, Instant)> {
    if let Some((has_answered, since)) = activity.idle_since() {
        return Some((if has_answered { Closable::Idle } else { Closable::Silent }, since));
    }
    let stalled = activity.stalled_since().map(|since| (Closable::Stalled, since));
    let found = stalled.or_else(|| Some((Closable::Anonymous, activity.anonymous_since()?)));
    found.filter(|(_, since)| since.elapsed() >= STALLED_CONNECTION)
}

/// The slot of an open connection; it is freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    connections: Arc<Connections>,
    id: u64,
    pub(super) activity: Arc<Activity>,
    /// Tells that the socket is open for as long as it has its slot.
    _socket: Option<OpenSocket>,
}

impl ConnectionSlot {
    /// The slot of this socket.
    pub(super) fn with_socket(mut self, socket: OpenSocket) -> Self {
        self._socket = Some(socket);
        self
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        // An evicted connection has lost its slot already.
        let mut open = self.connections.open.lock();
        let slots = if self.activity.is_kept { &mut open.kept } else { &mut open.activities };
        if slots.remove(&self.id).is_some() {
            self.connections.left.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::InFlight;
    use super::*;
    use kstore_registry::user::UserInfo;
    use std::net::Ipv4Addr;
    use std::time::Duration;
    use tokio::time::timeout;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// Makes the connection one of a user with credentials.
    fn log_in(slot: &ConnectionSlot, user: &str) {
        *slot.activity.user.lock() = Some(UserInfo::new(user, [""; 0]).into());
    }

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
        drop(served.activity.begin(false));
        let request = busy.activity.begin(false);
        log_in(&busy, "ann");
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
    async fn without_connections_to_close_a_new_one_waits_for_a_slot() {
        let connections = Connections::new(1);
        let busy = connections.slot(HERE).await;
        let request = busy.activity.begin(false);
        log_in(&busy, "ann");
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

    #[tokio::test(start_paused = true)]
    async fn connections_that_take_nothing_or_have_no_credentials_do_not_lock_out_others() {
        for is_stalled in [true, false] {
            let connections = Connections::new(3);
            let watcher = connections.slot(HERE).await;
            let _watch = watcher.activity.begin(false);
            log_in(&watcher, "ann");
            let attack = [connections.slot(HERE).await, connections.slot(HERE).await];
            let answers = attack.each_ref().map(|slot| slot.activity.begin(false));
            if is_stalled {
                attack.iter().for_each(|slot| log_in(slot, "eve"));
                answers.iter().for_each(|answer| answer.waits_for_client());
            }
            let new = timeout(2 * STALLED_CONNECTION, connections.slot(HERE)).await.unwrap();
            assert!(is_open(&new) && is_open(&watcher), "{is_stalled}");
            assert_eq!(attack.iter().filter(|slot| is_open(slot)).count(), 1);
        }
    }

    /// Connections of these users with a request in flight each.
    async fn busy(connections: &Arc<Connections>, users: &[&str]) -> Vec<(ConnectionSlot, InFlight)> {
        let mut slots = Vec::new();
        for user in users {
            let slot = connections.slot(HERE).await;
            log_in(&slot, user);
            let request = slot.activity.begin(false);
            slots.push((slot, request));
        }
        slots
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_most_connections_does_not_lock_out_others() {
        let connections = Connections::new(15);
        let users: Vec<_> = (0..15).map(|n| if n % 3 == 0 { "ann" } else { "eve" }).collect();
        let slots = busy(&connections, &users).await;
        // Eve has ten, of which the second has taken nothing for the longest time.
        sleep(Duration::from_secs(1)).await;
        slots[1].1.waits_for_client();
        slots[1].1.waits_for_server();
        let new = timeout(Duration::from_millis(1), connections.slot(THERE)).await.unwrap();
        assert!(!new.activity.is_kept && is_open(&new));
        let closed: Vec<_> = (0..15).filter(|n| !is_open(&slots[*n].0)).collect();
        assert_eq!(closed, [2], "one of the user with most connections");
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_kept_for_health_checks_and_administrators() {
        let connections = Connections::new(32);
        assert_eq!((connections.capacity, connections.kept), (30, 2));
        // Each user has its share, and all clients take their answers.
        let users: Vec<_> = (0..30).map(|n| format!("user-{}", n / 3)).collect();
        let users: Vec<_> = users.iter().map(String::as_str).collect();
        let slots = busy(&connections, &users).await;
        let kept = [connections.slot(THERE).await, connections.slot(THERE).await];
        assert!(kept.iter().all(|slot| slot.activity.is_kept && is_open(slot)));
        assert!(timeout(KEPT_CONNECTION / 2, connections.slot(THERE)).await.is_err(), "they have their time");
        log_in(&kept[0], "admin");
        let request = kept[0].activity.begin(false);
        let next = timeout(2 * KEPT_CONNECTION, connections.slot(THERE)).await.unwrap();
        assert!(is_open(&kept[0]) && !is_open(&kept[1]) && next.activity.is_kept);
        drop((request, kept));
        assert_eq!(connections.open.lock().kept.len(), 1);
        drop(slots);
        assert!(!connections.slot(THERE).await.activity.is_kept);
    }
}
