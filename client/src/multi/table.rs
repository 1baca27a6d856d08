//! [`Table`]: the parts, the request of each, and the next step of the pump. No I/O: the pump executes the
//! plan.

use std::{collections::BTreeMap, sync::Arc};

use kstore_informer::{Revision, SourceError};
use tokio::sync::oneshot;

use super::{
    Selectors,
    inbox::{Inbox, Reader},
};

/// The id of a part. Ids rise in the order in which parts were added.
pub(super) type Seat = u64;

/// The start that a part's informer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The full state, then changes.
    Everything,
    /// The changes after this revision.
    After(Revision),
}

/// The channel for the result of a part's request.
pub(super) type Answer = oneshot::Sender<Result<Reader, SourceError>>;

/// The parts of one shared stream and their requests.
#[derive(Default)]
pub(super) struct Table {
    seats: BTreeMap<Seat, Place>,
    next: Seat,
    /// Whether a pump runs for this table.
    pub pumped: bool,
}

struct Place {
    selectors: Selectors,
    asked: Option<(Wish, Answer)>,
    /// The inbox of the part on the open stream.
    inbox: Option<Arc<Inbox>>,
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
    Open(Option<Revision>, Vec<Guest>),
    /// End: no part is left.
    Leave,
}

/// A part of the next stream.
pub(super) struct Guest {
    /// The id of the part.
    pub seat: Seat,
    /// The watch selectors of the part.
    pub selectors: Selectors,
    /// The revision that the part already knows.
    pub after: Revision,
    /// The channel for the result.
    pub answer: Answer,
}

impl Table {
    /// Adds a part.
    pub(super) fn join(&mut self, selectors: Selectors) -> Seat {
        let seat = self.next;
        self.next += 1;
        self.seats.insert(seat, Place { selectors, asked: None, inbox: None });
        seat
    }

    /// Removes a part.
    pub(super) fn leave(&mut self, seat: Seat) {
        if let Some(inbox) = self.seats.remove(&seat).and_then(|place| place.inbox) {
            inbox.abandon();
        }
    }

    /// Records the part's request for a stream. An earlier stream of the part ends with those of the others.
    pub(super) fn ask(&mut self, seat: Seat, wish: Wish, answer: Answer) {
        if let Some(place) = self.seats.get_mut(&seat) {
            place.asked = Some((wish, answer));
        }
    }

    /// Registers the inbox of a part on the open stream.
    pub(super) fn seat(&mut self, seat: Seat, inbox: Arc<Inbox>) {
        match self.seats.get_mut(&seat) {
            Some(place) => place.inbox = Some(inbox),
            None => inbox.abandon(),
        }
    }

    /// Removes all inboxes: the stream has ended.
    pub(super) fn clear(&mut self) {
        self.seats.values_mut().for_each(|place| place.inbox = None);
    }

    /// The next step. While a stream is open, the pump reads it until a part requests another one. Without an
    /// open stream, if any part requests the full state, parts that want to resume get the error that their
    /// revision has expired, so that they request the full state too. Once every part has requested, the pump
    /// opens a stream: with the full state, or from the oldest requested revision.
    pub(super) fn plan(&mut self, open: bool) -> Plan {
        let gone = |place: &Place| place.asked.as_ref().is_some_and(|(_, answer)| answer.is_closed());
        self.seats.values_mut().filter(|place| gone(place)).for_each(|place| place.asked = None);
        let asking = self.seats.values().filter(|place| place.asked.is_some()).count();
        if self.seats.is_empty() {
            self.pumped = false;
            return Plan::Leave;
        }
        match open {
            true if asking > 0 => return Plan::End,
            true => return Plan::Read,
            false => {}
        }
        let wishes = || self.seats.values().filter_map(|place| Some(place.asked.as_ref()?.0));
        let whole = wishes().any(|wish| wish == Wish::Everything);
        if whole && wishes().any(|wish| wish != Wish::Everything) {
            self.expire();
            return Plan::Wait;
        }
        if asking < self.seats.len() {
            return Plan::Wait;
        }
        let start = match whole {
            true => None,
            false => wishes().filter_map(Wish::after).min(),
        };
        Plan::Open(start, self.guests())
    }

    /// The parts without a request, if other parts wait for them.
    pub(super) fn missing(&self) -> Vec<String> {
        let waiting = self.seats.values().any(|place| place.asked.is_some());
        let missing = self.seats.values().filter(|place| waiting && place.asked.is_none());
        let name = |place: &Place| place.selectors.first().and_then(|s| s.r#ref.clone()).unwrap_or_default();
        missing.map(|place| name(place).resource).collect()
    }

    /// Ends the service of this table: waiting parts get an error.
    pub(super) fn dismiss(&mut self) {
        self.pumped = false;
        for place in self.seats.values_mut() {
            place.asked = None;
            if let Some(inbox) = place.inbox.take() {
                inbox.end(Some(SourceError::Unreachable("what reads the common stream has ended".into())));
            }
        }
    }

    fn expire(&mut self) {
        for place in self.seats.values_mut() {
            if let Some((_, answer)) = place.asked.take_if(|(wish, _)| *wish != Wish::Everything) {
                let _ = answer.send(Err(SourceError::Expired));
            }
        }
    }

    fn guests(&mut self) -> Vec<Guest> {
        let guest = |(seat, place): (&Seat, &mut Place)| {
            let (wish, answer) = place.asked.take()?;
            let after = wish.after().unwrap_or_default();
            Some(Guest { seat: *seat, selectors: place.selectors.clone(), after, answer })
        };
        self.seats.iter_mut().filter_map(guest).collect()
    }
}

impl Wish {
    fn after(self) -> Option<Revision> {
        match self {
            Self::Everything => None,
            Self::After(revision) => Some(revision),
        }
    }
}
