//! [`Reflector`]: decides the next request to a source, and the effect of its responses on the cache. A state
//! machine without I/O: [`Reflector::step`] maps an input to the next request and the changes of the cache.
//! `driver` executes them.
//!
//! | situation | list | streaming list |
//! |---|---|---|
//! | first list | `Any`, in pages | `Latest` |
//! | relist | `NotOlderThan` the cache, in one response | the same |
//! | after a refused relist | `Latest`, in pages | `Latest` |
//! | a stream ended | – | resumed after the newest completely delivered revision |
//! | the cache started with an image's state | – | resumed after its revision; a relist if that has expired |

#[cfg(test)]
mod tests;
pub(crate) mod whole;

use crate::any_object::SharedObject;
use crate::limits::{
    INTERNAL_ERRORS_BEFORE_RELIST, LIST_PAGE, LONGEST_RETRY_AFTER, REGRESSION_PATIENCE,
    REGRESSIONS_BEFORE_RESET, SHORT_STREAM, SOURCE_BACKOFF_BASE, SOURCE_BACKOFF_CAP, SOURCE_BACKOFF_RESET,
};
use crate::reflector::whole::{Cached, CompleteState, StateCollector};
use crate::status::ReflectorActivity;
use crate::{Capabilities, Capability, Frame, ListRequest, Page, ReadAt, Revision, SourceError, Start};
use kstore_nondet::{Backoff, Rng, Waits};
use std::time::Duration;
use tokio::time::Instant;

/// Event for the state machine.
pub(crate) enum Input {
    /// The driver has started.
    Begin,
    /// Response to a list.
    Listed(Result<Page<SharedObject>, SourceError>),
    /// Response to a watch: its stream is open.
    Opened(Result<(), SourceError>),
    /// An item of the stream.
    Frames(Result<Vec<Frame<SharedObject>>, SourceError>),
    /// The stream ended without an error.
    Ended,
    /// The stream was silent for too long.
    Silent,
    /// The wait is over.
    Waited,
}

/// Change of the cache.
pub(crate) enum CacheUpdate {
    /// Replaces the cache with this state.
    Replace(CompleteState),
    /// Applies these frames in order.
    Frames(Vec<Frame<SharedObject>>),
}

/// The next request to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextRequest {
    /// A list, or its next page.
    List(ListRequest),
    /// Opens a new stream and drops the old one.
    Watch(Start),
    /// Reads the next item of the open stream.
    Read,
    /// Waits for this long. The stream is dropped.
    Wait(Duration),
}

/// Output of one step of the state machine.
pub(crate) struct ReflectorStep {
    pub apply: Vec<CacheUpdate>,
    pub next: NextRequest,
    /// The failure that caused this step, if any.
    pub failure: Option<SourceError>,
}

/// Phase of the state machine.
enum Phase {
    /// A list is in progress. `request` is the newest request, `shown` the revision of the pages so far. A
    /// watch follows.
    Listing { request: ListRequest, shown: Option<Revision>, collected: StateCollector },
    /// A stream is being opened.
    Opening(Start),
    /// An initial state is arriving. It reaches the cache only when complete.
    Collecting { opened: Instant, at: ReadAt, collected: StateCollector },
    /// Changes after `from` are arriving on a stream.
    Watching { opened: Instant, from: Revision },
    /// Waiting after a failure, then requests the complete state (`whole`) or resumes.
    Waiting { whole: bool },
}

/// State machine that keeps a cache in sync with its source.
pub(crate) struct Reflector {
    phase: Phase,
    /// The revision of the cache.
    progress: Option<Revision>,
    /// Everything up to here has been delivered: streams resume from here. Behind `progress` while a source
    /// that splits revisions may have more frames of the newest one.
    complete: Option<Revision>,
    splits_revisions: bool,
    streaming: bool,
    paging: bool,
    /// Whether the first list was paged although it allowed any state: the source has no cache that could
    /// answer at once.
    always_pages: bool,
    /// Whether a relist not older than the cache was refused; the reflector then requests the latest state
    /// until one arrives.
    refused: bool,
    backoff: SourceBackoff,
    regressions: Regressions,
    internal_since: Option<Instant>,
    /// Whether the cache still has the state of an image.
    has_image: bool,
}

