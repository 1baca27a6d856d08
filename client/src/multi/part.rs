//! [`Part`]: the source of one informer on a shared stream.

use std::sync::Arc;

use futures::stream;
use kstore_informer::{
    Capabilities, Frame, Frames, ListRequest, ListerWatcher, Object, Page, Revision, SourceError, Start,
};
use tokio::sync::oneshot;

use super::{
    Shared,
    inbox::{Reader, Taken},
    pump::Pump,
    table::{Seat, Wish},
};
use crate::{Client, Source, grpc::least};

/// One part of a [`MultiSource`](super::MultiSource). When the part and its stream are dropped, it leaves the
/// shared stream.
pub struct Part<T> {
    client: Client,
    source: Source<T>,
    place: Arc<Place>,
}

/// The registration of a part in the table. Its drop, with the last reference from the part or from a stream
/// of it, removes the part.
struct Place {
    shared: Arc<Shared>,
    seat: Seat,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.table.lock().leave(self.seat);
        self.shared.changed.notify_one();
    }
}

impl<T: Object> Part<T> {
    pub(super) fn new(client: Client, shared: Arc<Shared>, source: Source<T>) -> Self {
        let seat = shared.table.lock().join(source.selectors());
        shared.changed.notify_one();
        Self { client, source, place: Arc::new(Place { shared, seat }) }
    }
}

impl<T: Object> ListerWatcher for Part<T> {
    type Obj = T;

    fn capabilities(&self) -> Capabilities {
        self.source.capabilities()
    }

    async fn list(&self, request: ListRequest) -> Result<Page<T>, SourceError> {
        self.source.list(request).await
    }

    async fn watch(&self, start: Start) -> Result<Frames<T>, SourceError> {
        let least = least(start)?;
        let wish = match start {
            Start::Initial(_) => Wish::Everything,
            Start::After(revision) => Wish::After(revision),
        };
        let (answer, answered) = oneshot::channel();
        let shared = &self.place.shared;
        let idle = {
            let mut table = shared.table.lock();
            table.ask(self.place.seat, wish, answer);
            !std::mem::replace(&mut table.pumped, true)
        };
        shared.changed.notify_one();
        if idle {
            tokio::spawn(Pump::new(self.client.clone(), shared.clone()).run());
        }
        let ended = || SourceError::Unreachable("what reads the common stream has ended".into());
        let reader = answered.await.map_err(|_| ended())??;
        Ok(frames(reader, self.place.clone(), self.source.clone(), least))
    }
}

/// The frames from an inbox. The informer that reads them decodes the objects, not the pump, which serves all
/// parts.
fn frames<T: Object>(reader: Reader, place: Arc<Place>, source: Source<T>, least: Revision) -> Frames<T> {
    let reading = stream::unfold(Some((reader, place, source)), move |state| async move {
        let (reader, place, source) = state?;
        match reader.take().await {
            Taken::Batches(batches) => {
                let frames = batches.into_iter().map(|batch| source.frames(batch, least));
                let frames: Result<Vec<Vec<Frame<T>>>, _> = frames.collect();
                Some((
                    frames.map(|frames| frames.into_iter().flatten().collect()),
                    Some((reader, place, source)),
                ))
            }
            Taken::End(Some(error)) => Some((Err(error), None)),
            Taken::End(None) => None,
        }
    });
    Box::pin(reading)
}
