//! [`CommitGroup`]: commits of requests that run at the same time in one task. The storage executes those that wait together, each at a
//! revision of its own.

use super::{Commit, CommitError, Outcome, Storage, Write};
use crate::limits::{GROUP_BYTES, GROUP_COMMIT_BYTES, GROUP_COMMIT_KEYS, GROUP_COMMITS};
use futures::StreamExt as _;
use futures::future::poll_fn;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// The commits of the members of a group that wait for the storage. Shared by `Arc`.
#[derive(Debug, Default)]
pub struct CommitGroup(Mutex<Vec<WaitingCommit>>);

#[derive(Debug)]
struct WaitingCommit {
    commit: Commit,
    done: oneshot::Sender<Result<Outcome, CommitError>>,
}

impl CommitGroup {
    /// A group without commits.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Executes a commit of a member, together with those of other members that wait. Only members of [`CommitGroup::run`] may call it:
    /// nothing else executes what waits.
    ///
    /// # Errors
    /// Those of [`Storage::commit`]; those of other commits of the group do not matter.
    pub async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
        let (done, outcome) = oneshot::channel();
        self.0.lock().push(WaitingCommit { commit, done });
        let lost = |_| Err(CommitError::Unknown("the task of the group has ended".to_owned()));
        outcome.await.unwrap_or_else(lost)
    }

    /// Runs the members of the group to their end, and returns their results in order.
    ///
    /// Commits are executed as soon as no member can go on without them. So a member may wait for another one, for example for its lock:
    /// the other one's commit does not wait for the first.
    pub async fn run<F: Future>(&self, storage: &dyn Storage, members: Vec<F>) -> Vec<F::Output> {
        let mut results: Vec<Option<F::Output>> = members.iter().map(|_| None).collect();
        let numbered = members.into_iter().enumerate();
        let mut running: FuturesUnordered<_> =
            numbered.map(|(index, member)| async move { (index, member.await) }).collect();
        let mut executing = FuturesUnordered::new();
        let all = poll_fn(|cx| {
            loop {
                while let Poll::Ready(next) = running.poll_next_unpin(cx) {
                    match next {
                        Some((index, result)) => results[index] = Some(result),
                        None => return Poll::Ready(()),
                    }
                }
                for batch in batches(std::mem::take(&mut *self.0.lock())) {
                    executing.push(execute(storage, batch));
                }
                let Poll::Ready(Some(())) = executing.poll_next_unpin(cx) else { return Poll::Pending };
            }
        });
        // The members together may use more of tokio's budget for one task than there is. Then those that are left would wait although
        // nothing keeps them, and commit later than the others.
        tokio::task::unconstrained(all).await;
        results.into_iter().map(|result| result.expect("all members have ended")).collect()
    }
}