impl Reflector {
    /// `image` is the revision of the state that the cache starts with, if any: all of it was delivered.
    pub(crate) fn new(capabilities: &Capabilities, rng: Rng, image: Option<Revision>) -> Self {
        Self {
            phase: Phase::Waiting { whole: image.is_none() },
            progress: image,
            complete: image,
            splits_revisions: capabilities.splits_revisions,
            streaming: capabilities.streaming_list,
            paging: capabilities.paging,
            always_pages: false,
            refused: false,
            backoff: SourceBackoff::new(rng),
            regressions: Regressions::default(),
            internal_since: None,
            has_image: image.is_some(),
        }
    }

    /// Executes one step. `cached` looks up objects in the cache; `now` is used only to measure durations.
    pub(crate) fn step(&mut self, input: Input, cached: Cached<'_>, now: Instant) -> ReflectorStep {
        match input {
            Input::Begin | Input::Waited => match self.phase {
                Phase::Waiting { whole: false } => ReflectorStep::next(self.resume()),
                _ => ReflectorStep::next(self.whole()),
            },
            Input::Listed(Ok(page)) => self.page(page, cached, now),
            Input::Opened(Ok(())) => self.opened(now),
            Input::Frames(Ok(frames)) => self.frames(frames, cached, now),
            Input::Ended => self.ended(now),
            Input::Silent => self.failed(SourceError::Unreachable("the watch is silent".into()), now),
            Input::Listed(Err(e)) | Input::Opened(Err(e)) | Input::Frames(Err(e)) => self.failed(e, now),
        }
    }

