//! [`ListerWatcher`]: where an informer gets its objects from, and the contract that sources keep. Recovery is not a source's
//! business: it reports, and the reflector decides. `testing::source_contract` holds a source to what is said here.

use std::{fmt, future::Future, num::NonZeroU32, sync::Arc, time::Duration};

use futures::stream::BoxStream;

use crate::{Key, Object, Revision};

/// A place that can list objects and report their changes.
///
/// The methods only say what was asked and what came; they neither retry nor cache. A call may be dropped at any await.
pub trait ListerWatcher: Send + Sync + 'static {
    /// What it delivers.
    type Obj: Object;

    /// What this source can do. Asked once.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// All objects at one revision, or one page of them. All pages of one list show the same revision.
    ///
    /// # Errors
    /// [`SourceError::Expired`] when that revision, or the rest of a paged list, is no longer kept; [`SourceError::Ahead`]
    /// when the source has not come as far as [`ReadAt`] demands. A source that cannot know answers what it has: the
    /// reflector looks at the page's revision too.
    fn list(&self, request: ListRequest)
    -> impl Future<Output = Result<Page<Self::Obj>, SourceError>> + Send;

    /// Opens a stream of changes. The caller drops the stream to end it.
    ///
    /// Each item holds frames in revision order, except that the initial state comes in any order. A revision is never
    /// split over two items, unless the source says so ([`Capabilities::splits_revisions`]): once an item is applied,
    /// everything up to the highest revision in it has been delivered. A key changes once in a revision. Frames may be
    /// delivered again.
    fn watch(&self, start: Start) -> impl Future<Output = Result<Frames<Self::Obj>, SourceError>> + Send;
}

/// Frames in batches: what one network message held.
pub type Frames<T> = BoxStream<'static, Result<Vec<Frame<T>>, SourceError>>;

/// How old a whole state may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    /// As old as it is: the answer that costs the source least. Kubernetes' `resourceVersion=0`.
    Any,
    /// Not older than the moment of the call. The dearest; Kubernetes' unset `resourceVersion`.
    Latest,
    /// At this revision or a later one.
    NotOlderThan(Revision),
    /// At exactly this revision; for sources with [`Capabilities::exact_list`].
    Exact(Revision),
}

/// What to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest {
    /// How old the state may be. The pages after the first are at the first one's revision, whatever is said here.
    pub at: ReadAt,
    /// Objects that the answer may hold; a source may give more or fewer. `None` for all.
    pub limit: Option<NonZeroU32>,
    /// What the page before gave as its `next`; `None` for the first.
    pub next: Option<Continue>,
}

impl ListRequest {
    /// Everything in one answer.
    pub fn all(at: ReadAt) -> Self {
        Self { at, limit: None, next: None }
    }
}

/// Where a paged list goes on. Only its source knows what it means.
#[derive(Clone, PartialEq, Eq)]
pub struct Continue(Arc<str>);

impl Continue {
    /// A token with this text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text that it was made of.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Continue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continue(..)")
    }
}

/// All objects at one revision, or as many of them as one answer holds.
#[derive(Debug)]
pub struct Page<T> {
    /// The objects, in any order.
    pub items: Vec<T>,
    /// Objects that exist but cannot be read.
    pub undecodable: Vec<Undecodable>,
    /// The revision of the read, the same in all pages; a watch after it misses nothing.
    pub revision: Revision,
    /// How to ask for the rest; `None` on the last page.
    pub next: Option<Continue>,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With all objects as [`Frame::Put`], then a [`Frame::Progress`] with `initial_done`, then the changes. Only for sources
    /// with [`Capabilities::streaming_list`].
    Initial(ReadAt),
    /// With the first change after this revision.
    After(Revision),
}

