//! Progress of a watch stream: decides when the stream may report that all its watches have received everything up to a
//! revision. Pure: the session reports what the watches delivered, and gets the watches to query.
//!
//! Every watch covers the reported revision, and it is not below anything that the stream has sent: clients take it for
//! the current revision, which must not go back.

use kstore_store::Revision;
use std::collections::BTreeMap;

/// Progress of one watch.
#[derive(Debug)]
struct WatchProgress {
    /// The revision up to which everything has been sent.
    reached: Revision,
    /// Whether the watch was queried and has not answered.
    is_requested: bool,
}

/// Progress of all watches of one stream.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    watches: BTreeMap<i64, WatchProgress>,
    /// Number of watches that were queried and have not answered.
    outstanding: usize,
    /// The store's revision at the client's unanswered progress request.
    wanted: Option<Revision>,
    /// The store's revision at a further request meanwhile.
    later: Option<Revision>,
    /// Whether the client repeated its request since [`Progress::next`].
    again: bool,
    /// The newest revision sent.
    sent: Revision,
}

/// The session's next step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgressActions {
    /// The revision to report to the client.
    pub(crate) announce: Option<Revision>,
    /// Watches to query; each answers through [`Progress::answered`].
    pub(crate) ask: Vec<i64>,
}

impl Progress {
    /// Adds a watch that has nothing to send up to `reached`.
    pub(crate) fn add(&mut self, id: i64, reached: Revision) {
        self.watches.insert(id, WatchProgress { reached, is_requested: false });
    }

    /// Removes a watch.
    pub(crate) fn remove(&mut self, id: i64) {
        if self.watches.remove(&id).is_some_and(|watch| watch.is_requested) {
            self.outstanding -= 1;
        }
    }

    /// Handles a progress request while the store is at `current`. Without watches there is no response, as in etcd.
    pub(crate) fn request(&mut self, current: Revision) {
        if self.watches.is_empty() {
            return;
        }
        if self.wanted.is_some() {
            (self.later, self.again) = (Some(current), true);
        } else {
            self.wanted = Some(current);
        }
    }

    /// Notes that a watch's events up to `revision` are sent.
    pub(crate) fn sent(&mut self, id: i64, revision: Revision) {
        self.sent = self.sent.max(revision);
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.reached = revision;
        }
    }

    /// Notes that a watch has nothing to send up to `revision`.
    pub(crate) fn answered(&mut self, id: i64, revision: Revision) {
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.reached = revision;
            if std::mem::take(&mut watch.is_requested) {
                self.outstanding -= 1;
            }
        }
    }

    /// Decides what to do. Must be called after each change.
    pub(crate) fn next(&mut self) -> ProgressActions {
        let mut next = ProgressActions::default();
        if std::mem::take(&mut self.again) && self.outstanding > 0 {
            // A watch that starts in the future answers late; it is queried again at the client's pace.
            next.ask =
                self.watches.iter().filter(|(_, watch)| watch.is_requested).map(|(id, _)| *id).collect();
        }
        // While queried watches have not answered, checking the others gains nothing.
        while let Some(wanted) = self.wanted
            && self.outstanding == 0
        {
            let wanted = wanted.max(self.sent);
            let Some(least) = self.watches.values().map(|watch| watch.reached).min() else {
                (self.wanted, self.later) = (None, None);
                break;
            };
            if least < wanted {
                next.ask = self.behind(wanted);
                self.outstanding = next.ask.len();
            } else {
                self.sent = least;
                next.announce = Some(least);
                self.wanted = self.later.take().filter(|later| *later > least);
            }
        }
        next
    }

    fn behind(&mut self, wanted: Revision) -> Vec<i64> {
        let behind = self.watches.iter_mut().filter(|(_, watch)| watch.reached < wanted);
        behind
            .map(|(id, watch)| {
                watch.is_requested = true;
                *id
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(ids: &[i64]) -> ProgressActions {
        ProgressActions { announce: None, ask: ids.to_vec() }
    }

    fn announce(revision: i64) -> ProgressActions {
        ProgressActions { announce: Some(Revision(revision)), ask: Vec::new() }
    }

    #[test]
    fn progress_is_reported_once_all_lagging_watches_have_answered() {
        let mut progress = Progress::default();
        progress.add(1, Revision(5));
        progress.add(2, Revision(3));
        progress.add(3, Revision(4));
        progress.request(Revision(5));
        assert_eq!(progress.next(), ask(&[2, 3]));
        progress.answered(2, Revision(6));
        assert_eq!(progress.next(), ProgressActions::default());
        progress.answered(3, Revision(6));
        assert_eq!(progress.next(), announce(5));
        assert_eq!(progress.next(), ProgressActions::default());
    }

    #[test]
    fn progress_is_never_below_a_sent_event() {
        let mut progress = Progress::default();
        progress.add(1, Revision(5));
        progress.add(2, Revision(4));
        progress.request(Revision(5));
        assert_eq!(progress.next(), ask(&[2]));
        progress.sent(1, Revision(9));
        progress.answered(2, Revision(5));
        assert_eq!(progress.next(), ask(&[2]));
        progress.answered(2, Revision(9));
        assert_eq!(progress.next(), announce(9));
    }

    #[test]
    fn a_request_during_another_is_answered_after_it_unless_covered() {
        let mut progress = Progress::default();
        progress.add(1, Revision(1));
        progress.request(Revision(5));
        assert_eq!(progress.next(), ask(&[1]));
        progress.request(Revision(7));
        assert_eq!(progress.next(), ask(&[1]), "reminded");
        progress.answered(1, Revision(6));
        assert_eq!(progress.next(), ProgressActions { announce: Some(Revision(6)), ask: vec![1] });
        progress.request(Revision(7));
        progress.answered(1, Revision(8));
        assert_eq!(progress.next(), announce(8));
        assert_eq!(progress.next(), ProgressActions::default());
    }

    #[test]
    fn removed_watches_are_not_waited_for_and_without_watches_nothing_is_reported() {
        let mut progress = Progress::default();
        progress.request(Revision(5));
        assert_eq!(progress.next(), ProgressActions::default());
        progress.add(1, Revision(5));
        progress.add(2, Revision(1));
        progress.request(Revision(5));
        assert_eq!(progress.next(), ask(&[2]));
        progress.remove(2);
        assert_eq!(progress.next(), announce(5));
        progress.request(Revision(6));
        assert_eq!(progress.next(), ask(&[1]));
        progress.remove(1);
        assert_eq!(progress.next(), ProgressActions::default());
    }
}
