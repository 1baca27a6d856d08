//! What became of a commit whose answer was lost: it is looked for in what has happened since, by its stamp. First among the
//! changes of a key that it would have written, which are few; where those do not tell, among all commits.

use super::note::Stamp;
use super::{Etcd, txn};
use crate::limits::ETCD_CALL;
use crate::storage::{Commit, CommitError, Guard, Outcome, Raw, ReadError, Storage as _};
use kstore_proto::etcd::etcdserverpb::RangeRequest;

/// Where a search ended.
enum Search {
    /// It was carried out, at this revision.
    Found(i64),
    /// It was not.
    Absent,
    /// What was searched does not tell.
    Open,
}

impl Etcd {
    /// What became of a commit that lost after an earlier attempt at it had no answer: the winner may have been that attempt.
    /// It was made after revision `since`.
    pub(super) async fn recognise(
        &self,
        commit: &Commit,
        stamp: Stamp,
        since: i64,
        lost: txn::Answer,
    ) -> Result<Outcome, CommitError> {
        match lost.last {
            Some((note, revision)) if note.stamp == stamp => return Ok(Outcome::Committed { revision }),
            // Nothing was committed since.
            Some((_, revision)) if revision <= since => return Ok(lost.outcome),
            None => return Ok(lost.outcome),
            Some(_) => {}
        }
        let searched = async {
            match self.search_key(commit, stamp, since, &lost.outcome).await? {
                Search::Open => self.search_all(stamp, since, lost.revision).await,
                told @ (Search::Found(_) | Search::Absent) => Ok(told),
            }
        };
        match tokio::time::timeout(ETCD_CALL, searched).await {
            Ok(Ok(Search::Found(revision))) => Ok(Outcome::Committed { revision }),
            Ok(Ok(Search::Absent | Search::Open)) => Ok(lost.outcome),
            Ok(Err(error)) => Err(CommitError::Unknown(error.to_string())),
            Err(_) => Err(CommitError::Unknown("too much has been written since".into())),
        }
    }

    /// Among the changes of a guarded key that the commit writes, from the newest back to the one that its guard names.
    async fn search_key(
        &self,
        commit: &Commit,
        stamp: Stamp,
        since: i64,
        lost: &Outcome,
    ) -> Result<Search, ReadError> {
        let Some((guard, now)) = written(commit, lost) else { return Ok(Search::Open) };
        let mut revision = now.revision;
        while revision > since && revision > guard.revision {
            if self.is_stamped(stamp, revision).await? {
                return Ok(Search::Found(revision));
            }
            match self.get(&guard.key, revision - 1).await? {
                Some(before) => revision = before.revision,
                // For a while there was none: it may have come, and gone, before.
                None => return Ok(Search::Open),
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

    /// Among all commits after `since` and up to `until`.
    async fn search_all(&self, stamp: Stamp, since: i64, until: i64) -> Result<Search, ReadError> {
        let mut revision = until;
        // From the newest note to the one before it, and so on: each was overwritten by the next.
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

/// A guard of a key that the commit writes and that is there now, as it is now.
fn written<'a>(commit: &'a Commit, lost: &'a Outcome) -> Option<(&'a Guard, &'a Raw)> {
    let Outcome::Lost { current } = lost else { return None };
    let guards = commit.guards.iter().zip(current);
    guards
        .filter(|(guard, _)| txn::writes(commit, &guard.key))
        .find_map(|(guard, now)| Some((guard, now.as_ref()?)))
}
