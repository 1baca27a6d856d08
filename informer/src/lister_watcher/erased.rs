//! Sources without the type of their objects, and back: what an informer reads has no type ([`SharedObject`]).

use crate::any_object::typed;
use crate::{
    Capabilities, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revision, SharedObject,
    SourceError, Start,
};
use futures::{Stream, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A source that delivers the objects of another one without their type.
pub(super) struct Erase<S>(pub(super) S);

impl<S: ListerWatcher> ListerWatcher for Erase<S> {
    type Obj = SharedObject;

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<SharedObject>, SourceError> {
        self.0.list(request).await.map(erased_page)
    }

    async fn watch(&self, start: Start) -> Result<Frames<SharedObject>, SourceError> {
        Ok(Box::pin(ErasedFrames(self.0.watch(start).await?)))
    }

    fn demand(&self, revision: Revision) {
        self.0.demand(revision);
    }
}

/// The frames of a source without the type of their objects.
struct ErasedFrames<T>(Frames<T>);

impl<T: Object> Stream for ErasedFrames<T> {
    type Item = Result<Vec<Frame<SharedObject>>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context).map(|item| item.map(|item| item.map(erased_frames)))
    }
}

impl Page<SharedObject> {
    /// The page with the type of its objects, for adapters whose [`ListerWatcher::erased`] never knew it.
    ///
    /// # Panics
    /// When the objects have another type, or are shared already.
    pub fn typed<T: Object>(self) -> Page<T> {
        let Self { items, undecodable, revision, next } = self;
        Page { items: items.into_iter().map(owned).collect(), undecodable, revision, next }
    }
}

/// Frames with the type of their objects, for adapters whose [`ListerWatcher::erased`] never knew it.
///
/// # Panics
/// The stream panics when the objects have another type, or are shared already.
pub fn typed_frames<T: Object>(frames: Frames<SharedObject>) -> Frames<T> {
    let typed = |frame| match frame {
        Frame::Put(object) => Frame::Put(owned(object)),
        Frame::Gone { key, revision, last } => Frame::Gone { key, revision, last: last.map(owned) },
        Frame::Undecodable(what) => Frame::Undecodable(what),
        Frame::Progress { revision, initial_done } => Frame::Progress { revision, initial_done },
    };
    Box::pin(frames.map(move |item| item.map(|frames| frames.into_iter().map(typed).collect())))
}

fn owned<T: Object>(object: SharedObject) -> T {
    Arc::into_inner(typed(object)).expect("a source does not share what it delivers")
}

fn erased_page<T: Object>(page: Page<T>) -> Page<SharedObject> {
    let Page { items, undecodable, revision, next } = page;
    let mut erased = Vec::<SharedObject>::with_capacity(items.len());
    for object in items {
        erased.push(Arc::new(object));
    }
    Page { items: erased, undecodable, revision, next }
}

/// Frames without the type of their objects.
pub(crate) fn erased_frames<T: Object>(frames: Vec<Frame<T>>) -> Vec<Frame<SharedObject>> {
    let mut erased = Vec::with_capacity(frames.len());
    for frame in frames {
        erased.push(match frame {
            Frame::Put(object) => Frame::Put(Arc::new(object) as SharedObject),
            Frame::Gone { key, revision, last } => {
                Frame::Gone { key, revision, last: last.map(|last| Arc::new(last) as SharedObject) }
            }
            Frame::Undecodable(what) => Frame::Undecodable(what),
            Frame::Progress { revision, initial_done } => Frame::Progress { revision, initial_done },
        });
    }
    erased
}
