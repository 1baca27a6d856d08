//! What a group does next: from its size and its instances to actions. Pure.

use super::spec::{GroupSpec, ScaleDown, ScheduledSize};
use crate::limits::INSTANCE_CHANGES;
use jiff::Timestamp;
use kstore_container_sim::time::{between, later};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InstanceState {
    /// There is no Node yet.
    Creating,
    /// The node has registered, and is not ready.
    Registered,
    /// The node is ready.
    Ready,
    /// The instance is being given up.
    Terminating,
}

/// An instance of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) state: InstanceState,
    /// When it was asked for.
    pub(crate) since: Timestamp,
    /// Its pods, but those of DaemonSets.
    pub(crate) pods: usize,
    /// Whether it is to be given up before all others.
    pub(crate) is_unwanted: bool,
}

/// A change of the group's instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask for an instance with this number.
    Create(u32),
    /// Forget an instance that has no Node yet.
    Cancel(String),
    /// Give up an instance with a Node.
    Terminate(String),
}

/// The next actions, at most [`INSTANCE_CHANGES`]: what is being created is canceled before a node is given up.
pub(crate) fn plan(spec: &GroupSpec, instances: &[Instance]) -> Vec<Action> {
    let wanted = spec.doc.replicas as usize;
    let alive: Vec<&Instance> =
        instances.iter().filter(|one| one.state != InstanceState::Terminating).collect();
    if alive.len() <= wanted {
        let count = (wanted - alive.len()).min(INSTANCE_CHANGES);
        // The number of an instance that is being given up is free only when its Node is gone, since names meet.
        let taken: BTreeSet<u32> = instances.iter().map(|one| one.index).collect();
        let free = (0..u32::MAX).filter(|index| !taken.contains(index));
        return free.take(count).map(Action::Create).collect();
    }
    let mut order = alive.clone();
    order.sort_by(|a, b| cheaper(spec.scale_down, a, b));
    let surplus = (alive.len() - wanted).min(INSTANCE_CHANGES);
    let action = |one: &Instance| match one.state {
        InstanceState::Creating => Action::Cancel(one.name.clone()),
        InstanceState::Registered | InstanceState::Ready | InstanceState::Terminating => {
            Action::Terminate(one.name.clone())
        }
    };
    order.into_iter().take(surplus).map(action).collect()
}

/// The order in which instances go.
fn cheaper(by: ScaleDown, a: &Instance, b: &Instance) -> std::cmp::Ordering {
    let has_node = |one: &Instance| one.state != InstanceState::Creating;
    let last = |one: &Instance| Reverse(one.index);
    let kept = |one: &Instance| (!one.is_unwanted, has_node(one));
    kept(a).cmp(&kept(b)).then_with(|| match by {
        ScaleDown::Cheapest => {
            let key = |one: &Instance| (one.state == InstanceState::Ready, one.pods, last(one));
            key(a).cmp(&key(b))
        }
        ScaleDown::Newest => (Reverse(a.since), last(a)).cmp(&(Reverse(b.since), last(b))),
        ScaleDown::Oldest => (a.since, a.index).cmp(&(b.since, b.index)),
        ScaleDown::Index => last(a).cmp(&last(b)),
    })
}

/// The latest size of a schedule that is due, with its time, and when the next one is. `created` is the group's creation.
pub(crate) fn scheduled(
    schedule: &[ScheduledSize],
    created: Timestamp,
    now: Timestamp,
) -> (Option<(Timestamp, u32)>, Option<Timestamp>) {
    let (mut latest, mut next): (Option<(Timestamp, u32)>, Option<Timestamp>) = (None, None);
    for size in schedule {
        let first = later(created, size.after);
        let (last, following) = match size.every {
            _ if now < first => (None, Some(first)),
            None => (Some(first), None),
            Some(every) => {
                let rounds = between(first, now).as_nanos() / every.as_nanos().max(1);
                let last = later(first, every.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)));
                (Some(last), Some(later(last, every)))
            }
        };
        // Of two at one time the later in the list counts.
        if let Some(last) = last
            && latest.is_none_or(|(at, _)| at <= last)
        {
            latest = Some((last, size.replicas));
        }
        next = next.into_iter().chain(following).min();
    }
    (latest, next)
}
