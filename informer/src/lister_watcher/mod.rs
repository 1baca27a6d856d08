//! [`ListerWatcher`]: the source of an informer's objects, and its contract. A source does not recover from
//! failures: it reports them, and the reflector decides. `testing::source_contract` checks a source against
//! this contract. [`DynListerWatcher`] is a type-erased source.

pub(crate) mod erased;
#[cfg(test)]
mod tests;

use crate::{Key, Object, Revision, SharedObject};
use erased::Erase;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::fmt;
use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// A source that can list objects and watch their changes.
///
/// The methods neither retry nor cache. A call may be dropped at any await.
pub trait ListerWatcher: Send + Sync + 'static {
    /// The object type of the source.
    type Obj: Object;

    /// The capabilities of this source, queried once.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Lists all objects at one revision, or one page of them. All pages of one list show the same revision.
    ///
    /// # Errors
    /// [`SourceError::Expired`] when that revision, or the rest of a paged list, is no longer available.
    /// [`SourceError::Ahead`] when the source has not reached the revision that [`ReadAt`] demands. A source
    /// that cannot know returns what it has: the reflector also checks the page's revision.
    fn list(&self, request: ListRequest)
    -> impl Future<Output = Result<Page<Self::Obj>, SourceError>> + Send;

    /// Opens a stream of changes. The caller drops the stream to end it.
    ///
    /// Each item holds frames in revision order, except that the initial state is unordered. A revision is
    /// never split over two items, unless the source declares it ([`Capabilities::splits_revisions`]). Once
    /// an item is applied, everything up to its highest revision has been delivered. A key changes once in a
    /// revision. Frames may be delivered again.
    fn watch(&self, start: Start) -> impl Future<Output = Result<Frames<Self::Obj>, SourceError>> + Send;

    /// Tells the source that a reader of the informer waits for `revision`.
    ///
    /// Without a demand, a source may hold back [`Frame::Progress`] that accompanies no change, for at most
    /// [`Capabilities::progress_every`]. From a demand until its open stream has delivered `revision`, the
    /// source delivers all progress that it has or receives without delay. A demand also holds for later
    /// streams.
    ///
    /// Called from any task, also without an open stream and repeatedly for one revision. Must be quick and
    /// must not block. The default does nothing, which is right for sources that hold nothing back.
    fn demand(&self, revision: Revision) {
        let _ = revision;
    }

    /// The source without the type of its objects, as an informer reads it. The default fits every source. A source that serves
    /// many types can override it with one that never knew the type, so that its code exists once instead of once for each type.
    /// The objects must be those of [`ListerWatcher::Obj`].
    fn erased(self) -> DynListerWatcher<SharedObject>
    where
        Self: Sized,
    {
        DynListerWatcher::new(Erase(self))
    }
}

/// Stream of frame batches, usually one batch per network message.
pub type Frames<T> = BoxStream<'static, Result<Vec<Frame<T>>, SourceError>>;

/// Required freshness of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// Any state, the cheapest for the source. Kubernetes' `resourceVersion=0`.
    Any,
    /// Not older than the time of the call, the most expensive. Kubernetes' unset `resourceVersion`.
    Latest,
    /// At this revision or a later one.
    NotOlderThan(Revision),
    /// At exactly this revision; for sources with [`Capabilities::exact_list`].
    Exact(Revision),
}

/// Parameters of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// Required freshness. Ignored for continued pages, which are at the first page's revision.
    pub at: ReadAt,
    /// Largest number of objects in the response; a source may return more or fewer. `None` for all.
    pub limit: Option<NonZeroU32>,
    /// The `next` token of the previous page; `None` for the first page.
    pub next: Option<Continue>,
}

impl ListRequest {
    /// A request for all objects in one response.
    pub fn all(at: ReadAt) -> Self {
        Self { at, limit: None, next: None }
    }
}

/// Continue token of a paged list, opaque to all but its source.
#[derive(Clone, PartialEq, Eq)]
pub struct Continue(Arc<str>);

impl Continue {
    /// A token with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text of the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Continue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continue(..)")
    }
}

/// All objects at one revision, or one page of them.
#[derive(Debug)]
pub struct Page<T> {
    /// The objects, in any order.
    pub items: Vec<T>,
    /// Objects that exist but cannot be decoded.
    pub undecodable: Vec<Undecodable>,
    /// The revision of the list, the same in all pages; a watch from it misses nothing.
    pub revision: Revision,
    /// Token of the next page; `None` on the last page.
    pub next: Option<Continue>,
}

/// Start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Starts with all objects as [`Frame::Put`] and a [`Frame::Progress`] with `initial_done`; the changes
    /// follow. Only for sources with [`Capabilities::streaming_list`].
    Initial(ReadAt),
    /// Starts with the first change after this revision.
    After(Revision),
}

/// Optional capabilities of a source.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// Whether the source supports [`Start::Initial`]. Then `list` is used only after
    /// [`SourceError::Unsupported`].
    pub streaming_list: bool,
    /// Whether the source respects [`ListRequest::limit`].
    pub paging: bool,
    /// Whether the source supports [`ReadAt::Exact`].
    pub exact_list: bool,
    /// Longest interval between two messages of an idle stream, which then sends [`Frame::Progress`]. A
    /// connection that is silent for longer counts as broken. The cache of a kind without changes may be this
    /// much behind, unless a reader waits for a revision: see [`ListerWatcher::demand`].
    pub progress_every: Option<Duration>,
    /// Whether a revision that several objects share may be split over stream items. The revision is then
    /// known to be complete when a frame with a higher revision or a [`Frame::Progress`] arrives. Frames are
    /// applied on arrival all the same. Only a broken stream resumes after the newest complete revision, so
    /// that the rest of the next revision is delivered again as a whole.
    pub splits_revisions: bool,
    /// How the revisions of this source compare with those of others.
    pub revisions: Revisions,
}