    /// When the initial state began to arrive, if one is arriving.
    pub(crate) fn collecting_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::Collecting { opened, .. } => Some(opened),
            _ => None,
        }
    }

    /// Current activity after a step with this `failure`. A missing capability of the source is no failure.
    pub(crate) fn doing<'a>(&self, failure: Option<&'a SourceError>) -> ReflectorActivity<'a> {
        match (&self.phase, failure) {
            (Phase::Waiting { .. }, Some(error)) => ReflectorActivity::Failing(error),
            (Phase::Watching { .. }, _) => ReflectorActivity::Streaming,
            _ if self.requested().is_some() => ReflectorActivity::Listing,
            _ => ReflectorActivity::Resuming,
        }
    }

    /// Requests the complete state.
    fn whole(&mut self) -> NextRequest {
        let at = match self.progress {
            _ if self.refused => ReadAt::Latest,
            Some(progress) => ReadAt::NotOlderThan(progress),
            None if self.streaming => ReadAt::Latest,
            None => ReadAt::Any,
        };
        if self.streaming {
            let start = Start::Initial(at);
            self.phase = Phase::Opening(start);
            return NextRequest::Watch(start);
        }
        // A server answers an unpaged list from its cache; pages may come from its disk.
        let pages = self.paging && (self.always_pages || !matches!(at, ReadAt::NotOlderThan(_)));
        self.list(ListRequest { at, limit: pages.then_some(LIST_PAGE), next: None })
    }

    fn list(&mut self, request: ListRequest) -> NextRequest {
        self.phase = Phase::Listing { request: request.clone(), shown: None, collected: self.collected() };
        NextRequest::List(request)
    }

    fn collected(&self) -> StateCollector {
        StateCollector::new(self.regressions.insist())
    }

    fn resume(&mut self) -> NextRequest {
        match self.complete {
            Some(revision) => {
                self.phase = Phase::Opening(Start::After(revision));
                NextRequest::Watch(Start::After(revision))
            }
            None => self.whole(),
        }
    }

    fn page(&mut self, mut page: Page<SharedObject>, cached: Cached<'_>, now: Instant) -> ReflectorStep {
        let Phase::Listing { request, shown, collected } = &mut self.phase else {
            return ReflectorStep::next(self.whole());
        };
        let (revision, next) = (page.revision, page.next.take());
        if is_old(self.progress, revision) && !collected.other_history() {
            return self.refuse(now);
        }
        if shown.replace(revision).is_some_and(|shown| shown != revision) {
            // Pages of two revisions do not form a consistent state.
            return self.failed(SourceError::Expired, now);
        }
        if next.is_some() && next == request.next {
            return self.failed(
                SourceError::Internal("the server repeats the continue token of a list".into()),
                now,
            );
        }
        collected.page(page, cached);
        if next.is_none() {
            let collected = std::mem::replace(collected, StateCollector::new(false));
            let apply = self.accept(collected.whole(revision));
            return ReflectorStep { apply: vec![apply], next: self.resume(), failure: None };
        }
        self.always_pages |= request.at == ReadAt::Any;
        request.next = next;
        ReflectorStep::next(NextRequest::List(request.clone()))
    }

    fn opened(&mut self, now: Instant) -> ReflectorStep {
        self.phase = match self.phase {
            Phase::Opening(Start::Initial(at)) => {
                Phase::Collecting { opened: now, at, collected: self.collected() }
            }
            _ => Phase::Watching { opened: now, from: self.complete.unwrap_or_default() },
        };
        ReflectorStep::next(NextRequest::Read)
    }

    fn frames(
        &mut self,
        mut frames: Vec<Frame<SharedObject>>,
        cached: Cached<'_>,
        now: Instant,
    ) -> ReflectorStep {
        let Phase::Collecting { opened, collected, .. } = &mut self.phase else {
            return self.watched(frames, now);
        };
        let end = frames.iter().position(|f| matches!(f, Frame::Progress { initial_done: true, .. }));
        let Some(end) = end else {
            frames.into_iter().for_each(|frame| collected.frame(frame, cached));
            return ReflectorStep::next(NextRequest::Read);
        };
        let later = frames.split_off(end + 1);
        let revision = frames[end].revision();
        if is_old(self.progress, revision) && !collected.other_history() {
            return self.refuse(now);
        }
        frames.into_iter().for_each(|frame| collected.frame(frame, cached));
        let (opened, collected) = (*opened, std::mem::replace(collected, StateCollector::new(false)));
        let mut apply = vec![self.accept(collected.whole(revision))];
        self.phase = Phase::Watching { opened, from: revision };
        if later.is_empty() {
            return ReflectorStep { apply, next: NextRequest::Read, failure: None };
        }
        let rest = self.watched(later, now);
        apply.extend(rest.apply);
        ReflectorStep { apply, ..rest }
    }

    fn watched(&mut self, frames: Vec<Frame<SharedObject>>, now: Instant) -> ReflectorStep {
        let newest = frames.iter().map(Frame::revision).max();
        let at_end = matches!(frames.last(), Some(Frame::Progress { .. }));
        if matches!(self.phase, Phase::Watching { from, .. } if at_end && newest < Some(from)) {
            // The server is behind a revision that the cache has, and may have another history.
            return self.failed(SourceError::Ahead { retry_after: None }, now);
        }
        self.complete = self.complete.max(match self.splits_revisions {
            true => self.completed_by(&frames),
            false => newest,
        });
        self.progress = self.progress.max(newest);
        self.internal_since = None;
        self.has_image = false;
        ReflectorStep { apply: vec![CacheUpdate::Frames(frames)], next: NextRequest::Read, failure: None }
    }

    /// The newest revision that these frames complete, if any: that of a progress frame, or the one before a
    /// higher one.
    fn completed_by(&self, frames: &[Frame<SharedObject>]) -> Option<Revision> {
        let (mut complete, mut newest) = (None, self.progress);
        for frame in frames {
            let revision = Some(frame.revision());
            if matches!(frame, Frame::Progress { .. }) {
                complete = complete.max(revision);
            } else if revision > newest {
                complete = complete.max(newest);
            }
            newest = newest.max(revision);
        }
        complete
    }

    /// Refuses a state that is older than the cache. If the source repeats it for long enough, its history
    /// was replaced, and the next state is accepted with any revision.
    fn refuse(&mut self, now: Instant) -> ReflectorStep {
        self.regressions.one_more(now);
        self.failed(SourceError::Ahead { retry_after: None }, now)
    }

    fn accept(&mut self, whole: CompleteState) -> CacheUpdate {
        self.regressions = Regressions::default();
        (self.refused, self.has_image) = (false, false);
        self.progress = Some(whole.revision);
        self.complete = self.progress;
        CacheUpdate::Replace(whole)
    }

    fn ended(&mut self, now: Instant) -> ReflectorStep {
        match self.phase {
            Phase::Watching { opened, .. } if now - opened >= SHORT_STREAM => {
                ReflectorStep::next(self.resume())
            }
            _ => self.failed(SourceError::Unreachable("the watch ended early".into()), now),
        }
    }

    fn failed(&mut self, error: SourceError, now: Instant) -> ReflectorStep {
        let next = match &error {
            SourceError::Expired => self.expired(now),
            SourceError::Ahead { retry_after } => {
                self.refused |= matches!(self.requested(), Some(ReadAt::NotOlderThan(_)));
                self.wait(*retry_after, true, now)
            }
            SourceError::Throttled { retry_after } => {
                self.wait(*retry_after, self.requested().is_some(), now)
            }
            SourceError::Unreachable(_) => self.wait(None, self.requested().is_some(), now),
            SourceError::Internal(_) => {
                let since = *self.internal_since.get_or_insert(now);
                let lasts = now - since > INTERNAL_ERRORS_BEFORE_RELIST;
                self.wait(None, lasts || self.requested().is_some(), now)
            }
            SourceError::Unsupported(what) if self.give_up(*what) => self.whole(),
            SourceError::Unsupported(_) | SourceError::Fatal(_) => self.wait(None, true, now),
        };
        ReflectorStep { apply: Vec::new(), next, failure: Some(error) }
    }

    /// Reaction to an expired revision. An expired page restarts the list without paging. A refused relist
    /// requests the latest state. An image that is too old is followed by a relist. Each happens once and at once; everything else waits.
    fn expired(&mut self, now: Instant) -> NextRequest {
        if let Phase::Listing { request: ListRequest { at, next: Some(_), .. }, .. } = self.phase {
            return self.list(ListRequest::all(at));
        }
        if matches!(self.requested(), Some(ReadAt::NotOlderThan(_))) {
            self.refused = true;
            return self.whole();
        }
        if std::mem::take(&mut self.has_image) {
            return self.whole();
        }
        self.wait(None, true, now)
    }

    /// The required freshness, if a complete state is being requested.
    fn requested(&self) -> Option<ReadAt> {
        match &self.phase {
            Phase::Listing { request: ListRequest { at, .. }, .. }
            | Phase::Opening(Start::Initial(at))
            | Phase::Collecting { at, .. } => Some(*at),
            Phase::Opening(Start::After(_)) | Phase::Watching { .. } | Phase::Waiting { .. } => None,
        }
    }

    /// Disables a capability. Returns whether it was enabled.
    fn give_up(&mut self, what: Capability) -> bool {
        match what {
            Capability::StreamingList => std::mem::replace(&mut self.streaming, false),
            Capability::Paging => std::mem::replace(&mut self.paging, false),
            Capability::ExactList => false,
        }
    }

    fn wait(&mut self, requested: Option<Duration>, whole: bool, now: Instant) -> NextRequest {
        self.phase = Phase::Waiting { whole };
        NextRequest::Wait(self.backoff.next(requested, now))
    }
}

