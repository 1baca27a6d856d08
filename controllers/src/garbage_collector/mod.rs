//! Deletes what has lost its owners, and carries foreground and orphaning deletions through. `graph` knows who owns whom,
//! `plan` judges one object; this file feeds the graph from the stream of all kinds, asks the server about owners that the graph
//! does not know, and has the plan carried out.

mod graph;
pub(crate) mod member;
mod plan;
#[cfg(test)]
mod tests;

use crate::action::Action;
use crate::apply::{Hands, gvr};
use crate::limits::ABSENT_OWNERS;
use crate::runner::Cluster;
use graph::{Graph, Work};
use kstore_client::ApiError;
use kstore_informer::{Causes, Delta, Object, Queue, Revision, Subscription};
use member::Member;
use parking_lot::Mutex;
use plan::{Presence, Question, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio_util::task::TaskTracker;

/// Objects that are looked at in the same time. Each costs about one write, so this bounds the speed of a cascade.
const WORKERS: usize = 32;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let stop = cluster.stop.clone();
    let hands = cluster.hands("generic-garbage-collector");
    let collector = Arc::new(Collector {
        graph: Mutex::default(),
        absent: Mutex::default(),
        queue: Queue::new(cluster.nondet.rng.fork("garbage-collector")),
        hands,
    });
    let subscription = cluster.caches.everything.subscribe();
    drop(cluster);
    let tasks = TaskTracker::new();
    let feed = Arc::clone(&collector).feed(subscription);
    tasks.spawn(stop.clone().run_until_cancelled_owned(feed));
    for _ in 0..WORKERS {
        let work = Arc::clone(&collector).work();
        tasks.spawn(stop.clone().run_until_cancelled_owned(work));
    }
    stop.cancelled().await;
    collector.queue.close();
    tasks.close();
    tasks.wait().await;
}

/// Uids that certainly are no more; the oldest is forgotten first.
#[derive(Default)]
struct Absent(VecDeque<String>);

impl Absent {
    fn add(&mut self, uid: &str) {
        if !self.0.iter().any(|known| known == uid) {
            if self.0.len() >= ABSENT_OWNERS {
                self.0.pop_front();
            }
            self.0.push_back(uid.to_owned());
        }
    }

    fn knows(&self, uid: &str) -> bool {
        self.0.iter().rev().any(|known| known == uid)
    }
}

struct Collector {
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    queue: Queue<Work>,
    hands: Hands,
}

impl Collector {
    /// Keeps the graph up to date. Work begins when the whole first state is in it: before, any owner may still come.
    async fn feed(self: Arc<Self>, mut subscription: Subscription<Member>) {
        if subscription.informer().synced().await.is_err() {
            return;
        }
        let first = subscription.try_next();
        let review = {
            let mut graph = self.graph.lock();
            first.iter().for_each(|delta| drop(take(&mut graph, delta)));
            graph.review()
        };
        review.into_iter().for_each(|work| self.queue.add(work, Causes::none()));
        while let Some(deltas) = subscription.next().await {
            let work = {
                let mut graph = self.graph.lock();
                deltas.iter().flat_map(|delta| take(&mut graph, delta)).collect::<Vec<_>>()
            };
            work.into_iter().for_each(|(work, cause)| self.queue.add(work, Causes::one(cause)));
        }
    }

    async fn work(self: Arc<Self>) {
        while let Some(lease) = self.queue.next().await {
            match self.attend(lease.key(), lease.causes()).await {
                Ok(()) => lease.done(),
                Err(error) => {
                    tracing::debug!(work = ?lease.key(), %error, "failed; will be retried");
                    lease.retry();
                }
            }
        }
    }

    async fn attend(&self, work: &Work, causes: &Causes) -> Result<(), ApiError> {
        let actions = match work {
            Work::Orphan(uid) => plan::orphan(&self.graph.lock(), uid),
            Work::Collect(uid) => self.collect(uid, causes).await?,
        };
        match self.hands.carry_out(causes, &actions).await.result() {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    async fn collect(&self, uid: &graph::Uid, causes: &Causes) -> Result<Vec<Action>, ApiError> {
        let mut answers = BTreeMap::new();
        loop {
            let verdict = {
                let graph = self.graph.lock();
                if let Some(item) = graph.get(uid) {
                    let absent = self.absent.lock();
                    let gone = item.owners.iter().filter(|o| absent.knows(&o.uid));
                    answers.extend(gone.map(|o| (o.uid.clone(), Presence::Absent)));
                }
                plan::collect(&graph, member::kinds(), &answers, uid)
            };
            match verdict {
                Verdict::Act(actions, work) => {
                    work.into_iter().for_each(|work| self.queue.add(work, causes.clone()));
                    return Ok(actions);
                }
                Verdict::Ask(questions) => {
                    for question in questions {
                        let answer = self.ask(&question).await?;
                        answers.insert(question.uid, answer);
                    }
                }
            }
        }
    }

    async fn ask(&self, question: &Question) -> Result<Presence, ApiError> {
        let api = self.hands.client.dynamic(gvr(&question.resource));
        let present = match api.get(&question.namespace, &question.name).await {
            Ok(object) => object["metadata"]["uid"] == *question.uid,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error),
        };
        if present {
            return Ok(Presence::Present);
        }
        self.absent.lock().add(&question.uid);
        Ok(Presence::Absent)
    }
}

/// Brings a change into the graph; gives back what it asks for, with the revision that did it.
fn take(graph: &mut Graph, delta: &Delta<Member>) -> Vec<(Work, Revision)> {
    let put = |graph: &mut Graph, m: &Member| {
        m.node().map(|node| graph.put(m.uid(), Arc::clone(node))).unwrap_or_default()
    };
    let work = match delta {
        Delta::Added(new) => put(graph, new),
        Delta::Updated { old, new } if old.uid() != new.uid() => {
            let mut work = graph.gone(old.uid());
            work.extend(put(graph, new));
            work
        }
        Delta::Updated { new, .. } | Delta::Resync(new) => put(graph, new),
        Delta::Deleted(old) => graph.gone(old.uid()),
    };
    let revision = delta.object().revision();
    work.into_iter().map(|work| (work, revision)).collect()
}
