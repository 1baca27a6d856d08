//! The outcome of a commit whose reply was lost: searches later commits for its stamp. First among the
//! changes of a key that the commit writes, which are few; if they do not decide, among all commits.

use super::note::Stamp;
use super::{Etcd, txn};
use crate::limits::ETCD_CALL;
use crate::storage::{Commit, CommitError, Guard, Outcome, Raw, ReadError, Storage as _};
use kstore_proto::etcd::etcdserverpb::RangeRequest;

/// The result of a search.
enum Search {
    /// The commit was executed, at this revision.
    Found(i64),
    /// The commit was not executed.
    Absent,
    /// The searched changes do not decide.
    Undecided,
}

impl Etcd {
    /// The outcome of a commit whose guards failed after an earlier attempt got no reply: that attempt may
    /// have changed the guarded keys. The first attempt was made after revision `since`.
    pub(super) async fn outcome_after_lost_reply(
        &self,
        commit: &Commit,
        stamp: Stamp,
        since: i64,
        lost: txn::TxnOutcome,
    ) -> Result<Outcome, CommitError> {
        match lost.last {
            Some((note, revision)) if note.stamp == stamp => return Ok(Outcome::Committed { revision }),
            // Nothing was committed since the first attempt.
            Some((_, revision)) if revision <= since => return Ok(lost.outcome),
            None => return Ok(lost.outcome),
            Some(_) => {}
        }
        let searched = async {
            match self.search_key(commit, stamp, since, &lost.outcome).await? {
                Search::Undecided => self.search_all(stamp, since, lost.revision).await,
                decided @ (Search::Found(_) | Search::Absent) => Ok(decided),
            }
        };
        match tokio::time::timeout(ETCD_CALL, searched).await {
            Ok(Ok(Search::Found(revision))) => Ok(Outcome::Committed { revision }),
            Ok(Ok(Search::Absent | Search::Undecided)) => Ok(lost.outcome),
            Ok(Err(error)) => Err(CommitError::Unknown(error.to_string())),
            Err(_) => Err(CommitError::Unknown("the search for the commit timed out".into())),
        }
    }

    /// Searches the changes of a guarded key that the commit writes, from the newest back to its guard's
    /// revision.
    async fn search_key(
        &self,
        commit: &Commit,
        stamp: Stamp,
        since: i64,
        lost: &Outcome,
    ) -> Result<Search, ReadError> {
        let Some((guard, now)) = written(commit, lost) else { return Ok(Search::Undecided) };
        let mut revision = now.revision;
        while revision > since && revision > guard.revision {
            if self.is_stamped(stamp, revision).await? {
                return Ok(Search::Found(revision));
            }
            match self.get(&guard.key, revision - 1).await? {
                Some(before) => revision = before.revision,
                // The key was absent for a while: the commit may have written it before it was deleted.
                None => return Ok(Search::Undecided),
            }
        }
        Ok(Search::Absent)
    }

    async fn is_stamped(&self, stamp: Stamp, revision: i64) -> Result<bool, ReadError> {
        let request = RangeRequest { key: self.keys.note(), revision, ..Default::default() };
        let found = self.range(request).await?.kvs.into_iter().next();
        let note = found.filter(|kv| kv.mod_revision == revision).and_then(|kv| self.keys.note_of(&kv));
        Ok(note.is_some_and(|note| note.stamp == stamp))
    }

    /// Searches all commits after `since` up to `until`.
    async fn search_all(&self, stamp: Stamp, since: i64, until: i64) -> Result<Search, ReadError> {
        let mut revision = until;
        // From the newest note back to the one before it, and so on: each commit overwrites the note.
        while revision > since {
            let request = RangeRequest { key: self.keys.note(), revision, ..Default::default() };
            let found = self.range(request).await?.kvs.into_iter().next();
            let Some(kv) = found.filter(|kv| kv.mod_revision > since) else { return Ok(Search::Absent) };
            if self.keys.note_of(&kv).is_some_and(|note| note.stamp == stamp) {
                return Ok(Search::Found(kv.mod_revision));
            }
            revision = kv.mod_revision - 1;
        }
        Ok(Search::Absent)
    }
}

/// A guard whose key the commit writes and that exists now, with its current value.
fn written<'a>(commit: &'a Commit, lost: &'a Outcome) -> Option<(&'a Guard, &'a Raw)> {
    let Outcome::Lost { current } = lost else { return None };
    let guards = commit.guards.iter().zip(current);
    guards
        .filter(|(guard, _)| txn::writes(commit, &guard.key))
        .find_map(|(guard, now)| Some((guard, now.as_ref()?)))
}
