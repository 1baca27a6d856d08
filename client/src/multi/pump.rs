//! [`Pump`]: the task that opens the shared stream and distributes its batches. It ends with the last part.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt;
use kstore_informer::{Revision, SourceError};
use kstore_proto::kstore::v1 as pb;
use tokio::time::{Instant, sleep_until};

use super::{
    Shared,
    inbox::{Inbox, Reader},
    table::{Guest, Plan},
};
use crate::{ApiError, Client, calls::wire, feed::Batches, limits::MULTI_WARNING};

/// The task of the shared stream.
pub(super) struct Pump {
    client: Client,
    shared: Arc<Shared>,
    /// Whether the pump left an empty table, which may have another pump by now.
    done: bool,
}

/// An open stream with the inboxes of its parts.
struct Open {
    batches: Batches,
    /// The index of the inbox for each selector.
    outlets: Vec<usize>,
    inboxes: Vec<Arc<Inbox>>,
}

impl Drop for Pump {
    /// Dismisses the table at any end of the pump: waiting parts get an error, and the next request starts
    /// another pump.
    fn drop(&mut self) {
        if !self.done {
            self.shared.table.lock().dismiss();
        }
    }
}

impl Pump {
    pub(super) fn new(client: Client, shared: Arc<Shared>) -> Self {
        Self { client, shared, done: false }
    }

    /// Runs until no part is left.
    pub(super) async fn run(mut self) {
        let mut open = None;
        let mut patience = Instant::now() + MULTI_WARNING;
        loop {
            let plan = self.shared.table.lock().plan(open.is_some());
            match plan {
                Plan::Leave => break,
                Plan::Wait => {
                    tokio::select! {
                        biased;
                        () = self.shared.changed.notified() => {}
                        () = sleep_until(patience) => {
                            patience = Instant::now() + MULTI_WARNING;
                            let missing = self.shared.table.lock().missing();
                            if !missing.is_empty() {
                                tracing::warn!(?missing, "a common stream waits for informers that have not started");
                            }
                        }
                    }
                }
                Plan::Open(start, guests) => open = self.open(start, guests).await,
                Plan::Read => {
                    let Some(stream) = &mut open else { continue };
                    let ended = tokio::select! {
                        biased;
                        () = self.shared.changed.notified() => continue,
                        ended = stream.advance() => ended,
                    };
                    if let Err(error) = ended {
                        self.close(&mut open, error);
                    }
                }
                Plan::End => self.close(&mut open, None),
            }
            if open.is_some() {
                patience = Instant::now() + MULTI_WARNING;
            }
        }
        self.done = true;
    }

    /// Opens one watch with the selectors of all `guests`, and sends each guest the result.
    async fn open(&self, start: Option<Revision>, guests: Vec<Guest>) -> Option<Open> {
        let selectors = guests.iter().flat_map(|guest| guest.selectors.iter().cloned()).collect();
        // Revision zero requests the full state. A watch after revision zero would return the same.
        let after_revision = start.map_or(0, wire);
        let opened =
            self.client.open_watch(pb::WatchRequest { selectors, after_revision, progress: true }).await;
        let batches = match opened {
            Ok(batches) => batches,
            Err(error) => {
                for guest in guests {
                    let _ = guest.answer.send(Err(error.clone().into()));
                }
                return None;
            }
        };
        let mut open = Open { batches, outlets: Vec::new(), inboxes: Vec::new() };
        let mut table = self.shared.table.lock();
        for guest in guests {
            let inbox = Arc::new(Inbox::new(guest.after));
            open.outlets.extend(guest.selectors.iter().map(|_| open.inboxes.len()));
            open.inboxes.push(inbox.clone());
            table.seat(guest.seat, inbox.clone());
            // A part that no longer waits drops the reader.
            let _ = guest.answer.send(Ok(Reader(inbox)));
        }
        Some(open)
    }

    fn close(&self, open: &mut Option<Open>, error: Option<SourceError>) {
        self.shared.table.lock().clear();
        for inbox in open.take().into_iter().flat_map(|open| open.inboxes) {
            inbox.end(error.clone());
        }
    }
}

impl Open {
    /// Reads and distributes one batch when every inbox has space. Cancel-safe.
    async fn advance(&mut self) -> Result<(), Option<SourceError>> {
        while let Some(full) = self.inboxes.iter().find(|inbox| !inbox.has_room()) {
            full.emptied().await;
        }
        match self.batches.next().await {
            Some(Ok(batch)) => {
                self.deal(batch);
                Ok(())
            }
            Some(Err(status)) => Err(Some(ApiError::from(status).into())),
            None => Err(None),
        }
    }

    fn deal(&self, batch: pb::WatchBatch) {
        let mut events: BTreeMap<usize, Vec<pb::WatchEvent>> = BTreeMap::new();
        for event in batch.events {
            if let Some(outlet) = self.outlets.get(event.selector as usize) {
                events.entry(*outlet).or_default().push(event);
            }
        }
        for (outlet, inbox) in self.inboxes.iter().enumerate() {
            let events = events.remove(&outlet).unwrap_or_default();
            inbox.put(pb::WatchBatch { events, revision: batch.revision, initial_done: batch.initial_done });
        }
    }
}