/// How the revisions of a source compare with those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Revisions {
    /// Comparable with every source of the same domain: all share one history.
    Shared(Domain),
    /// Comparable only within the source.
    #[default]
    Own,
    /// Comparable only within the source, and assigned by the adapter. No server knows them, so a caller
    /// cannot wait for a revision.
    Opaque,
}

/// Name of a history that several sources share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The domain of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name of the domain.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An optional capability of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// [`Capabilities::streaming_list`].
    StreamingList,
    /// [`Capabilities::paging`].
    Paging,
    /// [`Capabilities::exact_list`].
    ExactList,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StreamingList => "streaming lists",
            Self::Paging => "paged lists",
            Self::ExactList => "lists at an exact revision",
        })
    }
}

/// An object that its source could not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Namespace and name of the object.
    pub key: Key,
    /// The revision of the undecodable state.
    pub revision: Revision,
    /// The decode error.
    pub error: String,
}

/// One message of a watch.
#[derive(Debug)]
pub enum Frame<T> {
    /// The object was created or changed, or now matches the source's selectors.
    Put(T),
    /// The object was deleted or stopped matching.
    Gone {
        /// Namespace and name of the object.
        key: Key,
        /// The revision of the change.
        revision: Revision,
        /// The last state, at the revision of the change, if the source has it.
        last: Option<T>,
    },
    /// The object changed to a state that cannot be decoded. The cache keeps the previous state.
    Undecodable(Undecodable),
    /// Everything up to `revision` has been delivered (a bookmark).
    Progress {
        /// The revision that the stream has reached.
        revision: Revision,
        /// Whether this ends the initial state of a [`Start::Initial`] stream. True once per stream.
        initial_done: bool,
    },
}

impl<T: Object> Frame<T> {
    /// The revision of the frame.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(object) => object.revision(),
            Self::Gone { revision, .. } | Self::Progress { revision, .. } => *revision,
            Self::Undecodable(what) => what.revision,
        }
    }
}

/// Failure of a source. The reflector has one reaction to each kind. Every wait is at least the source's
/// `retry_after`, if set, and otherwise doubles with jitter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The requested revision is no longer available. Reaction: wait, then request the complete state, not
    /// older than the cache. If that is refused too, request the latest state at once.
    #[error("the resource version is too old")]
    Expired,
    /// The source has not reached the requested revision. Reaction: wait, then request the complete state.
    #[error("too large resource version: the source is behind")]
    Ahead {
        /// Wait that the source requested.
        retry_after: Option<Duration>,
    },
    /// The source is overloaded. Reaction: wait, then resume.
    #[error("too many requests")]
    Throttled {
        /// Wait that the source requested.
        retry_after: Option<Duration>,
    },
    /// No connection, or it broke. Reaction: wait, then resume.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// Internal error of the source. Reaction: wait and resume; if the error persists, request the complete
    /// state.
    #[error("internal error: {0}")]
    Internal(String),
    /// The source lacks the capability. Reaction: continue at once without it.
    #[error("the source does not support {0}")]
    Unsupported(Capability),
    /// A permanent failure, for example forbidden or an unknown kind. Reaction: wait, then request the
    /// complete state.
    #[error("refused: {0}")]
    Fatal(String),
}

/// Any source of objects of type `T` behind one pointer: for kinds and transports that are chosen at run
/// time, and for shorter types. A call costs one more allocation. Clones are the same source.
pub struct DynListerWatcher<T>(Arc<dyn Erased<T>>);

impl<T> Clone for DynListerWatcher<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Object> DynListerWatcher<T> {
    /// Erases the type of a source.
    pub fn new(source: impl ListerWatcher<Obj = T>) -> Self {
        Self(Arc::new(source))
    }

    /// Passes a demanded revision to the source if that still exists.
    pub(crate) fn demand_if_alive(&self) -> Box<dyn Fn(Revision) + Send + Sync> {
        let source = Arc::downgrade(&self.0);
        Box::new(move |revision| {
            if let Some(source) = source.upgrade() {
                source.demand(revision);
            }
        })
    }
}

impl<T: Object> ListerWatcher for DynListerWatcher<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.0.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        self.0.watch(start).await
    }

    fn demand(&self, revision: Revision) {
        self.0.demand(revision);
    }
}

/// Object-safe form of [`ListerWatcher`].
trait Erased<T>: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page<T>, SourceError>>;
    fn watch(&self, start: Start) -> BoxFuture<'_, Result<Frames<T>, SourceError>>;
    fn demand(&self, revision: Revision);
}

impl<S: ListerWatcher> Erased<S::Obj> for S {
    fn capabilities(&self) -> Capabilities {
        ListerWatcher::capabilities(self)
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page<S::Obj>, SourceError>> {
        Box::pin(ListerWatcher::list(self, request))
    }

    fn watch(&self, start: Start) -> BoxFuture<'_, Result<Frames<S::Obj>, SourceError>> {
        Box::pin(ListerWatcher::watch(self, start))
    }

    fn demand(&self, revision: Revision) {
        ListerWatcher::demand(self, revision);
    }
}
