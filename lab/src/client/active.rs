//! [`ActiveRequest`]: a request of a client until the client's connection has taken the whole answer.

use super::Clients;
use crate::request::LabEvent;
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
    client: String,
    id: u64,
    resource: String,
    is_long: bool,
    is_counted: bool,
    is_ignored: bool,
    incarnation: u32,
}

impl ActiveRequest {
    pub(super) fn new(
        clients: Arc<Clients>,
        client: String,
        id: u64,
        resource: String,
        (is_long, is_counted, is_ignored): (bool, bool, bool),
    ) -> Self {
        Self { clients, client, id, resource, is_long, is_counted, is_ignored, incarnation: 0 }
    }

    pub(super) fn of_incarnation(mut self, incarnation: u32) -> Self {
        self.incarnation = incarnation;
        self
    }

    /// Number of times that the client's program was started again before the request.
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Name of the client.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Whether the clock waits for the client because of this request.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Whether the request lasts until its client ends it.
    pub fn is_long(&self) -> bool {
        self.is_long
    }

    /// The server answered with this code.
    pub fn answered(&self, code: u16) {
        if self.is_ignored {
            return;
        }
        self.clients.with(&self.client, |client, now| {
            client.retryable = super::quiet::is_retryable(code).then_some(code);
            client.last_traffic = now;
            if self.is_long {
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
        self.clients.with(&self.client, |client, _| {
            if let Some(request) = client.in_flight.get_mut(&self.id) {
                request.waits = change(request.waits);
            }
        });
    }

    /// The answer shows this revision of the kind; `None`: in a form that the lab does not read.
    pub fn showed(&self, revision: Option<i64>) {
        self.clients.with(&self.client, |client, _| match revision {
            Some(revision) => client.view.answered(&self.resource, revision),
            None => client.view.unreadable(&self.resource),
        });
    }

    /// A frame of the answer is on its way to the connection, with these events of a watch.
    pub fn frame(self: &Arc<Self>, events: Vec<LabEvent>) -> FrameGuard {
        if self.is_long {
            self.clients.with(&self.client, |client, _| {
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
        let (is_long, is_ignored) = (self.is_long, self.is_ignored);
        self.clients.with(&self.client, |client, now| {
            client.in_flight.remove(&self.id);
            client.watches.remove(&self.id);
            if is_long {
                client.view.watch_ended(&self.resource);
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
        active.clients.with(&active.client, |client, now| {
            for event in &self.events {
                client.view.delivered(&active.resource, event);
            }
            if let Some(watch) = client.watches.get_mut(&active.id) {
                watch.untaken = watch.untaken.saturating_sub(1);
            }
            if !active.is_ignored {
                client.last_traffic = now;
            }
        });
    }
}
