//! [`Pump`]: the task that opens the shared stream and distributes its batches. It ends with the last part.

use super::Shared;
use super::inbox::{Inbox, Reader};
use super::table::{Plan, StreamMember};
use crate::calls::wire;
use crate::client::Batches;
use crate::limits::MULTI_WARNING;
use crate::{ApiError, Client};
use futures::StreamExt;
use kstore_informer::{Revision, SourceError};
use kstore_proto::kstore::v1 as pb;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::{Instant, sleep_until};

/// The task of the shared stream.
pub(super) struct Pump {
    client: Client,
    shared: Arc<Shared>,
    /// Whether the pump left an empty table, which may have another pump by now.
    is_finished: bool,
}

/// An open stream with the inboxes of its parts.
struct Open {
    batches: Batches,
    /// The index of the inbox for each selector.
    inbox_indices: Vec<usize>,
    inboxes: Vec<Arc<Inbox>>,
}

impl Drop for Pump {
    /// Dismisses the table at any end of the pump: waiting parts get an error, and the next request starts
    /// another pump.
    fn drop(&mut self) {
        if !self.is_finished {
            self.shared.table.lock().stop_serving();
        }
    }
}

impl Pump {
    pub(super) fn new(client: Client, shared: Arc<Shared>) -> Self {
        Self { client, shared, is_finished: false }
    }

    /// Runs until no part is left.
    pub(super) async fn run(mut self) {
        let mut open = None;
        let mut warn_at = Instant::now() + MULTI_WARNING;
        loop {
            let plan = self.shared.table.lock().plan(open.is_some());
            match plan {
                Plan::Finish => break,
                Plan::Wait => {
                    tokio::select! {
                        biased;
                        () = self.shared.changed.notified() => {}
                        () = sleep_until(warn_at) => {
                            warn_at = Instant::now() + MULTI_WARNING;
                            let missing = self.shared.table.lock().missing();
                            if !missing.is_empty() {
                                tracing::warn!(?missing, "a shared watch stream waits for informers that have not started");
                            }
                        }
                    }
                }
                Plan::Open(start, members) => open = self.open(start, members).await,
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
                warn_at = Instant::now() + MULTI_WARNING;
            }
        }
        self.is_finished = true;
    }

    /// Opens one watch with the selectors of all `members`, and sends each member the result.
    async fn open(&self, start: Option<Revision>, members: Vec<StreamMember>) -> Option<Open> {
        let selectors = members.iter().flat_map(|member| member.selectors.iter().cloned()).collect();
        // Revision zero requests the full state. A watch after revision zero would return the same.
        let after_revision = start.map_or(0, wire);
        let request = pb::WatchRequest { selectors, after_revision, progress: true };
        let opened = self.client.open_watch(request, &self.shared.demand).await;
        let batches = match opened {
            Ok(batches) => batches,
            Err(error) => {
                for member in members {
                    let _ = member.reply.send(Err(error.clone().into()));
                }
                return None;
            }
        };
        let mut open = Open { batches, inbox_indices: Vec::new(), inboxes: Vec::new() };
        let mut table = self.shared.table.lock();
        for member in members {
            let inbox = Arc::new(Inbox::new(member.after, table.longest_delay()));
            open.inbox_indices.extend(member.selectors.iter().map(|_| open.inboxes.len()));
            open.inboxes.push(inbox.clone());
            table.set_inbox(member.part, inbox.clone());
            // A part that no longer waits drops the reader.
            let _ = member.reply.send(Ok(Reader(inbox)));
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
        while let Some(full) = self.inboxes.iter().find(|inbox| !inbox.has_space()) {
            full.emptied().await;
        }
        match self.batches.next().await {
            Some(Ok(batch)) => {
                self.distribute(batch);
                Ok(())
            }
            Some(Err(status)) => Err(Some(ApiError::from(status).into())),
            None => Err(None),
        }
    }

    fn distribute(&self, batch: pb::WatchBatch) {
        let mut events: BTreeMap<usize, Vec<pb::WatchEvent>> = BTreeMap::new();
        for event in batch.events {
            if let Some(inbox_index) = self.inbox_indices.get(event.selector as usize) {
                events.entry(*inbox_index).or_default().push(event);
            }
        }
        for (inbox_index, inbox) in self.inboxes.iter().enumerate() {
            let events = events.remove(&inbox_index).unwrap_or_default();
            inbox.put(pb::WatchBatch { events, revision: batch.revision, initial_done: batch.initial_done });
        }
    }
}
