//! Fenced writes, which must not be committed after the writer's leadership term: the Lease's revision is one
//! more guard of the commit.

use super::Registry;
use crate::entry::Entry;
use crate::error;
use crate::fence::{Fence, leases};
use kstore_api::status::Status;
use kstore_storage::storage::{Commit, Guard, Outcome, Raw};

impl Registry {
    /// Checks that the fence's term holds now; 409 if it has ended.
    pub async fn check_fence(&self, fence: &Fence) -> Result<(), Status> {
        self.lease_revision(fence).await.map(drop)
    }

    /// Commits if the leadership term still holds at the revision of the commit; 409 if it has ended. After a
    /// concurrent renewal, the Lease is checked again and the commit repeated.
    pub(super) async fn commit_fenced(&self, commit: Commit, fence: &Fence) -> Result<Outcome, Status> {
        let mut revision = self.lease_revision(fence).await?;
        // Each further round means that a write to the Lease was committed; the request's time limit bounds
        // the rounds.
        loop {
            let mut commit = commit.clone();
            commit.guards.push(Guard { key: fence.key(), revision });
            let expected: Vec<_> = commit.guards.iter().map(|guard| guard.revision).collect();
            let mut current = match self.cache().storage().commit(commit).await.map_err(error::of_commit)? {
                Outcome::Lost { current } => current,
                committed @ Outcome::Committed { .. } => return Ok(committed),
            };
            let lease = current.pop().flatten();
            revision = lease_revision(fence, lease.as_ref())?;
            let kept = |(now, expected): (&Option<Raw>, &i64)| {
                now.as_ref().map_or(0, |raw| raw.revision) == *expected
            };
            if !current.iter().zip(&expected).all(kept) {
                return Ok(Outcome::Lost { current });
            }
        }
    }

    /// The revision of the Lease if the term holds. The cache may be stale, so a refusal counts only on
    /// current state. A wrong consent is found by the commit's guard.
    async fn lease_revision(&self, fence: &Fence) -> Result<i64, Status> {
        let cached = || {
            let lease = self.cache().get(leases(), &fence.key())?;
            fence.holds(Some(&lease.parse())).then_some(lease.revision)
        };
        if let Some(revision) = cached() {
            return Ok(revision);
        }
        self.fresh().await?;
        cached().ok_or_else(|| fence.broken())
    }
}

fn lease_revision(fence: &Fence, lease: Option<&Raw>) -> Result<i64, Status> {
    let entry = lease.map(|raw| Entry::from_raw(leases(), raw)).transpose();
    let entry = entry.map_err(|error| Status::internal(format!("a stored lease cannot be read: {error}")))?;
    match lease {
        Some(raw) if fence.holds(entry.map(|entry| entry.parse()).as_ref()) => Ok(raw.revision),
        _ => Err(fence.broken()),
    }
}
