//! [`SourcePart`]: the source of one informer on a shared stream.

use super::Shared;
use super::inbox::{InboxContent, Reader};
use super::pump::Pump;
use super::table::{PartId, RequestedStart};
use crate::calls::wire;
use crate::grpc::least;
use crate::{Client, Source};
use futures::stream;
use kstore_informer::{
    Capabilities, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revision, SourceError, Start,
};
use std::sync::Arc;
use tokio::sync::oneshot;

/// One part of a [`MultiSource`](super::MultiSource). When the part and its stream are dropped, it leaves the
/// shared stream.
pub struct SourcePart<T> {
    client: Client,
    source: Source<T>,
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
        let part = shared.table.lock().add(source.selectors());
        shared.changed.notify_one();
        Self { client, source, registration: Arc::new(Registration { shared, part }) }
    }
}

impl<T: Object> ListerWatcher for SourcePart<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.source.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
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
fn frames<T: Object>(
    reader: Reader,
    registration: Arc<Registration>,
    source: Source<T>,
    least: Revision,
) -> Frames<T> {
    let reading = stream::unfold(Some((reader, registration, source)), move |state| async move {
        let (reader, registration, source) = state?;
        match reader.take().await {
            InboxContent::Batches(batches) => {
                let frames = batches.into_iter().map(|batch| source.frames(batch, least));
                let frames: Result<Vec<Vec<Frame<T>>>, _> = frames.collect();
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
