//! [`ServerImage`]: a server's memory of its storage, from which servers over copies of that storage can
//! start.

use super::{ServerMemory, StartError, Task};
use crate::rest::{Documents, Rest};
use kstore_access::authz::{Authorizer, AuthorizerImage};
use kstore_pipeline::pipeline::Pipeline;
use kstore_registry::cache::{Cache, CacheImage};
use kstore_registry::provenance::Provenance;
use kstore_storage::metrics::Metrics;
use kstore_storage::storage::{RawBatch, SharedStorage};
use std::sync::Arc;

/// An API server's memory of its storage at one revision. Immutable; any number of servers can start from it,
/// on any runtime. Obtained by [`super::ApiServer::image`].
pub struct ServerImage {
    cache: CacheImage,
    provenance: Provenance,
    /// The revision up to which `provenance` is complete; it may be ahead of the cache's revision.
    observed: i64,
    authorizer: AuthorizerImage,
    documents: Arc<Documents>,
}

impl std::fmt::Debug for ServerImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerImage").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

impl ServerImage {
    pub(super) fn of(origin: &Pipeline, rest: &Rest) -> Self {
        // Copied before the cache, so that they contain nothing newer than its revision: another server may
        // reach the next revision with other roles and definitions.
        let (authorizer, documents) = (origin.authorizer().image(), rest.documents());
        let cache = origin.cache().image();
        // Copied after the cache, so that it covers all revisions of the cache: a batch is observed before
        // the cache shows it.
        let (provenance, observed) = origin.provenance().fork();
        Self { cache, provenance, observed, authorizer, documents }
    }

    /// Discovery and OpenAPI documents of the original server.
    pub(super) fn documents(&self) -> &Documents {
        &self.documents
    }

    /// The revision of the image: storages to start from it must have at least this revision.
    pub fn revision(&self) -> i64 {
        self.cache.revision()
    }

    /// The same memory at a later revision, for a storage that has the same objects there and no history before it; the causes of earlier
    /// writes are left out.
    #[must_use]
    pub fn moved_to(&self, revision: i64) -> Self {
        Self {
            cache: self.cache.moved_to(revision),
            provenance: self.provenance.emptied(),
            observed: revision,
            authorizer: self.authorizer.clone(),
            documents: self.documents.clone(),
        }
    }

    /// The memory of a server that starts from this image, and the task that keeps it up to date.
    pub(super) async fn memory(
        &self,
        storage: SharedStorage,
        metrics: Arc<Metrics>,
    ) -> Result<(ServerMemory, Task), StartError> {
        let provenance = Arc::new(self.provenance.fork().0);
        let (observer, observed) = (provenance.clone(), self.observed);
        let observe = move |batch: &RawBatch| {
            if batch.revision > observed {
                observer.observe(batch);
            }
        };
        let (cache, follow) = Cache::from_image(&self.cache, storage, metrics, observe).await?;
        Ok((ServerMemory { cache, provenance }, Box::pin(follow)))
    }

    pub(super) fn authorizer(&self, cache: Arc<Cache>) -> Authorizer {
        self.authorizer.over(cache)
    }
}
