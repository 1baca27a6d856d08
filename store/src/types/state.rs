//! The durable state of a store apart from its keys and history: what a manifest and a snapshot say beside them.

use crate::types::alarm::Alarms;
use crate::types::commit::{Commit, LeaseChange};
use crate::{LeaseId, Revision};
use std::collections::BTreeMap;

/// The state after a commit, apart from keys and history. It follows from the commits alone: replaying them gives the
/// same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DurableState {
    /// Sequence number of the newest commit in the log.
    pub(crate) seq: u64,
    pub(crate) revision: Revision,
    pub(crate) compacted: Revision,
    pub(crate) alarms: Alarms,
    /// The granted leases with their times to live in seconds. Their deadlines and keys are not durable by themselves:
    /// a lease gets its full time at a start, and a version names its lease.
    pub(crate) leases: BTreeMap<LeaseId, i64>,
}

impl Default for DurableState {
    /// The state of an empty store.
    fn default() -> Self {
        Self {
            seq: 0,
            revision: Revision::FIRST,
            compacted: Revision::NEVER_COMPACTED,
            alarms: Alarms::default(),
            leases: BTreeMap::new(),
        }
    }
}

impl DurableState {
    /// Applies the next commit.
    pub(crate) fn apply(&mut self, commit: &Commit) {
        self.seq = commit.seq;
        self.revision = commit.revision;
        self.compacted = commit.compacted.unwrap_or(self.compacted);
        self.alarms = commit.alarms.unwrap_or(self.alarms);
        for change in &commit.leases {
            match *change {
                LeaseChange::Granted(id, ttl) => self.leases.insert(id, ttl),
                LeaseChange::Gone(id) => self.leases.remove(&id),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Alarm;
    use crate::types::alarm::AlarmChange;

    #[test]
    fn a_commit_changes_what_it_names_and_nothing_else() {
        let alarms = Alarms::default().after(AlarmChange::Raise(Alarm::Corrupt));
        let leases = vec![LeaseChange::Granted(LeaseId(7), 60), LeaseChange::Granted(LeaseId(8), 5)];
        let mut state = DurableState::default();
        state.apply(&Commit { seq: 1, revision: Revision(1), leases, ..Commit::default() });
        let granted = DurableState {
            seq: 1,
            leases: [(LeaseId(7), 60), (LeaseId(8), 5)].into(),
            ..DurableState::default()
        };
        assert_eq!(state, granted);
        let (compacted, leases) = (Some(Revision(2)), vec![LeaseChange::Gone(LeaseId(8))]);
        let commit = Commit { seq: 2, revision: Revision(2), compacted, leases, ..Commit::default() };
        state.apply(&commit);
        state.apply(&Commit { seq: 3, revision: Revision(2), alarms: Some(alarms), ..Commit::default() });
        let (revision, compacted) = (Revision(2), Revision(2));
        let leases = [(LeaseId(7), 60)].into();
        assert_eq!(state, DurableState { seq: 3, revision, compacted, alarms, leases });
    }
}
