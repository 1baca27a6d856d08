//! [`ActiveRequest`]: a request of a client until the client's connection has taken the whole answer.

use super::{Clients, RequestSender};
use crate::request::{LabEvent, RequestTarget};
use jiff::Timestamp;
use std::sync::Arc;

/// A request whose user is being authenticated.
#[derive(Debug)]
pub struct Unidentified(pub(super) Arc<Clients>);

impl Drop for Unidentified {
    fn drop(&mut self) {
        self.0.state.lock().unidentified -= 1;
    }
}

/// A request in flight, or an open watch. It ends when this and all frames of the answer are dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    clients: Arc<Clients>,
    sender: Arc<RequestSender>,
    id: u64,
    target: Option<Arc<RequestTarget>>,
    flags: RequestFlags,
    incarnation: u32,
    arrived: Timestamp,
}

/// What a request is to the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFlags {
    /// Whether it lasts until its client ends it.
    pub(super) is_long: bool,
    /// Whether the clock waits for its client because of it.
    pub(super) is_counted: bool,
    /// Whether it is no traffic of its client.
    pub(super) is_ignored: bool,
}

impl ActiveRequest {
    pub(super) fn new(
        clients: Arc<Clients>,
        sender: Arc<RequestSender>,
        id: u64,
        target: Option<Arc<RequestTarget>>,
        flags: RequestFlags,
    ) -> Self {
        Self { clients, sender, id, target, flags, incarnation: 0, arrived: Timestamp::UNIX_EPOCH }
    }

    pub(super) fn of_incarnation(mut self, incarnation: u32) -> Self {
        self.incarnation = incarnation;
        self
    }

    pub(super) fn at(mut self, arrived: Timestamp) -> Self {
        self.arrived = arrived;
        self
    }

    /// Real time of its arrival.
    pub fn arrived(&self) -> Timestamp {
        self.arrived
    }

    /// Who sent it.
    pub fn sender(&self) -> &Arc<RequestSender> {
        &self.sender
    }

    fn resource(&self) -> &str {
        self.target.as_ref().map_or("", |target| &target.resource)
    }

    /// Number of times that the client's program was started again before the request.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Name of the client.
    pub fn client(&self) -> &str {
        &self.sender.client
    }

    /// Whether the clock waits for the client because of this request.
    pub fn is_counted(&self) -> bool {
        self.flags.is_counted
    }

    /// Whether the request lasts until its client ends it.
    pub fn is_long(&self) -> bool {
        self.flags.is_long
    }

    /// The server answered with this code.
    pub fn answered(&self, code: u16) {
        let is_retryable = super::quiet::is_retryable(code);
        // Its arrival has noted that nothing is repeated; the traffic is noted when the connection has taken the answer.
        let is_noted = !self.flags.is_long && !is_retryable;
        if self.flags.is_ignored || is_noted {
            return;
        }
        self.clients.with(self.client(), |client, now| {
            client.retryable = is_retryable.then_some(code);
            client.last_traffic = now;
            if self.flags.is_long {
                client.in_flight.remove(&self.id);
            }
        });
    }

    /// The request stands still until something else happens: its turn in the serial order, or the release by a plan. It goes on when the
    /// guard is dropped.
    pub fn wait(&self) -> WaitGuard<'_> {
        self.change_waits(|waits| waits + 1);
        WaitGuard(self)
    }

    fn change_waits(&self, change: impl FnOnce(usize) -> usize) {
        self.clients.with(self.client(), |client, _| {
            if let Some(request) = client.in_flight.get_mut(&self.id) {
                request.waits = change(request.waits);
            }
        });
    }

    /// The answer shows this revision of the kind; `None`: in a form that the lab does not read.
    pub fn showed(&self, revision: Option<i64>) {
        self.clients.with(self.client(), |client, _| match revision {
            // The newest start of the program was not shown it.
            _ if client.incarnation != self.incarnation => {}
            Some(revision) => client.view.answered(self.resource(), revision),
            None => client.view.unreadable(self.resource()),
        });
    }

    /// A frame of the answer is on its way to the connection, with these events of a watch.
    pub fn frame(self: &Arc<Self>, events: Vec<LabEvent>) -> FrameGuard {
        if self.flags.is_long {
            self.clients.with(self.client(), |client, _| {
                if let Some(watch) = client.watches.get_mut(&self.id) {
                    watch.untaken += 1;
                }
            });
        }
        FrameGuard { active: self.clone(), events }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let RequestFlags { is_long, is_ignored, .. } = self.flags;
        self.clients.with(self.client(), |client, now| {
            client.in_flight.remove(&self.id);
            if is_long {
                client.watches.remove(&self.id);
                client.view.watch_ended(self.resource());
            }
            if !is_ignored {
                client.last_traffic = now;
            }
        });
    }
}

/// A request that stands still: see [`ActiveRequest::wait`].
#[derive(Debug)]
pub struct WaitGuard<'a>(&'a ActiveRequest);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.change_waits(|waits| waits.saturating_sub(1));
    }
}

/// A frame of an answer until the connection has taken it.
#[derive(Debug)]
pub struct FrameGuard {
    active: Arc<ActiveRequest>,
    events: Vec<LabEvent>,
}

impl Drop for FrameGuard {
    fn drop(&mut self) {
        let active = &self.active;
        // The traffic of a request that ends by itself is noted when it ends, which is not before its last frame is dropped.
        if !active.flags.is_long {
            return;
        }
        active.clients.with(active.client(), |client, now| {
            let is_of_newest_start = client.incarnation == active.incarnation;
            for event in self.events.iter().filter(|_| is_of_newest_start) {
                client.view.delivered(active.resource(), event);
            }
            if let Some(watch) = client.watches.get_mut(&active.id) {
                watch.untaken = watch.untaken.saturating_sub(1);
            }
            if !active.flags.is_ignored {
                client.last_traffic = now;
            }
        });
    }
}
