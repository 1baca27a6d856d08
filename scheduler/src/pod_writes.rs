//! One write per pod at a time, in order, so that a condition "unschedulable" and the bind after it cannot
//! change places. Writes of different pods do not wait for each other. Pure: this file only orders writes and
//! does not send them.

use crate::pod::Uid;
use std::collections::BTreeMap;

/// The pods with a write in flight, and the next write of each.
#[derive(Debug)]
pub(crate) struct PodWrites<W>(BTreeMap<Uid, Option<W>>);

impl<W> Default for PodWrites<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W> PodWrites<W> {
    /// Returns `write` if it may start. Otherwise keeps it until the pod's current write has finished and
    /// drops an older kept write: only the newest matters.
    pub(crate) fn enter(&mut self, uid: &Uid, write: W) -> Option<W> {
        match self.0.get_mut(uid) {
            Some(next) => {
                *next = Some(write);
                None
            }
            None => {
                self.0.insert(uid.clone(), None);
                Some(write)
            }
        }
    }

    /// Records that the pod's write has finished. Returns the write that may start now.
    pub(crate) fn leave(&mut self, uid: &Uid) -> Option<W> {
        let next = self.0.get_mut(uid)?.take();
        if next.is_none() {
            self.0.remove(uid);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_one_write_in_flight_and_only_the_newest_is_queued() {
        let mut pod_writes = PodWrites::default();
        let (a, b): (Uid, Uid) = ("a".into(), "b".into());
        assert_eq!(pod_writes.enter(&a, 1), Some(1));
        assert_eq!(pod_writes.enter(&a, 2), None);
        assert_eq!(pod_writes.enter(&a, 3), None);
        assert_eq!(pod_writes.enter(&b, 9), Some(9));
        assert_eq!(pod_writes.leave(&a), Some(3));
        assert_eq!(pod_writes.enter(&a, 4), None);
        assert_eq!(pod_writes.leave(&a), Some(4));
        assert_eq!(pod_writes.leave(&a), None);
        assert_eq!(pod_writes.enter(&a, 5), Some(5));
    }
}
