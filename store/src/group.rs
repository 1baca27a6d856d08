//! What goes through the log together: the commits of some requests, and the answers that wait for them.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::commit::{Commit, LeaseChange};
use crate::core::Core;
use crate::request::Answer;

/// See the module. Answers may outnumber commits: one that changed nothing still tells of what was staged before it, so it
/// travels behind that and goes out when that is durable.
#[derive(Default)]
pub(crate) struct Group {
    /// In order.
    pub(crate) commits: Vec<Arc<Commit>>,
    /// When each lease that the commits grant ends, in the order of the grants.
    pub(crate) deadlines: Vec<Instant>,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    /// Roughly what holding it costs.
    bytes: usize,
}

/// What an answer costs, its contents not counted: they are shared with the state.
const ANSWER_BYTES: usize = 256;

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.commits.is_empty()
    }

    /// How many requests it answers.
    pub(crate) fn len(&self) -> usize {
        self.answers.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets an answer go out with this group, whose newest commits are those from `first` on.
    pub(crate) fn answer(&mut self, reply: oneshot::Sender<Answer>, answer: Answer, first: usize) {
        self.bytes += ANSWER_BYTES + self.commits[first..].iter().map(|commit| commit.cost()).sum::<usize>();
        self.answers.push((reply, answer));
    }

    /// Takes over everything of a later group.
    pub(crate) fn append(&mut self, later: &mut Self) {
        if self.is_empty() {
            // The usual case, without moving anything.
            std::mem::swap(self, later);
            return;
        }
        self.commits.append(&mut later.commits);
        self.deadlines.append(&mut later.deadlines);
        self.answers.append(&mut later.answers);
        self.bytes += std::mem::take(&mut later.bytes);
    }

    /// The commits are as durable as they are to be: makes them visible.
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

    /// Lets the answers go out.
    pub(crate) fn release(&mut self) {
        self.bytes = 0;
        for (reply, answer) in self.answers.drain(..) {
            // Whoever asked may have gone; what was done stays done.
            let _ = reply.send(answer);
        }
    }
}
