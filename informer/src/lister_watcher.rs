//! [`ListerWatcher`]: where an informer gets its objects from, and the contract that sources keep. Recovery is not a source's
//! business: it reports, and the reflector decides.

use std::{future::Future, time::Duration};

use futures::stream::BoxStream;

use crate::{Key, Object, Revision};

/// A place that can list objects and report their changes.
pub trait ListerWatcher: Send + Sync + 'static {
    /// What it delivers.
    type Obj: Object;

    /// What this source can do. Asked once.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// All objects at one revision, which should be at least `floor`; a source that may lag can refuse with
    /// [`SourceError::Ahead`]. Called only if the source does not stream the initial state, or has stopped doing so.
    fn list(&self, floor: Revision) -> impl Future<Output = Result<Listing<Self::Obj>, SourceError>> + Send;

    /// Opens a stream of changes. The caller drops the stream to end it.
    ///
    /// Each item holds frames in revision order. A revision is never split over two items: once an item is applied,
    /// everything up to the highest revision in it has been delivered. Frames may be delivered again.
    fn watch(&self, start: Start) -> impl Future<Output = Result<Frames<Self::Obj>, SourceError>> + Send;
}

/// Frames in batches: what one network message held.
pub type Frames<T> = BoxStream<'static, Result<Vec<Frame<T>>, SourceError>>;

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With all objects as [`Frame::Put`], then a [`Frame::Progress`] with `initial_done`, then the changes.
    Initial,
    /// With the first change after this revision.
    After(Revision),
}

/// What a source can do beyond the minimum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capabilities {
    /// [`Start::Initial`] is understood. Then `list` is used only after an `Unsupported`.
    pub streaming_list: bool,
    /// A quiet stream sends a [`Frame::Progress`] at least this often; if it does not, the connection is taken for dead.
    pub progress_every: Option<Duration>,
}

/// All objects at one revision.
#[derive(Debug)]
pub struct Listing<T> {
    /// The objects, in any order.
    pub items: Vec<T>,
    /// Objects that exist but cannot be read.
    pub undecodable: Vec<Undecodable>,
    /// The revision of the read; a watch after it misses nothing.
    pub revision: Revision,
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

/// Why a source failed. Each kind has one reaction of the reflector.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The revision asked for is no longer kept. Reaction: the initial state again, at once.
    #[error("the revision is no longer kept")]
    Expired,
    /// The source has not yet reached the revision asked for. Reaction: wait, then the initial state again.
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
    /// The source failed inside. Reaction: wait and resume; if it lasts, the initial state again.
    #[error("failed inside: {0}")]
    Internal(String),
    /// The source does not stream initial states after all. Reaction: list instead, from now on.
    #[error("streaming lists are not supported")]
    Unsupported,
    /// It will not work before someone changes something: forbidden, unknown kind. Reaction: wait, then the initial state.
    #[error("refused: {0}")]
    Fatal(String),
}
