//! [`FakeSource`]: a [`ListerWatcher`] over a fake store with configurable capabilities and scripted faults.

use super::feed::Feed;
use super::{Chaos, FakeKind, Fault, FaultScript, Stored};
use crate::{
    Capabilities, Capability, Continue, Frames, Key, ListRequest, ListerWatcher, Object, Page, ReadAt,
    Revision, SourceError, Start, Undecodable,
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

type IsUndecodable<T> = Arc<dyn Fn(&T) -> bool + Send + Sync>;

/// A source of one kind's objects for an informer. By default it streams initial states and has no faults.
/// Clones share the script and the recorded calls.
pub struct FakeSource<T> {
    pub(super) kind: FakeKind<T>,
    can: Capabilities,
    unreadable: Option<IsUndecodable<T>>,
    script: FaultScript,
    calls: Arc<Mutex<Vec<Call>>>,
    breaks: Arc<AtomicU64>,
    /// Number of open streams.
    open: Arc<AtomicUsize>,
}

/// A recorded call of a source.
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
            can: self.can.clone(),
            unreadable: self.unreadable.clone(),
            script: self.script.clone(),
            calls: self.calls.clone(),
            breaks: self.breaks.clone(),
            open: self.open.clone(),
        }
    }
}

impl<T: Stored> FakeSource<T> {
    pub(super) fn new(kind: FakeKind<T>) -> Self {
        let can =
            Capabilities { streaming_list: true, revisions: kind.store.domain(), ..Capabilities::default() };
        Self {
            kind,
            can,
            unreadable: None,
            script: FaultScript::default(),
            calls: Arc::default(),
            breaks: Arc::default(),
            open: Arc::default(),
        }
    }

    /// Disables streaming lists, as in older servers.
    #[must_use]
    pub fn without_streaming(mut self) -> Self {
        self.can.streaming_list = false;
        self
    }

    /// Enables paging.
    #[must_use]
    pub fn with_paging(mut self) -> Self {
        self.can.paging = true;
        self
    }

    /// Enables lists at exact revisions.
    #[must_use]
    pub fn with_exact_lists(mut self) -> Self {
        self.can.exact_list = true;
        self
    }

    /// Makes idle streams deliver their progress this often.
    #[must_use]
    pub fn with_progress(mut self, every: Duration) -> Self {
        self.can.progress_every = Some(every);
        self
    }

    /// Makes objects undecodable for which `is` holds.
    #[must_use]
    pub fn unreadable(mut self, is: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        self.unreadable = Some(Arc::new(is));
        self
    }

    /// Sets the faults.
    #[must_use]
    pub fn faults(mut self, script: &FaultScript) -> Self {
        self.kind.store.note_seed(script.seed());
        self.script = script.clone();
        self
    }

    /// Adds random faults.
    #[must_use]
    pub fn chaos(self, chaos: Chaos) -> Self {
        self.faults(&FaultScript::chance(chaos))
    }

    /// Makes the next call fail; several calls queue up.
    pub fn fail_next(&self, error: SourceError) {
        self.script.push(Fault::refuse(error));
    }

    /// Breaks every open stream, as a lost connection does.
    pub fn disconnect(&self) {
        self.breaks.fetch_add(1, Ordering::Relaxed);
        self.kind.store.ring();
    }

    /// Number of open streams, not yet dropped by their readers.
    pub fn streams(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The recorded calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    pub(super) fn open(&self) -> OpenStream {
        self.open.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.open.clone())
    }

    pub(super) fn script(&self) -> &FaultScript {
        &self.script
    }

    /// Number of lost connections so far.
    pub(super) fn lost(&self) -> u64 {
        self.breaks.load(Ordering::Relaxed)
    }

    pub(super) fn progress_every(&self) -> Option<Duration> {
        self.can.progress_every
    }

