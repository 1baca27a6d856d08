//! The seam between the kubelet's judgement and what runs containers, shaped after CRI: commands go down, events come
//! back. `sim` makes the events up; a container runtime behind the same trait would report real ones.

pub mod sim;

use crate::pod::object::PodObject;
use crate::probe::Health;
use jiff::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What the kubelet asks for. Containers are named by their place in [`PodObject::containers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Make the pod's network. Answered by [`Event::Sandbox`] or [`Event::SandboxFailed`].
    Sandbox,
    /// Take up a network that was made before this process started. Not answered.
    AdoptSandbox(IpAddr),
    /// Have the container's image on the node. Answered by [`Event::Pulling`] and one of the other image events.
    Image(usize),
    /// Create and start the container, its so-many-th run counted from zero. Answered by [`Event::Started`].
    Start(usize, u32),
    /// Take up a container that was started before this process was. Answered by [`Event::Adopted`].
    Adopt(usize, u32, Timestamp),
    /// End the container: SIGTERM, and SIGKILL after the grace. Answered by [`Event::Exited`].
    Stop(usize, Duration),
    /// Give the pod's network back. Not answered.
    RemoveSandbox,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The network is up; `None` for a pod on its node's own network.
    Sandbox(Option<IpAddr>),
    /// The network cannot be made.
    SandboxFailed(String),
    /// A pull began.
    Pulling(usize),
    /// The node had the image.
    ImagePresent(usize),
    /// The image was pulled.
    Pulled {
        /// Of which container.
        container: usize,
        /// How long the pull took.
        took: Duration,
        /// Its size in bytes.
        size: u64,
    },
    /// The image could not be pulled.
    PullFailed(usize, String),
    /// The node does not have the image and must not pull it.
    NeverPull(usize),
    /// The container runs.
    Started {
        /// Which one.
        container: usize,
        /// The runtime's name for this run.
        id: String,
        /// What probes would find in it.
        health: Health,
    },
    /// The container that was taken up runs.
    Adopted(usize, Health),
    /// The container ended.
    Exited {
        /// Which one.
        container: usize,
        /// Its exit code.
        code: i32,
        /// It was killed for want of memory.
        oom: bool,
    },
}

/// Something that runs containers.
pub trait Runtime {
    /// Begins `command` for `pod`. Returns at once; answers come through [`Runtime::take_due`], possibly at `now`.
    fn submit(&mut self, pod: &PodObject, command: Command, now: Timestamp);

    /// The container's process ends by itself, with this code. Answered by [`Event::Exited`].
    fn exit(&mut self, pod: &PodObject, container: usize, code: i32, now: Timestamp);

    /// The next event not later than `now`: when it happened, the uid of its pod, and the event. In order of time, and of
    /// submission where times are equal.
    fn take_due(&mut self, now: Timestamp) -> Option<(Timestamp, Arc<str>, Event)>;

    /// When the next event is due.
    fn next_due(&self) -> Option<Timestamp>;

    /// The pod is gone: forget what is under way for it and free what it holds.
    fn forget(&mut self, uid: &str);
}
