//! [`Reflector`]: decides what to ask of a source next, and what its answers mean for the cache. A state machine without I/O:
//! [`Reflector::step`] takes what happened and says what to do. The driver in `informer` carries it out.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use kstore_nondet::Rng;
use tokio::time::Instant;

use crate::{
    Frame, Key, Listing, Object, Revision, SourceError, Start, Undecodable,
    limits::{
        INTERNAL_ERRORS_BEFORE_RELIST, REGRESSIONS_BEFORE_RESET, SHORT_STREAM, SOURCE_BACKOFF_BASE,
        SOURCE_BACKOFF_CAP, SOURCE_BACKOFF_RESET,
    },
};

/// What happened.
pub(crate) enum Input<T> {
    /// The driver begins.
    Begin,
    /// The list was answered.
    Listed(Result<Listing<T>, SourceError>),
    /// The watch was answered: its stream is open.
    Opened(Result<(), SourceError>),
    /// The stream gave an item.
    Frames(Result<Vec<Frame<T>>, SourceError>),
    /// The stream ended without an error.
    Ended,
    /// The stream was silent for too long.
    Silent,
    /// The wait is over.
    Waited,
}

/// What to do to the cache.
pub(crate) enum Apply<T> {
    /// Make it equal to the listing.
    Replace(Listing<T>),
    /// Apply these in order.
    Frames(Vec<Frame<T>>),
}

/// What to ask next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A list that is not older than this.
    List(Revision),
    /// A new stream, in place of the one before.
    Watch(Start),
    /// The next item of the open stream.
    Read,
    /// Nothing for this long. The stream is of no more use.
    Wait(Duration),
}

/// An answer of the machine.
pub(crate) struct Step<T> {
    pub apply: Vec<Apply<T>>,
    pub next: Next,
    /// The failure behind this step, if one was.
    pub trouble: Option<SourceError>,
}

/// Where the machine stands.
enum Phase<T> {
    /// A list is under way; then a watch follows.
    Listing,
    /// A stream is being opened.
    Opening(Start),
    /// An initial state is coming in. It reaches the cache when it is complete, or not at all.
    Collecting(Collected<T>),
    /// Changes after `from` are coming in on a stream.
    Watching { opened: Instant, from: Revision },
    /// Waiting after a failure, to ask for the whole state (`true`) or to resume.
    Waiting { whole: bool },
}

struct Collected<T> {
    opened: Instant,
    items: BTreeMap<Key, T>,
    undecodable: BTreeMap<Key, Undecodable>,
}

/// See the module.
pub(crate) struct Reflector<T> {
    phase: Phase<T>,
    /// What the cache has reached.
    progress: Option<Revision>,
    streaming: bool,
    backoff: Backoff,
    regressions: u32,
    last_expired: Option<Instant>,
    internal_since: Option<Instant>,
}

impl<T: Object> Reflector<T> {
    pub(crate) fn new(streaming: bool, rng: Rng) -> Self {
        Self {
            phase: Phase::Waiting { whole: true },
            progress: None,
            streaming,
            backoff: Backoff { rng, attempt: 0, last: None },
            regressions: 0,
            last_expired: None,
            internal_since: None,
        }
    }

    /// One transition. `now` only measures how long things lasted.
    pub(crate) fn step(&mut self, input: Input<T>, now: Instant) -> Step<T> {
        match input {
            Input::Begin => Step::next(self.whole()),
            Input::Waited => match self.phase {
                Phase::Waiting { whole: false } => Step::next(self.resume()),
                _ => Step::next(self.whole()),
            },
            Input::Listed(Ok(listing)) => self.accept(listing, now),
            Input::Opened(Ok(())) => self.opened(now),
            Input::Frames(Ok(frames)) => self.frames(frames, now),
            Input::Ended => self.ended(now),
            Input::Silent => self.failed(SourceError::Unreachable("the stream is silent".into()), now),
            Input::Listed(Err(e)) | Input::Opened(Err(e)) | Input::Frames(Err(e)) => self.failed(e, now),
        }
    }

    fn whole(&mut self) -> Next {
        match self.streaming {
            true => {
                self.phase = Phase::Opening(Start::Initial);
                Next::Watch(Start::Initial)
            }
            false => {
                self.phase = Phase::Listing;
                Next::List(self.progress.unwrap_or_default())
            }
        }
    }

    fn resume(&mut self) -> Next {
        match self.progress {
            Some(revision) => {
                self.phase = Phase::Opening(Start::After(revision));
                Next::Watch(Start::After(revision))
            }
            None => self.whole(),
        }
    }

    fn opened(&mut self, now: Instant) -> Step<T> {
        self.phase = match self.phase {
            Phase::Opening(Start::Initial) => Phase::Collecting(Collected {
                opened: now,
                items: BTreeMap::new(),
                undecodable: BTreeMap::new(),
            }),
            _ => Phase::Watching { opened: now, from: self.progress.unwrap_or_default() },
        };
        Step::next(Next::Read)
    }

