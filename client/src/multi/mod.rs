//! [`MultiSource`]: one watch stream for the informers of several kinds, so that their caches advance through
//! the same revisions. A task (`pump`) reads the stream; `table` decides the next step.

mod inbox;
mod part;
mod pump;
mod table;
#[cfg(test)]
mod tests;

use crate::typed::Kind;
use crate::{Client, Obj, Source, WatchParams};
use kstore_informer::Object;
use kstore_proto::ProgressDemand;
use kstore_proto::kstore::v1 as pb;
use parking_lot::Mutex;
pub use part::SourcePart;
use std::sync::Arc;
use table::Table;
use tokio::sync::Notify;

/// A shared watch stream for several informers. Cheap to clone; clones add to the same stream.
///
/// Each part is the source of one informer. The stream opens when the informers of **all** parts have
/// requested it, so start them all before waiting for one of them. The parts then advance through the same
/// revisions: a part without changes of its own objects receives the progress of the stream at once if a
/// reader waits for it ([`ListerWatcher::demand`]), and otherwise merged and later, so that a change of one
/// part wakes no other. Informers over one multi source can therefore wait for each other's revisions without
/// a request to the server.
///
/// [`ListerWatcher::demand`]: kstore_informer::ListerWatcher::demand
///
/// - A failure of the stream affects all parts. They resume together from the oldest revision of any part. If
///   one part needs the full state, the others get the error that their revision has expired, and all list
///   again.
/// - A part added while the stream runs makes all parts list again, so add all parts first. A dropped part
///   leaves the stream.
/// - Each part has a buffer of at most [`MULTI_BUFFER`] events. When it is full, the slowest part delays all
///   others, and in the end the server closes the stream as for any slow reader.
/// - The stream is one request to the server: the user needs permission to watch every kind. The server bounds
///   the number of kinds and refuses a stream with more.
///
/// [`MULTI_BUFFER`]: crate::limits::MULTI_BUFFER
#[derive(Clone)]
pub struct MultiSource {
    client: Client,
    shared: Arc<Shared>,
}

/// The state that parts and pump share. The lock is never held across an await.
struct Shared {
    table: Mutex<Table>,
    /// Notified when the table changes.
    changed: Notify,
    /// The newest revision that a reader of any part waits for.
    demand: ProgressDemand,
}

impl Client {
    /// A shared watch stream for the informers of several kinds: a [`MultiSource`].
    pub fn multi(&self) -> MultiSource {
        let table = Mutex::new(Table::new(self.progress_every() / 2));
        let shared = Shared { table, changed: Notify::new(), demand: ProgressDemand::default() };
        MultiSource { client: self.clone(), shared: Arc::new(shared) }
    }
}

impl MultiSource {
    /// A part with whole objects of a type.
    pub fn source<K: Kind>(&self, params: WatchParams) -> SourcePart<Obj<K>> {
        self.part(self.client.api::<K>().source(params))
    }

    /// A part with objects of a type without their `metadata.managedFields`, which are skipped and cost neither
    /// time nor memory. An object that is written back without them keeps them.
    pub fn trimmed<K: Kind>(&self, params: WatchParams) -> SourcePart<Obj<K>> {
        self.part(self.client.api::<K>().trimmed(params))
    }

    /// A part with objects of a type that hold only selected data: `decode` gets the JSON of each.
    pub fn project<K: Kind, T: Object, E: std::fmt::Display + 'static>(
        &self,
        params: WatchParams,
        decode: fn(&[u8]) -> Result<T, E>,
    ) -> SourcePart<T> {
        self.part(self.client.api::<K>().project(params, decode))
    }

    /// A source for one informer on this shared stream, with the selectors of `source`. It watches as this client's user,
    /// not as that of the source.
    pub fn part<T: Object>(&self, source: Source<T>) -> SourcePart<T> {
        SourcePart::new(self.client.clone(), self.shared.clone(), source)
    }
}

/// The watch selectors of one part.
type Selectors = Vec<pb::WatchSelector>;