    /// The decode error of `object`, if it is undecodable.
    pub(super) fn garbled(&self, object: &T, fault: &Fault) -> Option<Undecodable> {
        let of_itself = self.unreadable.as_ref().is_some_and(|is| is(object));
        let key = object.key();
        (of_itself || fault.undecodable.contains(&key)).then(|| Undecodable {
            key,
            revision: object.revision(),
            error: "unreadable".into(),
        })
    }

    async fn record_call(&self, call: Call) -> Result<Fault, SourceError> {
        let whole =
            !matches!(call, Call::Watch(Start::After(_)) | Call::List(ListRequest { next: Some(_), .. }));
        self.calls.lock().push(call);
        let fault = self.script.draw(whole);
        if fault.delay > Duration::ZERO {
            tokio::time::sleep(fault.delay).await;
        }
        match &fault.refuse {
            Some(error) => Err(error.clone()),
            None => Ok(fault),
        }
    }

    /// The revision of a complete state.
    fn at(&self, at: ReadAt, fault: &Fault) -> Result<Revision, SourceError> {
        let newest = self.kind.store.revision();
        match at {
            ReadAt::Exact(_) if !self.can.exact_list => Err(SourceError::Unsupported(Capability::ExactList)),
            ReadAt::Exact(revision) | ReadAt::NotOlderThan(revision) if revision > newest => {
                Err(SourceError::Ahead { retry_after: None })
            }
            ReadAt::Exact(revision) => self.kept(revision),
            ReadAt::Any | ReadAt::Latest | ReadAt::NotOlderThan(_) => {
                Ok(Revision(newest.0.saturating_sub(fault.lag)))
            }
        }
    }

    fn kept(&self, revision: Revision) -> Result<Revision, SourceError> {
        match self.kind.store.keeps(revision) {
            true => Ok(revision),
            false => Err(SourceError::Expired),
        }
    }
}

/// Counts one open stream.
pub(super) struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Continue token of a paged list: `revision key`.
fn token(revision: Revision, last: &Key) -> Continue {
    Continue::new(format!("{revision} {last}"))
}

fn read_token(next: &Continue) -> Result<(Revision, String), SourceError> {
    let parts = next.as_str().split_once(' ');
    let parts = parts.and_then(|(revision, last)| Some((Revision(revision.parse().ok()?), last.to_owned())));
    parts.ok_or_else(|| SourceError::Fatal("the token is of another source".into()))
}

impl<T: Stored> ListerWatcher for FakeSource<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.can.clone()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        let fault = self.record_call(Call::List(request.clone())).await?;
        let (revision, last) = match &request.next {
            Some(next) => read_token(next).and_then(|(at, last)| Ok((self.kept(at)?, last)))?,
            None => (self.at(request.at, &fault)?, String::new()),
        };
        let mut objects = self.kind.list_past(revision);
        objects.retain(|object| object.key().as_str() > last.as_str());
        let limit =
            request.limit.filter(|_| self.can.paging).map_or(usize::MAX, |limit| limit.get() as usize);
        let rest = objects.len() > limit;
        objects.truncate(limit);
        let next = objects.last().filter(|_| rest).map(|last| token(revision, &last.key()));
        let mut page = Page { items: Vec::new(), undecodable: Vec::new(), revision, next };
        for object in objects {
            match self.garbled(&object, &fault) {
                Some(what) => page.undecodable.push(what),
                None => page.items.push((*object).clone()),
            }
        }
        if page.next.is_none() {
            self.script.given(&fault);
        }
        Ok(page)
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        let fault = self.record_call(Call::Watch(start)).await?;
        let feed = match start {
            Start::After(revision) if revision > self.kind.store.revision() => {
                return Err(SourceError::Ahead { retry_after: None });
            }
            Start::After(revision) => Feed::after(self.clone(), fault, self.kept(revision)?),
            Start::Initial(_) if !self.can.streaming_list => {
                return Err(SourceError::Unsupported(Capability::StreamingList));
            }
            Start::Initial(at) => {
                let revision = self.at(at, &fault)?;
                Feed::initial(self.clone(), fault, self.kind.list_past(revision), revision)
            }
        };
        Ok(stream::unfold(feed, Feed::next).boxed())
    }
}
