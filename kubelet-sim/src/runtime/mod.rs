//! The seam between the kubelet's state machines and a container runtime, modeled after CRI: takes commands
//! and yields events. `sim` simulates the events, `cri` passes commands to a container runtime, and `route` chooses between them by the
//! node of a pod.

pub(crate) mod cri;
pub(crate) mod route;
pub mod sim;

use crate::execution::{Executed, Purpose};
use crate::pod_object::PodObject;
use crate::probe::Health;
use jiff::Timestamp;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A command to the runtime. Containers are identified by their index in [`PodObject::containers`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Set up the pod's network. Answered by [`Event::Sandbox`] or [`Event::SandboxFailed`].
    Sandbox,
    /// Adopt a network that was set up before this process started. Not answered.
    AdoptSandbox(IpAddr),
    /// Provide the container's image on the node. Answered by [`Event::Pulling`] and one of the other image
    /// events.
    Image(usize),
    /// Create and start the container for the run with this number, counted from zero. Answered by
    /// [`Event::Started`], [`Event::NotStarted`] or [`Event::StartFailed`].
    Start(usize, u32),
    /// Adopt a container that was started before this process. Answered by [`Event::Adopted`].
    Adopt(usize, u32, Timestamp),
    /// Stop the container: SIGTERM, and SIGKILL after the grace period. Answered by [`Event::Exited`].
    Stop(usize, Duration),
    /// Kill a container that was asked to stop no later than after this time.
    Shorten(usize, Duration),
    /// Release the pod's network. Not answered.
    RemoveSandbox,
}

/// An event of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The network is up, perhaps anew with another address; `None` for a pod on its node's own network.
    Sandbox(Option<IpAddr>),
    /// The network cannot be set up.
    SandboxFailed(String),
    /// A pull has begun.
    Pulling(usize),
    /// The node already had the image.
    ImagePresent(usize),
    /// The image was pulled.
    Pulled {
        /// Index of the container.
        container: usize,
        /// Duration of the pull.
        took: Duration,
        /// Size of the image in bytes.
        size: u64,
    },
    /// The image could not be pulled.
    PullFailed(usize, String),
    /// The runtime does not answer to a question about the image, with its error.
    InspectFailed(usize, String),
    /// The node does not have the image and must not pull it.
    NeverPull(usize),
    /// The container could not be created or started.
    StartFailed {
        /// Index of the container.
        container: usize,
        /// The reason that a kubelet shows, such as `CreateContainerError`.
        reason: &'static str,
        /// The error.
        message: String,
    },
    /// The container is running.
    Started {
        /// Index of the container.
        container: usize,
        /// The runtime's id of this run.
        id: String,
        /// The health that probes will find.
        health: Health,
    },
    /// The container was created, and its program could not be started: it has ended.
    NotStarted {
        /// Index of the container.
        container: usize,
        /// The runtime's id of this run.
        id: String,
        /// The runtime's error.
        message: String,
    },
    /// The adopted container is running.
    Adopted(usize, Health),
    /// The container ended.
    Exited {
        /// Index of the container.
        container: usize,
        /// The exit code.
        code: i32,
        /// Whether it was killed for lack of memory.
        oom: bool,
        /// The termination message.
        message: String,
    },
    /// A command that the kubelet ran in the container has ended.
    Executed {
        /// Index of the container.
        container: usize,
        /// The runtime's id of the run.
        run: String,
        /// The purpose of the command.
        purpose: Purpose,
        /// The result.
        result: Executed,
    },
}

/// An event that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueEvent {
    /// The time at which it happened.
    pub at: Timestamp,
    /// The uid of its pod.
    pub uid: Arc<str>,
    /// The event.
    pub event: Event,
}

/// A container runtime.
pub trait Runtime {
    /// Begins `command` for `pod` and returns at once. Events come from [`Runtime::take_due`], possibly at
    /// `now`.
    fn submit(&mut self, pod: &PodObject, command: Command, now: Timestamp);

    /// Ends the container's process by itself, with this code; `oom` for want of memory. Answered by [`Event::Exited`].
    fn exit(&mut self, pod: &PodObject, container: usize, code: i32, oom: bool, now: Timestamp);

    /// The next event not later than `now`. Ordered by time, then by submission.
    fn take_due(&mut self, now: Timestamp) -> Option<DueEvent>;

    /// When the next event is due.
    fn next_due(&self) -> Option<Timestamp>;

    /// Forgets a deleted pod: cancels its events and frees its resources.
    fn forget(&mut self, uid: &str);
}
