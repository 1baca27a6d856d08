//! [`Table`]: which parts there are, what each has asked for, and what to do next. No I/O: the pump carries it out.

use std::{collections::BTreeMap, sync::Arc};

use kstore_informer::{Revision, SourceError};
use tokio::sync::oneshot;

use super::{
    Selectors,
    inbox::{Inbox, Reader},
};

/// One part's place at the table. Places are numbered in the order in which parts were added.
pub(super) type Seat = u64;

/// What a part's informer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// The whole state, then changes.
    Everything,
    /// Changes after this.
    After(Revision),
}

/// How an informer hears what became of its wish.
pub(super) type Answer = oneshot::Sender<Result<Reader, SourceError>>;

/// See the module.
#[derive(Default)]
pub(super) struct Table {
    seats: BTreeMap<Seat, Place>,
    next: Seat,
    /// Whether a pump works for this table.
    pub pumped: bool,
}

struct Place {
    selectors: Selectors,
    asked: Option<(Wish, Answer)>,
    /// Where the open stream delivers for it.
    inbox: Option<Arc<Inbox>>,
}

/// What the pump should do.
pub(super) enum Plan {
    /// Nothing before the table changes.
    Wait,
    /// A stream is open, and everyone who is on it is content.
    Read,
    /// A stream is open, but somebody wants another one: end this one for all.
    End,
    /// Open a stream after this revision, or with the whole state, and answer those who asked.
    Open(Option<Revision>, Vec<Guest>),
    /// Nobody is left.
    Leave,
}

/// A part that takes part in the next stream.
pub(super) struct Guest {
    /// Its place.
    pub seat: Seat,
    /// What to ask the server for on its behalf.
    pub selectors: Selectors,
    /// What it knows already.
    pub after: Revision,
    /// Where to say how it went.
    pub answer: Answer,
}

impl Table {
    /// A place for one more part.
    pub(super) fn join(&mut self, selectors: Selectors) -> Seat {
        let seat = self.next;
        self.next += 1;
        self.seats.insert(seat, Place { selectors, asked: None, inbox: None });
        seat
    }

    /// The part is gone.
    pub(super) fn leave(&mut self, seat: Seat) {
        if let Some(inbox) = self.seats.remove(&seat).and_then(|place| place.inbox) {
            inbox.abandon();
        }
    }

    /// The part's informer wants a stream; one that it had before ends with those of the others.
    pub(super) fn ask(&mut self, seat: Seat, wish: Wish, answer: Answer) {
        if let Some(place) = self.seats.get_mut(&seat) {
            place.asked = Some((wish, answer));
        }
    }

    /// The open stream, if there is one, delivers to these.
    pub(super) fn seat(&mut self, seat: Seat, inbox: Arc<Inbox>) {
        match self.seats.get_mut(&seat) {
            Some(place) => place.inbox = Some(inbox),
            None => inbox.abandon(),
        }
    }

    /// The open stream is no more.
    pub(super) fn clear(&mut self) {
        self.seats.values_mut().for_each(|place| place.inbox = None);
    }

    /// The rule: while a stream is open, it is read until somebody asks for another. While none is, and anybody needs the whole
    /// state, all who want to resume are told that it has expired, so that they ask again for everything. When everyone has
    /// asked, the stream is opened: with the whole state, or from the oldest revision that is wanted.
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

    /// Those whose informers have not asked yet, when others have.
    pub(super) fn missing(&self) -> Vec<String> {
        let waiting = self.seats.values().any(|place| place.asked.is_some());
        let missing = self.seats.values().filter(|place| waiting && place.asked.is_none());
        let name = |place: &Place| place.selectors.first().and_then(|s| s.r#ref.clone()).unwrap_or_default();
        missing.map(|place| name(place).resource).collect()
    }

    /// Nobody serves this table any longer: whoever waits is told.
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
