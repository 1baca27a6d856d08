//! [`Backlog`]: what the subscribers of one informer have not taken, kept once for all of them. Pure.
//!
//! Subscribers stand at positions. What happened between two of them is a *stretch*; the last one is open and takes what the
//! driver brings, at the cost of one pointer per batch, however many subscribers there are. A subscriber that reads gets the
//! stretches from its position on, merges them by itself, and stands at the end. A stretch that nobody's position begins is
//! joined to the one before, or forgotten if it is the first: there are never more stretches than positions, and each
//! holds at most one entry per key and a bounded rest that is not yet merged.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    Delta, Object, delta_fifo::DeltaFifo, indexer::Batch, informer::figures::Waiting,
    limits::UNMERGED_CHANGES,
};

/// Where a subscriber stands: it has taken everything before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(u64);

/// See the module. Every stretch has a reader that stands at its beginning.
pub(crate) struct Backlog<T> {
    stretches: BTreeMap<Position, Stretch<T>>,
    next: u64,
}

struct Stretch<T> {
    readers: usize,
    content: Arc<Content<T>>,
}

/// Changes, the older ones merged.
pub(crate) struct Content<T> {
    merged: DeltaFifo<T>,
    rest: Vec<Arc<Batch<T>>>,
    /// Changes in `rest`.
    unmerged: usize,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self { stretches: BTreeMap::new(), next: 0 }
    }
}

impl<T> Default for Content<T> {
    fn default() -> Self {
        Self { merged: DeltaFifo::default(), rest: Vec::new(), unmerged: 0 }
    }
}

impl<T> Clone for Content<T> {
    fn clone(&self) -> Self {
        Self { merged: self.merged.clone(), rest: self.rest.clone(), unmerged: self.unmerged }
    }
}

impl<T: Object> Backlog<T> {
    /// A new reader at the end.
    pub(crate) fn enter(&mut self) -> Position {
        if let Some((position, last)) = self.stretches.last_key_value()
            && last.content.is_empty()
        {
            let position = *position;
            self.stretches.entry(position).and_modify(|stretch| stretch.readers += 1);
            return position;
        }
        let position = Position(self.next);
        self.next += 1;
        self.stretches.insert(position, Stretch { readers: 1, content: Arc::default() });
        position
    }

    /// A reader goes away.
    pub(crate) fn leave(&mut self, position: Position) {
        let Some(stretch) = self.stretches.get_mut(&position) else { return };
        stretch.readers -= 1;
        if stretch.readers > 0 {
            return;
        }
        let Some(stretch) = self.stretches.remove(&position) else { return };
        if let Some((_, before)) = self.stretches.range_mut(..position).next_back() {
            Arc::make_mut(&mut before.content).absorb(&stretch.content);
        }
    }

    /// What happened.
    pub(crate) fn push(&mut self, batch: &Arc<Batch<T>>) {
        if let Some(mut last) = self.stretches.last_entry() {
            Arc::make_mut(&mut last.get_mut().content).push(batch.clone());
        }
    }

    /// What a reader has not seen, in order, and where it stands now.
    pub(crate) fn take(&mut self, position: Position) -> (Vec<Arc<Content<T>>>, Position) {
        let contents = self.from(position).filter(|content| !content.is_empty()).cloned().collect::<Vec<_>>();
        if contents.is_empty() {
            return (contents, position);
        }
        let now = self.enter();
        self.leave(position);
        (contents, now)
    }

    /// Keys that a reader has not seen the newest state of.
    pub(crate) fn pending(&self, position: Position) -> usize {
        merge(self.from(position).cloned().collect()).len()
    }

    /// What is kept, and what that is for all readers together. Changes that are not merged yet count one by one.
    pub(crate) fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        for stretch in self.stretches.values().rev() {
            waiting.kept += stretch.content.merged.len() + stretch.content.unmerged;
            waiting.pending += waiting.kept * stretch.readers;
        }
        waiting
    }

    fn from(&self, position: Position) -> impl Iterator<Item = &Arc<Content<T>>> {
        self.stretches.range(position..).map(|(_, stretch)| &stretch.content)
    }

    /// Stretches, and entries and unmerged changes in them.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let contents = self.stretches.values().map(|stretch| &stretch.content);
        (self.stretches.len(), contents.map(|content| content.merged.len() + content.unmerged).sum())
    }
}

impl<T: Object> Content<T> {
    fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.merged.len() == 0
    }

    fn push(&mut self, batch: Arc<Batch<T>>) {
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

    /// The one batch that this is, if no key is in it twice: then there is nothing to merge.
    fn single(&self) -> Option<&Batch<T>> {
        match self.rest.as_slice() {
            [batch] if batch.distinct && self.merged.len() == 0 => Some(batch),
            _ => None,
        }
    }
}

/// The deltas that lead over these stretches.
pub(crate) fn deltas<T: Object>(contents: Vec<Arc<Content<T>>>) -> Vec<Delta<T>> {
    if let [content] = contents.as_slice()
        && let Some(batch) = content.single()
    {
        return batch.changes.iter().flat_map(crate::indexer::Change::deltas).collect();
    }
    merge(contents).drain()
}

fn merge<T: Object>(contents: Vec<Arc<Content<T>>>) -> DeltaFifo<T> {
    let mut contents = contents.into_iter();
    let mut first = contents.next().map(Arc::unwrap_or_clone).unwrap_or_default();
    contents.for_each(|content| first.absorb(&content));
    first.merge();
    first.merged
}
