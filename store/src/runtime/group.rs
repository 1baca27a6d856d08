//! A group: the commits of several requests that are logged with one sync, and the answers that wait for that sync.

use crate::published::core::Core;
use crate::runtime::request::Response;
use crate::types::commit::{Commit, LeaseChange};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Commits that are logged with one sync, and the answers waiting for that sync. A request that changed nothing adds an
/// answer but no commit: its result depends on staged commits, so it is sent only after they are durable.
#[derive(Default)]
pub(crate) struct Group {
    /// Commits in ascending order of their sequence numbers.
    pub(crate) commits: Vec<Arc<Commit>>,
    /// Expiry of each lease that the commits grant, in the order of the grants.
    pub(crate) deadlines: Vec<Instant>,
    answers: Vec<(oneshot::Sender<Response>, Response)>,
    /// Approximate bytes that holding the group takes.
    bytes: usize,
}

/// Bytes counted for an answer. Its contents are not counted, since they are shared with the state.
const ANSWER_BYTES: usize = 256;

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.commits.is_empty()
    }

    /// Number of requests in the group.
    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an answer that is sent with this group. `first` is the index of the first commit that the request added.
    pub(crate) fn add_answer(&mut self, reply: oneshot::Sender<Response>, answer: Response, first: usize) {
        self.bytes += ANSWER_BYTES + self.commits[first..].iter().map(|commit| commit.cost()).sum::<usize>();
        self.answers.push((reply, answer));
    }

    /// Appends all commits and answers of a later group.
    pub(crate) fn append(&mut self, later: &mut Self) {
        if self.is_empty() {
            // The usual case; nothing is moved.
            std::mem::swap(self, later);
            return;
        }
        self.commits.append(&mut later.commits);
        self.deadlines.append(&mut later.deadlines);
        self.answers.append(&mut later.answers);
        self.bytes += std::mem::take(&mut later.bytes);
    }

    /// Makes the commits visible. Called when they are as durable as the configuration requires.
    pub(crate) fn publish(&mut self, core: &Core) {
        let revision = self.commits.last().map_or(0, |commit| commit.revision.0);
        let _span = tracing::debug_span!("group", step = "publish", revision).entered();
        core.publish(&self.commits);
        let mut deadlines = self.deadlines.drain(..);
        for change in self.commits.iter().flat_map(|commit| &commit.leases) {
            match *change {
                LeaseChange::Granted(id, ttl) => {
                    core.leases.begin(id, ttl, deadlines.next().expect("a grant comes with its deadline"));
                }
                LeaseChange::Gone(id) => core.leases.remove(id),
            }
        }
    }

    /// Sends the answers.
    pub(crate) fn send_answers(&mut self) {
        self.bytes = 0;
        for (reply, answer) in self.answers.drain(..) {
            // The caller may have dropped its future; the request stays done.
            let _ = reply.send(answer);
        }
    }
}
