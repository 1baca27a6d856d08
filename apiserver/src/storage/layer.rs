//! Storages in front of another one: what a [`Layer`] does not say differently is passed on. For counting, and for tests that need
//! a storage which loses answers or is overtaken.

use super::{Commit, CommitError, Outcome, Page, Raw, RawWatch, ReadError, Storage};
use crate::restart::TaskRestarts;
use async_trait::async_trait;

/// A storage that does some things in its own way and leaves the rest to [`Layer::inner`]. It is a [`Storage`] by that.
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// The storage behind it.
    fn inner(&self) -> &dyn Storage;

    /// See [`Storage::get`].
    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        self.inner().get(key, revision).await
    }

    /// See [`Storage::list`].
    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        self.inner().list(start, end, limit, revision).await
    }

    /// See [`Storage::commit`].
    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        self.inner().commit(commit).await
    }

    /// See [`Storage::watch`].
    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        self.inner().watch(prefix, after).await
    }
}

#[async_trait]
impl<L: Layer> Storage for L {
    fn revision_here(&self) -> Option<i64> {
        self.inner().revision_here()
    }

    async fn revision(&self) -> Result<i64, ReadError> {
        self.inner().revision().await
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        Layer::get(self, key, revision).await
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        Layer::list(self, start, end, limit, revision).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        Layer::commit(self, commit).await
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        Layer::watch(self, prefix, after).await
    }

    fn is_healthy(&self) -> bool {
        self.inner().is_healthy()
    }

    fn task_restarts(&self) -> Option<TaskRestarts> {
        self.inner().task_restarts()
    }

    async fn close(&self) {
        self.inner().close().await;
    }
}
