//! [`MultiSource`]: one watch stream that feeds the informers of many kinds, so that their caches move together through the
//! same revisions. The stream is read by a task of its own (`pump`); who is due what is decided in `table`.

mod inbox;
mod part;
mod pump;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kstore_informer::Object;
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use part::Part;

use crate::{Client, Obj, Source, WatchParams, typed::Kind};
use table::Table;

/// One stream for many informers. Cheap to clone; clones add to the same stream.
///
/// Each part is the source of one informer. The stream opens when the informer of **every** living part has asked for it, so
/// start them all before waiting for one of them. Then the parts advance in lockstep: every part hears of every revision
/// that the stream reaches, whether or not it changed anything of its own, so that informers over one multi source wait for
/// each other's revisions without a round trip.
///
/// - Whatever breaks the stream breaks it for all parts. They resume together from the oldest revision among them; if one
///   needs the whole state, the others are told that theirs has expired, and all begin anew together.
/// - A part that is added while the stream runs makes all begin anew, so add them first. A part that is dropped leaves.
/// - Frames wait in a buffer for each part, [`MULTI_BUFFER`] at most; then the slowest part holds up all others, and in the
///   end the server ends the stream as it does with any slow reader.
/// - All of it is one request to the server: who asks must be allowed to watch every kind in it, of which there may be
///   [`MAX_SELECTORS`].
///
/// [`MULTI_BUFFER`]: crate::limits::MULTI_BUFFER
/// [`MAX_SELECTORS`]: crate::limits::MAX_SELECTORS
#[derive(Clone)]
pub struct MultiSource {
    client: Client,
    shared: Arc<Shared>,
}

/// What parts and pump share. The lock is held for a few lines, never over an await.
struct Shared {
    table: Mutex<Table>,
    /// Rung when the table changed.
    changed: Notify,
}

impl Client {
    /// One stream for the informers of many kinds; see [`MultiSource`].
    pub fn multi(&self) -> MultiSource {
        let shared = Shared { table: Mutex::default(), changed: Notify::new() };
        MultiSource { client: self.clone(), shared: Arc::new(shared) }
    }
}

impl MultiSource {
    /// Whole objects of a type.
    pub fn source<K: Kind>(&self, params: WatchParams) -> Part<Obj<K>> {
        self.part(self.client.api::<K>().source(params))
    }

    /// Objects of a type that hold only what their reader needs: `decode` gets the JSON of each.
    pub fn project<K: Kind, T: Object, E: std::fmt::Display + 'static>(
        &self,
        params: WatchParams,
        decode: fn(&[u8]) -> Result<T, E>,
    ) -> Part<T> {
        self.part(self.client.api::<K>().project(params, decode))
    }

    /// What `source` would deliver on a stream of its own, as a part of this one. Its objects are asked for by this client,
    /// not by the source's.
    pub fn part<T: Object>(&self, source: Source<T>) -> Part<T> {
        Part::new(self.client.clone(), self.shared.clone(), source)
    }
}

/// What one part asks of the server.
type Selectors = Vec<pb::WatchSelector>;