    fn frames(&mut self, mut frames: Vec<Frame<T>>, now: Instant) -> Step<T> {
        let Phase::Collecting(collected) = &mut self.phase else {
            return self.watched(frames, now);
        };
        let end = frames.iter().position(|f| matches!(f, Frame::Progress { initial_done: true, .. }));
        let Some(end) = end else {
            frames.into_iter().for_each(|frame| collected.take(frame));
            return Step::next(Next::Read);
        };
        let later = frames.split_off(end + 1);
        let revision = frames[end].revision();
        frames.into_iter().for_each(|frame| collected.take(frame));
        let listing = Listing {
            items: std::mem::take(&mut collected.items).into_values().collect(),
            undecodable: std::mem::take(&mut collected.undecodable).into_values().collect(),
            revision,
        };
        let mut step = self.accept(listing, now);
        if !later.is_empty() && step.next == Next::Read {
            step.apply.extend(self.watched(later, now).apply);
        }
        step
    }

    fn watched(&mut self, frames: Vec<Frame<T>>, now: Instant) -> Step<T> {
        let newest = frames.iter().map(Frame::revision).max();
        let at_end = matches!(frames.last(), Some(Frame::Progress { .. }));
        if matches!(self.phase, Phase::Watching { from, .. } if at_end && newest < Some(from)) {
            // It waits for a future that we already know, and what it tells us now may be another history.
            return self.failed(SourceError::Ahead { retry_after: None }, now);
        }
        self.progress = self.progress.max(newest);
        self.internal_since = None;
        Step { apply: vec![Apply::Frames(frames)], next: Next::Read, trouble: None }
    }

    /// Takes a complete state, unless it is older than the cache: time never runs backwards, except when a source
    /// insists, which means that its history is another one now.
    fn accept(&mut self, listing: Listing<T>, now: Instant) -> Step<T> {
        let older = self.progress.is_some_and(|progress| listing.revision < progress);
        if older && self.regressions < REGRESSIONS_BEFORE_RESET {
            self.regressions += 1;
            return self.failed(SourceError::Ahead { retry_after: None }, now);
        }
        self.regressions = 0;
        self.progress = Some(listing.revision);
        let next = match &self.phase {
            Phase::Collecting(collected) => {
                self.phase = Phase::Watching { opened: collected.opened, from: listing.revision };
                Next::Read
            }
            _ => self.resume(),
        };
        Step { apply: vec![Apply::Replace(listing)], next, trouble: None }
    }

    fn ended(&mut self, now: Instant) -> Step<T> {
        match self.phase {
            Phase::Watching { opened, .. } if now - opened >= SHORT_STREAM => Step::next(self.resume()),
            _ => self.failed(SourceError::Unreachable("the stream ended early".into()), now),
        }
    }

    fn failed(&mut self, error: SourceError, now: Instant) -> Step<T> {
        let initial =
            matches!(self.phase, Phase::Listing | Phase::Collecting(_) | Phase::Opening(Start::Initial));
        let next = match &error {
            SourceError::Expired => {
                let again = self.last_expired.is_some_and(|at| now - at < SHORT_STREAM);
                self.last_expired = Some(now);
                match initial || again {
                    true => self.wait(None, true, now),
                    false => self.whole(),
                }
            }
            SourceError::Ahead { retry_after } => self.wait(*retry_after, true, now),
            SourceError::Throttled { retry_after } => self.wait(*retry_after, initial, now),
            SourceError::Unreachable(_) => self.wait(None, initial, now),
            SourceError::Internal(_) => {
                let since = *self.internal_since.get_or_insert(now);
                self.wait(None, initial || now - since > INTERNAL_ERRORS_BEFORE_RELIST, now)
            }
            SourceError::Unsupported if self.streaming => {
                self.streaming = false;
                self.whole()
            }
            SourceError::Unsupported | SourceError::Fatal(_) => self.wait(None, true, now),
        };
        Step { apply: Vec::new(), next, trouble: Some(error) }
    }

    fn wait(&mut self, asked: Option<Duration>, whole: bool, now: Instant) -> Next {
        self.phase = Phase::Waiting { whole };
        let own = self.backoff.next(now);
        Next::Wait(asked.unwrap_or(own))
    }
}

impl<T> Step<T> {
    fn next(next: Next) -> Self {
        Self { apply: Vec::new(), next, trouble: None }
    }
}

impl<T: Object> Collected<T> {
    fn take(&mut self, frame: Frame<T>) {
        match frame {
            Frame::Put(object) => {
                let key = object.key();
                self.undecodable.remove(&key);
                self.items.insert(key, object);
            }
            Frame::Gone { key, .. } => {
                self.items.remove(&key);
                self.undecodable.remove(&key);
            }
            Frame::Undecodable(what) => {
                self.items.remove(&what.key);
                self.undecodable.insert(what.key.clone(), what);
            }
            Frame::Progress { .. } => {}
        }
    }
}

/// Doubling waits with full jitter above: a wait is between `d` and `2·d`, so that clients who lost one server together do
/// not come back together.
struct Backoff {
    rng: Rng,
    attempt: u32,
    last: Option<Instant>,
}

impl Backoff {
    fn next(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now - last > SOURCE_BACKOFF_RESET) {
            self.attempt = 0;
        }
        self.last = Some(now);
        let wait = SOURCE_BACKOFF_BASE.saturating_mul(1 << self.attempt.min(16)).min(SOURCE_BACKOFF_CAP);
        self.attempt = self.attempt.saturating_add(1);
        wait.mul_f64(1.0 + self.rng.unit())
    }
}
