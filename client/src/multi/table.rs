//! [`Table`]: the parts, the request of each, and the next step of the pump. No I/O: the pump executes the
//! plan.

use super::Selectors;
use super::inbox::{Inbox, Reader};
use kstore_informer::{Revision, SourceError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The id of a part. Ids rise in the order in which parts were added.
pub(super) type PartId = u64;

/// The start that a part's informer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedStart {
    /// The full state, then changes.
    FullState,
    /// The changes after this revision.
    After(Revision),
}

/// The channel for the result of a part's request.
pub(super) type ReplySender = oneshot::Sender<Result<Reader, SourceError>>;

/// The parts of one shared stream and their requests.
pub(super) struct Table {
    parts: BTreeMap<PartId, PartEntry>,
    next: PartId,
    /// Whether a pump runs for this table.
    pub has_pump: bool,
    /// The longest time for which progress without changes waits for a part's reader.
    longest_delay: Duration,
}

struct PartEntry {
    selectors: Selectors,
    request: Option<(RequestedStart, ReplySender)>,
    /// The inbox of the part on the open stream.
    inbox: Option<Arc<Inbox>>,
    /// The newest revision that a reader of the part waits for.
    demanded: Revision,
}

/// The next step of the pump.
pub(super) enum Plan {
    /// Wait for a change of the table.
    Wait,
    /// Read the open stream; no part on it requests another one.
    Read,
    /// End the open stream for all parts, because a part requests another one.
    End,
    /// Open a stream after this revision (`None`: with the full state), and send the parts the result.
    Open(Option<Revision>, Vec<StreamMember>),
    /// End: no part is left.
    Finish,
}

/// A part of the next stream.
pub(super) struct StreamMember {
    /// The id of the part.
    pub part: PartId,
    /// The watch selectors of the part.
    pub selectors: Selectors,
    /// The revision that the part already knows.
    pub after: Revision,
    /// The channel for the result.
    pub reply: ReplySender,
}

impl Table {
    /// A table without parts.
    pub(super) fn new(longest_delay: Duration) -> Self {
        Self { parts: BTreeMap::new(), next: 0, has_pump: false, longest_delay }
    }

    /// The longest time for which progress without changes waits for a part's reader.
    pub(super) fn longest_delay(&self) -> Duration {
        self.longest_delay
    }

    /// Records that a reader of the part waits for a revision, on the open stream and on later ones.
    pub(super) fn demand(&mut self, part: PartId, revision: Revision) {
        let Some(entry) = self.parts.get_mut(&part) else { return };
        entry.demanded = entry.demanded.max(revision);
        if let Some(inbox) = &entry.inbox {
            inbox.demand(revision);
        }
    }

    /// Adds a part.
    pub(super) fn add(&mut self, selectors: Selectors) -> PartId {
        let part = self.next;
        self.next += 1;
        self.parts.insert(part, PartEntry { selectors, request: None, inbox: None, demanded: Revision(0) });
        part
    }

    /// Removes a part.
    pub(super) fn remove(&mut self, part: PartId) {
        if let Some(inbox) = self.parts.remove(&part).and_then(|entry| entry.inbox) {
            inbox.abandon();
        }
    }

    /// Records the part's request for a stream. An earlier stream of the part ends with those of the others.
    pub(super) fn request(&mut self, part: PartId, requested: RequestedStart, reply: ReplySender) {
        if let Some(entry) = self.parts.get_mut(&part) {
            entry.request = Some((requested, reply));
        }
    }

    /// Registers the inbox of a part on the open stream.
    pub(super) fn set_inbox(&mut self, part: PartId, inbox: Arc<Inbox>) {
        match self.parts.get_mut(&part) {
            Some(entry) => {
                inbox.demand(entry.demanded);
                entry.inbox = Some(inbox);
            }
            None => inbox.abandon(),
        }
    }

    /// Removes all inboxes: the stream has ended.
    pub(super) fn clear(&mut self) {
        self.parts.values_mut().for_each(|entry| entry.inbox = None);
    }

    /// The next step. While a stream is open, the pump reads it until a part requests another one. Without an
    /// open stream, if any part requests the full state, parts that want to resume get the error that their
    /// revision has expired, so that they request the full state too. Once every part has requested, the pump
    /// opens a stream: with the full state, or from the oldest requested revision.
    pub(super) fn plan(&mut self, open: bool) -> Plan {
        let gone = |entry: &PartEntry| entry.request.as_ref().is_some_and(|(_, reply)| reply.is_closed());
        self.parts.values_mut().filter(|entry| gone(entry)).for_each(|entry| entry.request = None);
        let requesting = self.parts.values().filter(|entry| entry.request.is_some()).count();
        if self.parts.is_empty() {
            self.has_pump = false;
            return Plan::Finish;
        }
        match open {
            true if requesting > 0 => return Plan::End,
            true => return Plan::Read,
            false => {}
        }
        let requests = || self.parts.values().filter_map(|entry| Some(entry.request.as_ref()?.0));
        let whole = requests().any(|requested| requested == RequestedStart::FullState);
        if whole && requests().any(|requested| requested != RequestedStart::FullState) {
            self.expire();
            return Plan::Wait;
        }
        if requesting < self.parts.len() {
            return Plan::Wait;
        }
        let start = match whole {
            true => None,
            false => requests().filter_map(RequestedStart::after).min(),
        };
        Plan::Open(start, self.members())
    }

    /// The parts without a request, if other parts wait for them.
    pub(super) fn missing(&self) -> Vec<String> {
        let waiting = self.parts.values().any(|entry| entry.request.is_some());
        let missing = self.parts.values().filter(|entry| waiting && entry.request.is_none());
        let name =
            |entry: &PartEntry| entry.selectors.first().and_then(|s| s.r#ref.clone()).unwrap_or_default();
        missing.map(|entry| name(entry).resource).collect()
    }

    /// Ends the service of this table: waiting parts get an error.
    pub(super) fn stop_serving(&mut self) {
        self.has_pump = false;
        for entry in self.parts.values_mut() {
            entry.request = None;
            if let Some(inbox) = entry.inbox.take() {
                inbox.end(Some(SourceError::Unreachable(
                    "the task of the shared watch stream has ended".into(),
                )));
            }
        }
    }

    fn expire(&mut self) {
        for entry in self.parts.values_mut() {
            if let Some((_, reply)) =
                entry.request.take_if(|(requested, _)| *requested != RequestedStart::FullState)
            {
                let _ = reply.send(Err(SourceError::Expired));
            }
        }
    }

    fn members(&mut self) -> Vec<StreamMember> {
        let member = |(part, entry): (&PartId, &mut PartEntry)| {
            let (requested, reply) = entry.request.take()?;
            let after = requested.after().unwrap_or_default();
            Some(StreamMember { part: *part, selectors: entry.selectors.clone(), after, reply })
        };
        self.parts.iter_mut().filter_map(member).collect()
    }
}

impl RequestedStart {
    fn after(self) -> Option<Revision> {
        match self {
            Self::FullState => None,
            Self::After(revision) => Some(revision),
        }
    }
}
