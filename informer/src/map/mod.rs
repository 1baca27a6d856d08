//! [`Map`]: a source that transforms the objects of another one, once for each version that arrives.
//!
//! It sits between the source and the reflector, so the cache sees only transformed objects, and each version
//! is transformed once, whether it arrives by list, streaming list or watch. Dropping fields while decoding
//! (a projection) belongs into the source; this transform works over any source.

#[cfg(test)]
mod tests;

use crate::{
    Capabilities, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revision, SourceError, Start,
    Undecodable,
};
use futures::StreamExt;
use std::future::Future;
use std::sync::Arc;

type Make<T, U> = dyn Fn(T) -> Result<U, String> + Send + Sync;

/// A source that transforms the objects of another source; see [`crate::Builder::map`].
pub struct Map<S: ListerWatcher, U> {
    source: S,
    make: Arc<Make<S::Obj, U>>,
}

impl<S: ListerWatcher, U: Object> Map<S, U> {
    /// Transforms the objects of `source` with `make`. An object that `make` refuses counts as undecodable:
    /// the cache keeps its last state until `make` accepts a newer one.
    ///
    /// Key, uid and revision must stay the same.
    pub fn new(source: S, make: impl Fn(S::Obj) -> Result<U, String> + Send + Sync + 'static) -> Self {
        Self { source, make: Arc::new(make) }
    }
}

/// Transforms one object.
fn make<T: Object, U: Object>(object: T, make: &Make<T, U>) -> Result<U, Undecodable> {
    let (key, revision) = (object.key(), object.revision());
    match make(object) {
        Ok(made) => {
            debug_assert_eq!(
                (made.key(), made.revision()),
                (key, revision),
                "an object keeps its name and revision"
            );
            Ok(made)
        }
        Err(error) => Err(Undecodable { key, revision, error }),
    }
}

fn frame<T: Object, U: Object>(frame: Frame<T>, by: &Make<T, U>) -> Frame<U> {
    match frame {
        Frame::Put(object) => match make(object, by) {
            Ok(made) => Frame::Put(made),
            Err(what) => Frame::Undecodable(what),
        },
        Frame::Gone { key, revision, last } => {
            Frame::Gone { key, revision, last: last.and_then(|last| make(last, by).ok()) }
        }
        Frame::Undecodable(what) => Frame::Undecodable(what),
        Frame::Progress { revision, initial_done } => Frame::Progress { revision, initial_done },
    }
}

fn page<T: Object, U: Object>(page: Page<T>, by: &Make<T, U>) -> Page<U> {
    let Page { items, mut undecodable, revision, next } = page;
    let mut made = Vec::with_capacity(items.len());
    for object in items {
        match make(object, by) {
            Ok(object) => made.push(object),
            Err(what) => undecodable.push(what),
        }
    }
    Page { items: made, undecodable, revision, next }
}

impl<S: ListerWatcher, U: Object> ListerWatcher for Map<S, U> {
    type Obj = U;

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<U>, SourceError> {
        Ok(page(self.source.list(request).await?, &*self.make))
    }

    fn watch(&self, start: Start) -> impl Future<Output = Result<Frames<U>, SourceError>> + Send {
        let by = self.make.clone();
        async move {
            let frames = self.source.watch(start).await?;
            let made = frames
                .map(move |item| item.map(|frames| frames.into_iter().map(|one| frame(one, &*by)).collect()));
            Ok(made.boxed())
        }
    }

    fn demand(&self, revision: Revision) {
        self.source.demand(revision);
    }
}
