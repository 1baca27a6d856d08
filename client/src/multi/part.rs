//! [`SourcePart`]: the source of one informer on a shared stream.

use super::Shared;
use super::inbox::{InboxContent, Reader};
use super::pump::Pump;
use super::table::{PartId, RequestedStart};
use crate::calls::wire;
use crate::grpc::{AnySource, least};
use crate::{Client, Source};
use futures::stream;
use kstore_informer::{
    Capabilities, DynListerWatcher, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revision,
    SharedObject, SourceError, Start, typed_frames,
};
use std::marker::PhantomData;
use std::sync::Arc;
use tokio::sync::oneshot;

/// One part of a [`MultiSource`](super::MultiSource). When the part and its stream are dropped, it leaves the
/// shared stream.
pub struct SourcePart<T> {
    any: AnyPart,
    object: PhantomData<fn() -> T>,
}

/// A [`SourcePart`] without the type of its objects: its code exists once for all of them.
struct AnyPart {
    client: Client,
    source: AnySource,
    registration: Arc<Registration>,
}

/// The registration of a part in the table. Its drop, with the last reference from the part or from a stream
/// of it, removes the part.
struct Registration {
    shared: Arc<Shared>,
    part: PartId,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.table.lock().remove(self.part);
        self.shared.changed.notify_one();
    }
}

impl<T: Object> SourcePart<T> {
    pub(super) fn new(client: Client, shared: Arc<Shared>, source: Source<T>) -> Self {
        Self { any: AnyPart::new(client, shared, source.any), object: PhantomData }
    }
}

impl<T: Object> ListerWatcher for SourcePart<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.any.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.any.list(request).await.map(Page::typed)
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        self.any.watch(start).await.map(typed_frames)
    }

    fn demand(&self, revision: Revision) {
        self.any.demand(revision);
    }

    fn erased(self) -> DynListerWatcher<SharedObject> {
        DynListerWatcher::new(self.any)
    }
}

impl AnyPart {
    fn new(client: Client, shared: Arc<Shared>, source: AnySource) -> Self {
        let part = shared.table.lock().add(source.selectors());
        shared.changed.notify_one();
        Self { client, source, registration: Arc::new(Registration { shared, part }) }
    }
}

impl ListerWatcher for AnyPart {
    type Obj = SharedObject;

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<SharedObject>, SourceError> {
        self.source.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<SharedObject>, SourceError> {
        let least = least(start)?;
        let requested = match start {
            Start::Initial(_) => RequestedStart::FullState,
            Start::After(revision) => RequestedStart::After(revision),
        };
        let (reply, replied) = oneshot::channel();
        let shared = &self.registration.shared;
        let needs_pump = {
            let mut table = shared.table.lock();
            table.request(self.registration.part, requested, reply);
            !std::mem::replace(&mut table.has_pump, true)
        };
        shared.changed.notify_one();
        if needs_pump {
            tokio::spawn(Pump::new(self.client.clone(), shared.clone()).run());
        }
        let ended = || SourceError::Unreachable("the task of the shared watch stream has ended".into());
        let reader = replied.await.map_err(|_| ended())??;
        Ok(frames(reader, self.registration.clone(), self.source.clone(), least))
    }

    fn demand(&self, revision: Revision) {
        let Registration { shared, part } = &*self.registration;
        shared.table.lock().demand(*part, revision);
        shared.demand.demand(wire(revision));
    }
}

/// The frames from an inbox. The informer that reads them decodes the objects, not the pump, which serves all
/// parts.
fn frames(
    reader: Reader,
    registration: Arc<Registration>,
    source: AnySource,
    least: Revision,
) -> Frames<SharedObject> {
    let reading = stream::unfold(Some((reader, registration, source)), move |state| async move {
        let (reader, registration, source) = state?;
        match reader.take().await {
            InboxContent::Batches(batches) => {
                let frames = batches.into_iter().map(|batch| source.frames(batch, least));
                let frames: Result<Vec<Vec<Frame<SharedObject>>>, _> = frames.collect();
                Some((
                    frames.map(|frames| frames.into_iter().flatten().collect()),
                    Some((reader, registration, source)),
                ))
            }
            InboxContent::End(Some(error)) => Some((Err(error), None)),
            InboxContent::End(None) => None,
        }
    });
    Box::pin(reading)
}
