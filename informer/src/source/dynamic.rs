//! [`DynListerWatcher`]: a type-erased source.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{Capabilities, Frames, ListRequest, ListerWatcher, Object, Page, SourceError, Start};

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
}

/// Object-safe form of [`ListerWatcher`].
trait Erased<T>: Send + Sync {
    fn capabilities(&self) -> Capabilities;
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page<T>, SourceError>>;
    fn watch(&self, start: Start) -> BoxFuture<'_, Result<Frames<T>, SourceError>>;
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
}
