//! [`FakeSource`]: a [`ListerWatcher`] over a fake store, with the faults that real ones have.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use kstore_nondet::Rng;
use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;

use super::{FakeKind, Past, Stored};
use crate::{Capabilities, Frame, Frames, ListRequest, ListerWatcher, Page, Revision, SourceError, Start};

/// Random faults, each with a chance in percent for every item of a stream or call.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// Where the chances come from.
    pub rng: Rng,
    /// A call fails.
    pub refuse: u64,
    /// A stream ends or fails, at any point.
    pub cut: u64,
    /// An item is delivered again, at once or after the next ones.
    pub repeat: u64,
    /// A whole state is older than the newest; never many times in a row.
    pub lag: u64,
    /// An item comes late.
    pub delay: u64,
}

impl Chaos {
    /// Every fault about as often as the other.
    pub fn new(rng: Rng) -> Self {
        Self { rng, refuse: 20, cut: 15, repeat: 15, lag: 25, delay: 15 }
    }

    fn happens(&self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn error(&self) -> SourceError {
        match self.rng.below(6) {
            0 => SourceError::Expired,
            1 => SourceError::Ahead { retry_after: None },
            2 => SourceError::Throttled { retry_after: Some(Duration::from_millis(self.rng.below(500))) },
            3 => SourceError::Internal("chaos".into()),
            _ => SourceError::Unreachable("chaos".into()),
        }
    }
}

/// The objects of one kind for an informer.
pub struct FakeSource<T> {
    kind: FakeKind<T>,
    streaming: bool,
    chaos: Option<Chaos>,
    script: Arc<Mutex<VecDeque<SourceError>>>,
    lagged: Arc<Mutex<u32>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// A call that a source was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A list, or a page of one.
    List(ListRequest),
    /// A watch.
    Watch(Start),
}

impl<T> Clone for FakeSource<T> {
    fn clone(&self) -> Self {
        Self {
            kind: self.kind.clone(),
            streaming: self.streaming,
            chaos: self.chaos.clone(),
            script: self.script.clone(),
            lagged: self.lagged.clone(),
            calls: self.calls.clone(),
        }
    }
}

impl<T: Stored> FakeSource<T> {
    pub(super) fn new(kind: FakeKind<T>) -> Self {
        Self {
            kind,
            streaming: true,
            chaos: None,
            script: Arc::default(),
            lagged: Arc::default(),
            calls: Arc::default(),
        }
    }

    /// A source that lists first and watches then, as older servers do.
    #[must_use]
    pub fn without_streaming(mut self) -> Self {
        self.streaming = false;
        self
    }

    /// A source with random faults.
    #[must_use]
    pub fn chaos(mut self, chaos: Chaos) -> Self {
        self.chaos = Some(chaos);
        self
    }

    /// Lets the next call fail; several in order. Clones share the script.
    pub fn fail_next(&self, error: SourceError) {
        self.script.lock().push_back(error);
    }

    /// What was asked so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    /// The whole state, perhaps an old one.
    fn state(&self) -> (Vec<Arc<T>>, Revision) {
        let mut revision = self.kind.store.revision();
        let mut lagged = self.lagged.lock();
        match &self.chaos {
            Some(chaos) if *lagged < 3 && chaos.happens(chaos.lag) => {
                *lagged += 1;
                revision = Revision(revision.0.saturating_sub(chaos.rng.below(12)));
            }
            _ => *lagged = 0,
        }
        (self.kind.list_past(revision), revision)
    }

    fn asked(&self, call: Call) -> Result<(), SourceError> {
        self.calls.lock().push(call);
        if let Some(error) = self.script.lock().pop_front() {
            return Err(error);
        }
        match &self.chaos {
            Some(chaos) if chaos.happens(chaos.refuse) => Err(chaos.error()),
            _ => Ok(()),
        }
    }
}

impl<T: Stored> ListerWatcher for FakeSource<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        Capabilities { streaming_list: self.streaming, ..Capabilities::default() }
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.asked(Call::List(request))?;
        let (objects, revision) = self.state();
        let items = objects.iter().map(|object| (**object).clone()).collect();
        Ok(Page { items, undecodable: Vec::new(), revision, next: None })
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        self.asked(Call::Watch(start))?;
        let mut feed = Feed {
            kind: self.kind.clone(),
            chaos: self.chaos.clone(),
            ready: VecDeque::new(),
            position: Revision(0),
            over: false,
        };
        match start {
            Start::After(revision) => {
                let newest = self.kind.store.revision();
                if revision > newest {
                    return Err(SourceError::Ahead { retry_after: None });
                }
                feed.kind.store.after(revision, &self.kind.name).ok_or(SourceError::Expired)?;
                feed.position = revision;
            }
            Start::Initial(_) => {
                let (objects, revision) = self.state();
                feed.initial(objects, revision);
            }
        }
        Ok(stream::unfold(feed, Feed::next).boxed())
    }
}

