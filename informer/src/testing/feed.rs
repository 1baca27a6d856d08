//! [`Feed`]: one open stream of a fake source.

use super::fault::Cut;
use super::source::OpenStream;
use super::{FakeSource, Fault, StoreHistory, Stored};
use crate::{Frame, Key, Object, Revision, SourceError};
use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Instant, sleep, timeout_at};

/// State of one open stream.
pub(super) struct Feed<T> {
    source: FakeSource<T>,
    fault: Fault,
    ready: VecDeque<Item>,
    /// Everything up to here is in `ready` or delivered.
    position: Revision,
    delivered: usize,
    over: bool,
    /// Number of lost connections when this stream was opened.
    lost: u64,
    _open: OpenStream,
}

/// Untyped frames of an item: an item may be delivered twice.
#[derive(Clone)]
struct Item {
    past: Vec<StoreHistory>,
    progress: Option<(Revision, bool)>,
}

type Delivery<T> = Result<Vec<Frame<T>>, SourceError>;

impl<T: Stored> Feed<T> {
    /// A stream of the changes after a revision.
    pub(super) fn after(source: FakeSource<T>, fault: Fault, position: Revision) -> Self {
        let (lost, open) = (source.lost(), source.open());
        Self { source, fault, ready: VecDeque::new(), position, delivered: 0, over: false, lost, _open: open }
    }

    /// A stream of these objects and the changes after them.
    pub(super) fn initial(
        source: FakeSource<T>,
        fault: Fault,
        objects: Vec<Arc<T>>,
        revision: Revision,
    ) -> Self {
        let mut feed = Self::after(source, fault, revision);
        let past = objects.into_iter().map(|object| StoreHistory {
            revision: object.revision(),
            kind: String::new(),
            key: object.key(),
            state: object,
            gone: false,
        });
        let past: Vec<StoreHistory> = past.collect();
        feed.ready.extend(past.chunks(3).map(|chunk| Item { past: chunk.to_vec(), progress: None }));
        feed.ready.push_back(Item { past: Vec::new(), progress: Some((revision, true)) });
        feed
    }

    /// The next item of the stream.
    pub(super) async fn next(mut self) -> Option<(Delivery<T>, Self)> {
        if self.over {
            return None;
        }
        if let Some(cut) = self.cut().await {
            self.over = true;
            return match cut {
                Cut::End => None,
                Cut::Fail(error) => Some((Err(error), self)),
                Cut::Silence => pending().await,
            };
        }
        self.delivered += 1;
        let item = match self.item().await? {
            Ok(item) => item,
            Err(error) => {
                self.over = true;
                return Some((Err(error), self));
            }
        };
        Some((Ok(self.frames(item)), self))
    }

    /// Applies the delay and the break of the faults.
    async fn cut(&self) -> Option<Cut> {
        let scripted = self.fault.cut.as_ref().filter(|(after, _)| self.delivered >= *after);
        if let Some((_, cut)) = scripted {
            return Some(cut.clone());
        }
        let (late, cut) = self.fault.chaos.as_ref()?.item();
        if late > Duration::ZERO {
            sleep(late).await;
        }
        cut
    }

    /// The next item, `None` if the stream ends.
    async fn item(&mut self) -> Option<Result<Item, SourceError>> {
        let quiet = self.source.progress_every().map(|every| Instant::now() + every);
        loop {
            let store = self.source.kind.store.clone();
            let changed: OwnedNotified = store.changed().notified_owned();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.source.lost() != self.lost {
                return Some(Err(SourceError::Unreachable("the connection is lost".into())));
            }
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            match store.after(self.position, &self.source.kind.name) {
                // A wiped store ends every stream.
                Some((_, newest)) if newest < self.position => return None,
                Some((_, newest)) if newest == self.position => {
                    let wake = [quiet, store.next_expiry()].into_iter().flatten().min();
                    match wake {
                        Some(wake) => drop(timeout_at(wake, changed).await),
                        None => changed.await,
                    }
                    if quiet.is_some_and(|quiet| Instant::now() >= quiet) {
                        return Some(Ok(Item { past: Vec::new(), progress: Some((self.position, false)) }));
                    }
                }
                Some((past, newest)) => self.cut_up(past, newest),
                None => return Some(Err(SourceError::Expired)),
            }
        }
    }

    /// Splits changes into items and repeats some of them.
    fn cut_up(&mut self, past: Vec<StoreHistory>, newest: Revision) {
        self.position = newest;
        let end = Item { past: Vec::new(), progress: Some((newest, false)) };
        let Some(chaos) = &self.fault.chaos else {
            let item = Item { past, ..end };
            self.ready.extend(std::iter::repeat_n(item, 1 + usize::from(self.fault.repeat)));
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
        self.ready.push_back(end);
    }

    fn frames(&self, item: Item) -> Vec<Frame<T>> {
        if matches!(item.progress, Some((_, true))) {
            self.source.script().given(&self.fault);
        }
        let past = item.past.into_iter();
        let frames =
            past.filter_map(|past| Some(self.frame(past.state.downcast().ok()?, past.key, past.gone)));
        let progress =
            item.progress.map(|(revision, initial_done)| Frame::Progress { revision, initial_done });
        frames.chain(progress).collect()
    }

    fn frame(&self, object: Arc<T>, key: Key, gone: bool) -> Frame<T> {
        let garbled = self.source.garbled(&object, &self.fault);
        match (gone, garbled) {
            (false, None) => Frame::Put((*object).clone()),
            (false, Some(what)) => Frame::Undecodable(what),
            (true, garbled) => {
                let last = garbled.is_none().then(|| (*object).clone());
                Frame::Gone { key, revision: object.revision(), last }
            }
        }
    }
}