/// The batches in which commits are executed, in their order. A large commit is a batch of its own.
fn batches(waiting: Vec<WaitingCommit>) -> Vec<Vec<WaitingCommit>> {
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for one in waiting {
        let size = bytes_of(&one.commit);
        let is_large = size > GROUP_COMMIT_BYTES
            || one.commit.guards.len().max(one.commit.writes.len()) > GROUP_COMMIT_KEYS;
        if is_large || bytes + size > GROUP_BYTES || batch.len() == GROUP_COMMITS {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes += size;
        batch.push(one);
        if is_large {
            batches.push(std::mem::take(&mut batch));
            bytes = 0;
        }
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    batches
}

fn bytes_of(commit: &Commit) -> usize {
    let of = |write: &Write| match write {
        Write::Put { key, value, .. } => key.len() + value.len(),
        Write::Delete { key } => key.len(),
    };
    commit.note.len() + commit.writes.iter().map(of).sum::<usize>()
}

async fn execute(storage: &dyn Storage, batch: Vec<WaitingCommit>) {
    let (commits, waiting): (Vec<_>, Vec<_>) = batch.into_iter().map(|one| (one.commit, one.done)).unzip();
    let outcomes = match <[Commit; 1]>::try_from(commits) {
        Ok([commit]) => vec![storage.commit(commit).await],
        Err(commits) => execute_together(storage, commits).await,
    };
    for (done, outcome) in waiting.into_iter().zip(outcomes) {
        // The member may have ended, at its time limit.
        let _ = done.send(outcome);
    }
}

/// Executes several commits. If the storage refuses all of them, one may be the reason, such as an object that cannot be encrypted: then
/// each is executed alone.
async fn execute_together(storage: &dyn Storage, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
    let outcomes = storage.commit_each(commits.clone()).await;
    let is_refused = |outcome: &Result<Outcome, CommitError>| {
        matches!(outcome, Err(CommitError::TooLarge(_) | CommitError::Failed(_)))
    };
    if !outcomes.iter().all(is_refused) {
        return outcomes;
    }
    super::one_by_one(commits, |commit| storage.commit(commit)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::embedded::Embedded;
    use crate::storage::{Guard, Layer};
    use async_trait::async_trait;
    use kstore_nondet::Nondet;
    use kstore_store::{Config, Store};
    use proptest::prelude::*;

    /// A storage that records how many commits it was given at once, and refuses some keys with all that came along.
    struct Recording {
        inner: Embedded,
        refused: Option<String>,
        calls: Mutex<Vec<usize>>,
    }

    impl Recording {
        async fn new(refused: Option<&str>) -> Self {
            let inner = Embedded::new(Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap());
            Self { inner, refused: refused.map(str::to_owned), calls: Mutex::default() }
        }

        fn refuses(&self, commits: &[Commit]) -> bool {
            commits.iter().any(|commit| Some(&commit.guards[0].key) == self.refused.as_ref())
        }
    }

    #[async_trait]
    impl Layer for Recording {
        fn inner(&self) -> &dyn Storage {
            &self.inner
        }

        async fn commit(&self, commit: Commit) -> Result<Outcome, CommitError> {
            self.calls.lock().push(1);
            match self.refuses(std::slice::from_ref(&commit)) {
                true => Err(CommitError::Failed("it cannot be encrypted".to_owned())),
                false => self.inner.commit(commit).await,
            }
        }

        async fn commit_each(&self, commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
            self.calls.lock().push(commits.len());
            match self.refuses(&commits) {
                true => vec![Err(CommitError::Failed("it cannot be encrypted".to_owned())); commits.len()],
                false => self.inner.commit_each(commits).await,
            }
        }
    }

    fn put(key: &str, revision: i64, bytes: usize) -> Commit {
        let (key, value) = (key.to_owned(), vec![b'x'; bytes].into());
        let guards = vec![Guard { key: key.clone(), revision }];
        Commit { guards, writes: vec![Write::Put { key, value, ttl_seconds: 0 }], note: Vec::new().into() }
    }

    /// The revision of a commit; 0 if it lost, -1 if it was refused.
    fn revision(outcome: &Result<Outcome, CommitError>) -> i64 {
        match outcome {
            Ok(Outcome::Committed { revision }) => *revision,
            Ok(Outcome::Lost { .. }) => 0,
            Err(_) => -1,
        }
    }

    #[tokio::test]
    async fn commits_of_members_are_one_group_with_a_revision_each_and_a_lost_one_fails_alone() {
        let storage = Recording::new(None).await;
        let group = CommitGroup::new();
        let one = async |n: i64| group.commit(put(&format!("/k{n}"), if n == 3 { 99 } else { 0 }, 10)).await;
        let outcomes = group.run(&storage, (0..6).map(one).collect()).await;
        let revisions: Vec<i64> = outcomes.iter().map(revision).collect();
        let first = revisions[0];
        assert_eq!(revisions, [first, first + 1, first + 2, 0, first + 3, first + 4]);
        assert_eq!(*storage.calls.lock(), [6]);
    }

    #[tokio::test]
    async fn a_member_that_waits_for_another_one_keeps_no_commit_waiting() {
        let storage = Recording::new(None).await;
        let group = CommitGroup::new();
        let lock = tokio::sync::Mutex::new(());
        let one = async |n: usize| {
            let _turn = lock.lock().await;
            group.commit(put(&format!("/k{n}"), 0, 10)).await
        };
        let outcomes = group.run(&storage, (0..4).map(one).collect()).await;
        assert!(outcomes.iter().all(|outcome| revision(outcome) > 0), "{outcomes:?}");
        assert_eq!(*storage.calls.lock(), [1, 1, 1, 1], "they take turns");
    }

    #[tokio::test]
    async fn a_commit_that_makes_the_storage_refuse_all_fails_alone() {
        let storage = Recording::new(Some("/k1")).await;
        let group = CommitGroup::new();
        let one = async |n: usize| group.commit(put(&format!("/k{n}"), 0, 10)).await;
        let outcomes = group.run(&storage, (0..3).map(one).collect()).await;
        let refused: Vec<bool> = outcomes.iter().map(|outcome| revision(outcome) == -1).collect();
        assert_eq!(refused, [false, true, false]);
    }

    #[tokio::test]
    async fn members_without_a_commit_end_as_well() {
        let storage = Recording::new(None).await;
        let results = CommitGroup::new().run(&storage, (0..3).map(async |n: usize| n).collect()).await;
        assert_eq!(results, [0, 1, 2]);
        assert!(CommitGroup::new().run(&storage, Vec::<std::future::Ready<()>>::new()).await.is_empty());
    }

    proptest! {
        #[test]
        fn batches_keep_the_order_and_the_bounds(sizes in prop::collection::vec((0usize..100_000, 1usize..24), 0..200)) {
            let waiting: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(n, (bytes, keys))| {
                    let mut commit = put(&format!("/{n}"), 0, *bytes);
                    commit.guards.resize(*keys, commit.guards[0].clone());
                    WaitingCommit { commit, done: oneshot::channel().0 }
                })
                .collect();
            let batches = batches(waiting);
            let keys: Vec<_> = batches.iter().flatten().map(|one| one.commit.guards[0].key.clone()).collect();
            prop_assert_eq!(keys, (0..sizes.len()).map(|n| format!("/{n}")).collect::<Vec<_>>());
            for batch in batches.iter().filter(|batch| batch.len() > 1) {
                prop_assert!(batch.len() <= GROUP_COMMITS);
                prop_assert!(batch.iter().map(|one| bytes_of(&one.commit)).sum::<usize>() <= GROUP_BYTES);
                prop_assert!(batch.iter().all(|one| bytes_of(&one.commit) <= GROUP_COMMIT_BYTES
                    && one.commit.guards.len() <= GROUP_COMMIT_KEYS));
            }
            prop_assert!(batches.iter().all(|batch| !batch.is_empty()));
        }
    }
}