/// One open stream.
struct Feed<T> {
    kind: FakeKind<T>,
    chaos: Option<Chaos>,
    ready: VecDeque<Item>,
    position: Revision,
    over: bool,
}

/// Frames before they get their type: a stream item may be delivered twice.
#[derive(Clone)]
struct Item {
    past: Vec<Past>,
    progress: Option<(Revision, bool)>,
}

impl<T: Stored> Feed<T> {
    fn initial(&mut self, objects: Vec<Arc<T>>, revision: Revision) {
        let past = objects.into_iter().map(|object| Past {
            revision: object.revision(),
            kind: String::new(),
            key: object.key(),
            state: object,
            gone: false,
        });
        let past: Vec<Past> = past.collect();
        self.ready.extend(past.chunks(3).map(|chunk| Item { past: chunk.to_vec(), progress: None }));
        self.ready.push_back(Item { past: Vec::new(), progress: Some((revision, true)) });
        self.position = revision;
    }

    async fn next(mut self) -> Option<(Result<Vec<Frame<T>>, SourceError>, Self)> {
        if self.over {
            return None;
        }
        if let Some(chaos) = self.chaos.clone() {
            if chaos.happens(chaos.delay) {
                tokio::time::sleep(Duration::from_millis(chaos.rng.below(2_000))).await;
            }
            if chaos.happens(chaos.cut) {
                self.over = true;
                return chaos.happens(50).then(|| (Err(chaos.error()), self));
            }
        }
        let item = loop {
            let bell: OwnedNotified = self.kind.store.0.bell.clone().notified_owned();
            tokio::pin!(bell);
            bell.as_mut().enable();
            if let Some(item) = self.ready.pop_front() {
                break item;
            }
            match self.kind.store.after(self.position, &self.kind.name) {
                // A store that lost its memory ends every stream.
                Some((_, newest)) if newest < self.position => return None,
                Some((_, newest)) if newest == self.position => bell.await,
                Some((past, newest)) => self.cut_up(past, newest),
                None => {
                    self.over = true;
                    return Some((Err(SourceError::Expired), self));
                }
            }
        };
        Some((Ok(item.frames()), self))
    }

    /// Puts changes into one item or several, some of them twice.
    fn cut_up(&mut self, past: Vec<Past>, newest: Revision) {
        self.position = newest;
        let Some(chaos) = &self.chaos else {
            self.ready.push_back(Item { past, progress: Some((newest, false)) });
            return;
        };
        let size = 1 + usize::try_from(chaos.rng.below(4)).unwrap_or_default();
        let mut again = VecDeque::new();
        for chunk in past.chunks(size) {
            let item = Item { past: chunk.to_vec(), progress: None };
            if chaos.happens(chaos.repeat) {
                again.push_back(item.clone());
            }
            self.ready.push_back(item);
            if chaos.happens(50) {
                self.ready.extend(again.pop_front());
            }
        }
        self.ready.extend(again);
        self.ready.push_back(Item { past: Vec::new(), progress: Some((newest, false)) });
    }
}

impl Item {
    fn frames<T: Stored>(self) -> Vec<Frame<T>> {
        let frames = self.past.into_iter().filter_map(|past| {
            let object: Arc<T> = past.state.downcast().ok()?;
            let object = (*object).clone();
            Some(match past.gone {
                true => Frame::Gone { key: past.key, revision: past.revision, last: Some(object) },
                false => Frame::Put(object),
            })
        });
        let progress =
            self.progress.map(|(revision, initial_done)| Frame::Progress { revision, initial_done });
        frames.chain(progress).collect()
    }
}
