//! One simulated node as a state machine with a `step` that yields the node's writes. Pure; `object` builds
//! the objects to write.

pub mod address;
pub mod admission;
pub mod health;
pub mod object;

use crate::limits::{HEARTBEAT_TICK, STATUS_INTERVAL};
use crate::time::tick_at;
use jiff::Timestamp;
use kstore_container_sim::time::later;
use std::time::Duration;

/// A node's registration and heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The Node object may not exist yet.
    Unregistered,
    /// The node sends heartbeats.
    Alive {
        /// When to renew the lease.
        lease: Timestamp,
        /// When to post the status even if it has not changed.
        status: Timestamp,
    },
    /// A fault stopped the node: it writes nothing.
    Stopped {
        /// Whether the node had registered.
        registered: bool,
    },
}

/// An input of a node's state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The process starts.
    Begin,
    /// The Node object exists.
    Registered {
        /// Whether the object existed before this process, so that its status may be old.
        adopted: bool,
        /// Offset of this node's heartbeats from those of the first node, so that heartbeats are spread. They
        /// still fall on common ticks.
        offset: Duration,
    },
    /// The time of [`NodeState::deadline`] has come.
    Deadline {
        /// Whether the object differs from the node's current status.
        stale: bool,
    },
    /// A fault stops the node.
    Stop,
    /// The fault has ended.
    Resume,
}

/// A write that a node is to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Create the Node object, or learn that it exists.
    Register,
    /// Renew the lease, or create it.
    RenewLease,
    /// Write the status.
    PostStatus,
}

impl NodeState {
    /// The time of the next deadline.
    pub fn deadline(&self) -> Option<Timestamp> {
        match *self {
            Self::Unregistered | Self::Stopped { .. } => None,
            Self::Alive { lease, status } => Some(lease.min(status)),
        }
    }
}

/// Processes one input. `every` is the time from one renewal of the lease to the next.
pub fn step(state: NodeState, input: Input, every: Duration, now: Timestamp) -> (NodeState, Vec<Output>) {
    use Output::{PostStatus, Register, RenewLease};
    let due = |after: Duration| tick_at(later(now, after), HEARTBEAT_TICK);
    match (state, input) {
        (NodeState::Unregistered, Input::Begin) => (state, vec![Register]),
        (NodeState::Unregistered, Input::Registered { adopted, offset }) => {
            let (lease, status) = (due(every + offset), due(STATUS_INTERVAL + offset));
            let writes = if adopted { vec![RenewLease, PostStatus] } else { vec![RenewLease] };
            (NodeState::Alive { lease, status }, writes)
        }
        (NodeState::Unregistered, Input::Stop) => (NodeState::Stopped { registered: false }, vec![]),
        (NodeState::Alive { .. }, Input::Stop) => (NodeState::Stopped { registered: true }, vec![]),
        (NodeState::Stopped { registered: true }, Input::Resume) => {
            let (lease, status) = (due(every), due(STATUS_INTERVAL));
            (NodeState::Alive { lease, status }, vec![RenewLease, PostStatus])
        }
        (NodeState::Stopped { registered: false }, Input::Resume) => {
            (NodeState::Unregistered, vec![Register])
        }
        // A registration that was in flight when the fault began.
        (NodeState::Stopped { registered: false }, Input::Registered { .. }) => {
            (NodeState::Stopped { registered: true }, vec![])
        }
        (NodeState::Alive { mut lease, mut status }, Input::Deadline { stale }) => {
            let mut writes = Vec::new();
            if lease <= now {
                lease = due(every);
                writes.push(RenewLease);
            }
            if status <= now || (stale && !writes.is_empty()) {
                status = due(STATUS_INTERVAL);
                writes.push(PostStatus);
            }
            (NodeState::Alive { lease, status }, writes)
        }
        (NodeState::Unregistered, Input::Deadline { .. } | Input::Resume) => (state, vec![]),
        (NodeState::Alive { .. }, Input::Begin | Input::Registered { .. } | Input::Resume) => (state, vec![]),
        (NodeState::Stopped { .. }, Input::Begin | Input::Deadline { .. } | Input::Stop) => (state, vec![]),
        (NodeState::Stopped { registered: true }, Input::Registered { .. }) => (state, vec![]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LEASE_INTERVAL;
    use kstore_container_sim::time::between;

    /// The writes within `seconds` seconds, as `(second, writes)`.
    fn heartbeats(mut state: NodeState, seconds: u64, stale: bool) -> Vec<(u64, Vec<Output>)> {
        let mut story = Vec::new();
        while let Some(now) = state.deadline() {
            let second = between(Timestamp::UNIX_EPOCH, now).as_secs();
            if second > seconds {
                break;
            }
            let (next, writes) = step(state, Input::Deadline { stale }, LEASE_INTERVAL, now);
            story.push((second, writes));
            state = next;
        }
        story
    }

    fn registered(adopted: bool) -> (NodeState, Vec<Output>) {
        let input = Input::Registered { adopted, offset: Duration::ZERO };
        step(NodeState::Unregistered, input, LEASE_INTERVAL, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_quiet_node_renews_its_lease_every_ten_seconds_and_posts_its_status_every_five_minutes() {
        let story = heartbeats(registered(false).0, 300, false);
        let leases = story.iter().filter(|(_, writes)| writes.contains(&Output::RenewLease)).count();
        let posts: Vec<_> = story.iter().filter(|(_, writes)| writes.contains(&Output::PostStatus)).collect();
        assert_eq!(leases, 30);
        assert_eq!(posts.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [300]);
    }

    #[test]
    fn nodes_with_a_similar_offset_heartbeat_at_the_same_instants() {
        let due = |offset_millis, late_millis| {
            let input = Input::Registered { adopted: false, offset: Duration::from_millis(offset_millis) };
            let (state, _) =
                step(NodeState::Unregistered, input, LEASE_INTERVAL, Timestamp::from_millisecond(7).unwrap());
            // A process that wakes a little late stays on the tick.
            let woken = later(state.deadline().unwrap(), Duration::from_millis(late_millis));
            step(state, Input::Deadline { stale: false }, LEASE_INTERVAL, woken)
                .0
                .deadline()
                .unwrap()
                .as_millisecond()
        };
        assert_eq!([due(0, 0), due(100, 40), due(200, 249)], [20_000; 3]);
        assert_eq!(due(250, 3), 20_250);
    }

    #[test]
    fn a_status_changed_by_another_writer_is_posted_with_the_next_heartbeat() {
        let story = heartbeats(registered(false).0, 10, true);
        assert_eq!(story, [(10, vec![Output::RenewLease, Output::PostStatus])]);
    }

    #[test]
    fn a_stopped_node_writes_nothing_and_a_resumed_one_everything() {
        let (state, _) = step(registered(false).0, Input::Stop, LEASE_INTERVAL, Timestamp::UNIX_EPOCH);
        assert_eq!(state.deadline(), None);
        let (_, writes) = step(state, Input::Resume, LEASE_INTERVAL, Timestamp::UNIX_EPOCH);
        assert_eq!(writes, [Output::RenewLease, Output::PostStatus]);
    }

    #[test]
    fn an_existing_node_is_adopted_and_its_status_renewed() {
        assert_eq!(registered(true).1, [Output::RenewLease, Output::PostStatus]);
        assert_eq!(registered(false).1, [Output::RenewLease]);
    }
}
