//! Watches with a [`ReadBound`]: deliveries wait until the bound lets them pass, in order.

use super::super::bound::{ReadBound, Verdict};
use super::super::watchers::Delivery;
use super::{Batch, Watch, WatchEnd};
use crate::kinds::Kinds;
use kstore_storage::limits;
use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;

/// The bound of a watch and the deliveries that wait for it.
pub(super) struct HeldDeliveries {
    bound: Arc<dyn ReadBound>,
    deliveries: VecDeque<Delivery>,
    /// The revision up to which everything was shown. It never goes down.
    shown: i64,
    /// The end of the watch, after the deliveries that were shown before it.
    end: Option<WatchEnd>,
}

impl HeldDeliveries {
    pub(super) fn new(bound: Arc<dyn ReadBound>, begun: i64) -> Self {
        Self { bound, deliveries: VecDeque::new(), shown: begun, end: None }
    }

    pub(super) fn shown(&self) -> i64 {
        self.shown
    }

    /// The kinds by whose definitions the history is read, if the bound has its own.
    pub(super) fn kinds(&self) -> Option<Arc<Kinds>> {
        self.bound.kinds()
    }

    /// Whether everything was shown that the bound will ever show.
    fn is_exhausted(&self) -> bool {
        self.bound.is_final() && self.shown >= self.bound.limit()
    }

    /// The deliveries that pass now; `read` is the revision up to which everything was read from the cache.
    fn release(&mut self, read: i64) -> Result<Vec<Delivery>, WatchEnd> {
        if let Some(end) = self.end.clone() {
            return Err(end);
        }
        let limit = self.bound.limit();
        let mut passed = Vec::new();
        while let Some(next) = self.deliveries.front().filter(|next| next.change.revision <= limit) {
            match self.bound.due(next) {
                Verdict::Show => passed.extend(self.deliveries.pop_front()),
                Verdict::Hold => break,
                Verdict::End(end) if passed.is_empty() => return Err(end),
                Verdict::End(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        let complete = self.deliveries.front().map_or(read, |next| next.change.revision - 1);
        self.shown = self.shown.max(complete.min(limit));
        Ok(passed)
    }
}

impl Watch {
    /// Waits for deliveries that the bound lets pass. Cancel safe: what was read is kept in the watch.
    pub(super) async fn next_within_bound(&mut self) -> Result<Batch, WatchEnd> {
        loop {
            let bound = self.held().bound.clone();
            let mut changed = pin!(bound.changed().notified());
            changed.as_mut().enable();
            let passed = self.release()?;
            if !passed.deliveries.is_empty() {
                return Ok(passed);
            }
            if self.held().is_exhausted() {
                // Later changes are not read: the watch never shows them.
                return std::future::pending().await;
            }
            if self.held().deliveries.len() >= limits::HELD_DELIVERIES {
                changed.await;
                continue;
            }
            tokio::select! {
                biased;
                () = changed => {}
                batch = self.next_unbound() => {
                    let batch = batch?;
                    self.held().deliveries.extend(batch.deliveries);
                }
            }
        }
    }

    /// The progress within the bound, with deliveries that pass, without waiting.
    pub(super) fn progress_within_bound(&mut self) -> Result<Batch, WatchEnd> {
        if self.held().deliveries.len() < limits::HELD_DELIVERIES && !self.held().is_exhausted() {
            let batch = self.progress_unbound()?;
            self.held().deliveries.extend(batch.deliveries);
        }
        self.release()
    }

    fn held(&mut self) -> &mut HeldDeliveries {
        self.held.as_mut().expect("only watches with a bound hold deliveries")
    }

    fn release(&mut self) -> Result<Batch, WatchEnd> {
        let read = self.revision;
        let held = self.held();
        let deliveries = held.release(read)?;
        Ok(Batch { deliveries, revision: held.shown })
    }
}