impl ReflectorStep {
    fn next(next: NextRequest) -> Self {
        Self { apply: Vec::new(), next, failure: None }
    }
}

/// Complete states older than the cache that arrived since one was accepted.
#[derive(Default)]
struct Regressions {
    count: u32,
    first: Option<Instant>,
    newest: Option<Instant>,
}

impl Regressions {
    fn one_more(&mut self, now: Instant) {
        self.count += 1;
        self.first.get_or_insert(now);
        self.newest = Some(now);
    }

    /// Whether enough of them arrived for long enough that the cache must follow the source.
    fn insist(&self) -> bool {
        let lasted = self.first.zip(self.newest).map_or(Duration::ZERO, |(first, newest)| newest - first);
        self.count >= REGRESSIONS_BEFORE_RESET && lasted >= REGRESSION_PATIENCE
    }
}

fn is_old(progress: Option<Revision>, revision: Revision) -> bool {
    progress.is_some_and(|progress| revision < progress)
}

/// Exponential back-off with jitter: a wait is between `d` and `2 d`, so that clients of one failed server do not
/// reconnect together. Starts again after [`SOURCE_BACKOFF_RESET`] without a failure.
struct SourceBackoff {
    rng: Rng,
    waits: Waits,
    /// End of the newest wait.
    until: Option<Instant>,
}

impl SourceBackoff {
    fn new(rng: Rng) -> Self {
        let waits = Backoff::doubling(SOURCE_BACKOFF_BASE, SOURCE_BACKOFF_CAP).waits();
        Self { rng, waits, until: None }
    }

    /// The next wait: at least `requested`, the `retry_after` of the source, plus jitter, so that clients with
    /// the same `retry_after` do not retry together.
    fn next(&mut self, requested: Option<Duration>, now: Instant) -> Duration {
        if self.until.is_some_and(|until| now > until + SOURCE_BACKOFF_RESET) {
            self.waits.reset();
        }
        let least = self.waits.advance();
        let wait = requested.unwrap_or(least).min(LONGEST_RETRY_AFTER) + self.rng.scaled(least, 0.0..1.0);
        self.until = Some(now + wait);
        wait
    }
}