/// What a source can do beyond the minimum.
#[derive(Clone, Debug, Default)]
pub struct Capabilities {
    /// [`Start::Initial`] is understood. Then `list` is used only after an [`SourceError::Unsupported`].
    pub streaming_list: bool,
    /// [`ListRequest::limit`] is heeded.
    pub paging: bool,
    /// [`ReadAt::Exact`] is understood.
    pub exact_list: bool,
    /// A quiet stream sends a [`Frame::Progress`] at least this often; if it does not, the connection is taken for dead.
    pub progress_every: Option<Duration>,
    /// Several objects may share a revision, and the items of a stream may come between them. A revision is then known to be
    /// complete when a frame with a higher one or a [`Frame::Progress`] has come. Frames are applied when they come all the
    /// same; only a stream that breaks is resumed after the newest complete revision, so that what is left of the next one
    /// comes again as a whole.
    pub splits_revisions: bool,
    /// What the revisions of this source can be compared with.
    pub revisions: Revisions,
}

/// What the revisions of a source can be compared with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Revisions {
    /// With those of every source of the same domain: one history underlies them all.
    Shared(Domain),
    /// Only with each other.
    #[default]
    Own,
    /// Only with each other, and they are the adapter's own numbers: nobody outside knows them, so nothing can be waited for.
    Opaque,
}

/// The name of a history that several sources share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

impl Domain {
    /// The domain of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One thing that a source may be able to do.
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
            Self::Paging => "lists in pages",
            Self::ExactList => "lists at an exact revision",
        })
    }
}

/// An object that its source could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// Its name.
    pub key: Key,
    /// The revision of the state that cannot be read.
    pub revision: Revision,
    /// What is wrong with it.
    pub error: String,
}

/// One thing that a watch reports.
#[derive(Debug)]
pub enum Frame<T> {
    /// The object exists in this state: it was created, changed, or came to match the source's selectors.
    Put(T),
    /// The object was deleted or stopped matching.
    Gone {
        /// Its name.
        key: Key,
        /// The revision of the change.
        revision: Revision,
        /// Its last state, with the revision of the change, if the source has it.
        last: Option<T>,
    },
    /// The object changed to a state that cannot be read. The cache keeps the state before.
    Undecodable(Undecodable),
    /// Everything up to `revision` has been delivered.
    Progress {
        /// How far the stream has come.
        revision: Revision,
        /// This ends the initial state of a [`Start::Initial`] stream. True once per stream.
        initial_done: bool,
    },
}

impl<T: Object> Frame<T> {
    /// The revision that the frame tells of.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(object) => object.revision(),
            Self::Gone { revision, .. } | Self::Progress { revision, .. } => *revision,
            Self::Undecodable(what) => what.revision,
        }
    }
}

/// Why a source failed. Each kind has one reaction of the reflector. Every wait is at least the source's own wish, if it has
/// one, and otherwise doubles with jitter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The revision asked for is no longer kept. Reaction: wait, then the whole state, not older than what is known; if that
    /// is refused too, the latest one at once.
    #[error("the revision is no longer kept")]
    Expired,
    /// The source has not yet reached the revision asked for. Reaction: wait, then the whole state.
    #[error("the source is behind the revision asked for")]
    Ahead {
        /// When to try again, if it said so.
        retry_after: Option<Duration>,
    },
    /// The source is overloaded. Reaction: wait, then resume.
    #[error("the source asks to slow down")]
    Throttled {
        /// When to try again, if it said so.
        retry_after: Option<Duration>,
    },
    /// No connection, or it broke. Reaction: wait, then resume.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The source failed inside. Reaction: wait and resume; if it lasts, the whole state.
    #[error("failed inside: {0}")]
    Internal(String),
    /// The source cannot do this after all. Reaction: go on without it, at once and from now on.
    #[error("{0} are not supported")]
    Unsupported(Capability),
    /// It will not work before someone changes something: forbidden, unknown kind. Reaction: wait, then the whole state.
    #[error("refused: {0}")]
    Fatal(String),
}
