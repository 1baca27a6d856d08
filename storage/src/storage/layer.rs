//! Storages that wrap another one: methods that a [`Layer`] does not override are forwarded. For metrics, and
//! for tests that need a storage which loses replies or has concurrent writers.

use super::{Commit, CommitError, KeyVersions, Outcome, Page, Raw, RawWatch, ReadError, Storage};
use crate::restart::TaskRestarts;
use async_trait::async_trait;

/// A storage that overrides some methods and forwards the others to [`Layer::inner`]. Every layer is a
/// [`Storage`].
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    /// The wrapped storage.
    fn inner(&self) -> &dyn Storage;

    /// Overrides [`Storage::get`].
    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        self.inner().get(key, revision).await
    }

    /// Overrides [`Storage::list`].
    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        self.inner().list(start, end, limit, revision).await
    }

    /// Overrides [`Storage::commit`].
    async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        self.inner().commit(commit).await
    }

    /// Overrides [`Storage::commit_each`]. Each commit passes [`Layer::commit`], so that a layer that changes or counts commits does so
    /// here, too; a layer that can do that for several at once overrides this one as well.
    async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        super::one_by_one(commits, |commit| self.commit(commit)).await
    }

    /// Overrides [`Storage::watch`].
    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        self.inner().watch(prefix, after).await
    }

    /// Overrides [`Storage::versions`].
    async fn versions(&self, key: &str, before: i64, limit: usize) -> Result<KeyVersions, ReadError> {
        self.inner().versions(key, before, limit).await
    }

    /// Overrides [`Storage::has_healthy_keys`].
    fn has_healthy_keys(&self) -> Option<bool> {
        self.inner().has_healthy_keys()
    }

    /// Overrides [`Storage::is_stale`].
    async fn is_stale(&self, key: &str) -> Result<bool, ReadError> {
        self.inner().is_stale(key).await
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

    async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        Layer::commit_each(self, commits).await
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        Layer::watch(self, prefix, after).await
    }

    async fn versions(&self, key: &str, before: i64, limit: usize) -> Result<KeyVersions, ReadError> {
        Layer::versions(self, key, before, limit).await
    }

    fn has_healthy_keys(&self) -> Option<bool> {
        Layer::has_healthy_keys(self)
    }

    async fn is_stale(&self, key: &str) -> Result<bool, ReadError> {
        Layer::is_stale(self, key).await
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::embedded::Embedded;
    use crate::storage::{SharedStorage, Write};
    use kstore_nondet::Nondet;
    use kstore_store::{Config, Store};
    use std::sync::Arc;

    /// A layer that fails single commits.
    struct GroupsOnly(Embedded);

    #[async_trait]
    impl Layer for GroupsOnly {
        fn inner(&self) -> &dyn Storage {
            &self.0
        }

        async fn commit(&self, _: Commit) -> Result<Outcome, CommitError> {
            Err(CommitError::Failed("it came alone".to_owned()))
        }

        async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
            self.0.commit_each(commits).await
        }
    }

    /// Groups were executed commit by commit, since layers did not forward them.
    #[tokio::test]
    async fn groups_of_commits_pass_layers_as_groups() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let layered: SharedStorage = Arc::new(GroupsOnly(Embedded::new(store)));
        let commit = |n: usize| {
            let writes = vec![Write::Put {
                key: format!("/registry/configmaps/ns/{n}"),
                value: "{}".into(),
                ttl_seconds: 0,
            }];
            Commit { writes, ..Commit::default() }
        };
        let outcomes = layered.commit_each((0..3).map(commit).collect()).await;
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Committed { .. }))),
            "{outcomes:?}"
        );
    }
}
