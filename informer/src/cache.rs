//! The cache of an informer: objects with typed indexes, in persistent containers, so that a view never changes.
//!
//! `indexer` is the cache, over `objects` (found by hash in `table`, ordered by key in `order`) and `index`. `slots` and
//! `sorted` are its persistent containers. `view` is what readers get, `history` undoes changes for views of the past.
//! Not here: how changes arrive (`reflector`), and how readers learn of them (`subscription`).

pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod indexer;
mod objects;
mod order;
mod slots;
mod sorted;
mod table;
pub(crate) mod view;
