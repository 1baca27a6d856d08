//! [`Backlog`]: the changes that the merging subscribers of one informer have not read yet, stored once for
//! all of them. Pure.
//!
//! Each subscriber has a position. The changes between two neighbouring positions form a *segment*; the last
//! segment is open. The driver appends a batch to the open segment at the cost of one pointer, independent of
//! the number of subscribers. A subscriber that reads takes the segments from its position on, merges them
//! outside the lock and moves to the end. When the last reader leaves the start of a segment, the backlog
//! joins the segment to the one before, or drops it if it is the first. There are therefore never more
//! segments than positions. Each segment has at most one merged entry per key and a bounded list of unmerged
//! batches.

use crate::Delta;
use crate::any_object::AnyObject;
use crate::cache::indexer::Batch;
use crate::hub::BacklogSize;
use crate::hub::delta_fifo::DeltaFifo;
use crate::limits::UNMERGED_CHANGES;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Position of a subscriber in the backlog: the subscriber has read every change before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

/// Unread changes of one informer, by the positions of its merging subscribers.
///
/// Invariant: every segment has at least one reader at its start.
#[derive(Default)]
pub(crate) struct Backlog {
    segments: BTreeMap<Position, Segment>,
    next: u64,
}

struct Segment {
    readers: usize,
    content: Arc<Content>,
}

/// Changes of one segment: the older ones merged per key, the newest as unmerged batches.
#[derive(Clone, Default)]
pub(crate) struct Content {
    merged: DeltaFifo,
    rest: Vec<Arc<Batch>>,
    /// Number of changes in `rest`.
    unmerged: usize,
}

impl Backlog {
    /// Adds a reader at the end of the backlog and returns its position.
    pub(crate) fn enter(&mut self) -> Position {
        if let Some((position, last)) = self.segments.last_key_value()
            && last.content.is_empty()
        {
            let position = *position;
            self.segments.entry(position).and_modify(|segment| segment.readers += 1);
            return position;
        }
        let position = Position(self.next);
        self.next += 1;
        self.segments.insert(position, Segment { readers: 1, content: Arc::default() });
        position
    }

    /// Removes a reader; joins or drops the segment that no other reader needs.
    pub(crate) fn leave(&mut self, position: Position) {
        let Some(segment) = self.segments.get_mut(&position) else { return };
        segment.readers -= 1;
        if segment.readers > 0 {
            return;
        }
        let Some(segment) = self.segments.remove(&position) else { return };
        if let Some((_, before)) = self.segments.range_mut(..position).next_back() {
            Arc::make_mut(&mut before.content).absorb(&segment.content);
        }
    }

    /// Appends a batch of changes to the open segment. Without readers the batch is dropped.
    pub(crate) fn push(&mut self, batch: &Arc<Batch>) {
        if let Some(mut last) = self.segments.last_entry() {
            Arc::make_mut(&mut last.get_mut().content).push(batch.clone());
        }
    }

    /// Takes the changes that a reader has not seen, oldest first, and returns the reader's new position.
    pub(crate) fn take(&mut self, position: Position) -> (Vec<Arc<Content>>, Position) {
        let contents = self.from(position).filter(|content| !content.is_empty()).cloned().collect::<Vec<_>>();
        if contents.is_empty() {
            return (contents, position);
        }
        let now = self.enter();
        self.leave(position);
        (contents, now)
    }

    /// Number of keys with changes that this reader has not seen.
    pub(crate) fn pending(&self, position: Position) -> usize {
        merge(self.from(position).cloned().collect()).len()
    }

    /// Changes stored in the backlog, and the sum of unread changes over all readers. Unmerged changes count
    /// one by one.
    pub(crate) fn waiting(&self) -> BacklogSize {
        let mut waiting = BacklogSize::default();
        for segment in self.segments.values().rev() {
            waiting.kept += segment.content.merged.len() + segment.content.unmerged;
            waiting.pending += waiting.kept * segment.readers;
        }
        waiting
    }

    fn from(&self, position: Position) -> impl Iterator<Item = &Arc<Content>> {
        self.segments.range(position..).map(|(_, segment)| &segment.content)
    }

    /// Number of segments, and number of merged entries plus unmerged changes in them.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let contents = self.segments.values().map(|segment| &segment.content);
        (self.segments.len(), contents.map(|content| content.merged.len() + content.unmerged).sum())
    }
}

impl Content {
    fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.merged.len() == 0
    }

    fn push(&mut self, batch: Arc<Batch>) {
        self.unmerged += batch.changes.len();
        self.rest.push(batch);
        if self.unmerged > UNMERGED_CHANGES.max(self.merged.len()) {
            self.merge();
        }
    }

    fn merge(&mut self) {
        self.unmerged = 0;
        for batch in self.rest.drain(..) {
            batch.changes.iter().for_each(|change| self.merged.record(change));
        }
    }

    fn absorb(&mut self, later: &Self) {
        if later.merged.len() > 0 {
            self.merge();
            self.merged.absorb(&later.merged);
        }
        later.rest.iter().for_each(|batch| self.push(batch.clone()));
    }

    /// The only batch of this content, if no key occurs in it twice: such a batch needs no merging.
    fn single(&self) -> Option<&Batch> {
        match self.rest.as_slice() {
            [batch] if batch.distinct && self.merged.len() == 0 => Some(batch),
            _ => None,
        }
    }
}

/// Merges the segments and returns the deltas that lead from their start to their end.
pub(crate) fn deltas(contents: Vec<Arc<Content>>) -> Vec<Delta<dyn AnyObject>> {
    if let [content] = contents.as_slice()
        && let Some(batch) = content.single()
    {
        return batch.changes.iter().flat_map(crate::cache::indexer::Change::deltas).collect();
    }
    merge(contents).drain()
}

fn merge(contents: Vec<Arc<Content>>) -> DeltaFifo {
    let mut contents = contents.into_iter();
    let mut first = contents.next().map(Arc::unwrap_or_clone).unwrap_or_default();
    contents.for_each(|content| first.absorb(&content));
    first.merge();
    first.merged
}
