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
use crate::runner::{Cluster, Reconcile, Trouble, work};
use graph::{Graph, Work};
use kstore_client::ApiError;
use kstore_informer::{Action as Next, Causes, Context, Delta, Key, Object, Queue};
use member::Member;
use parking_lot::Mutex;
use plan::{Presence, Question, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Objects that are looked at in the same time. Each costs about one write, so this bounds the speed of a cascade.
const WORKERS: usize = 32;

/// Runs until the cluster stops.
pub(crate) async fn run(cluster: Arc<Cluster>) {
    let known = Arc::new(Mutex::new(Known::default()));
    let fed = Arc::clone(&known);
    let controller = cluster
        .controller("garbage-collector")
        .watch_deltas(&cluster.caches.everything, move |delta| fed.lock().take(delta))
        .workers(WORKERS);
    let hands = cluster.hands("generic-garbage-collector");
    let me = Collector { known, absent: Mutex::default(), queue: controller.queue(), hands };
    work(controller, cluster.stop.clone(), me).await;
}

/// What the stream has told.
#[derive(Default)]
struct Known {
    graph: Graph,
    /// The whole first state is in the graph and was looked at. Before, any owner may still come.
    reviewed: bool,
}

impl Known {
    /// Brings a change into the graph; gives back the keys of what it asks for.
    fn take(&mut self, delta: &Delta<Member>) -> Vec<Key> {
        let put = |graph: &mut Graph, m: &Member| {
            m.node().map(|node| graph.put(m.uid(), Arc::clone(node))).unwrap_or_default()
        };
        let graph = &mut self.graph;
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
        if self.reviewed { work.iter().map(Work::key).collect() } else { vec![review()] }
    }
}

/// The key of the first look at everything, which comes when the whole first state is known.
fn review() -> Key {
    Key::new("", "review")
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
    known: Arc<Mutex<Known>>,
    absent: Mutex<Absent>,
    queue: Queue<Key>,
    hands: Hands,
}

impl Reconcile for Collector {
    async fn reconcile(&self, cx: Context) -> Result<Next, Trouble> {
        let actions = match Work::of(&cx.key) {
            Some(Work::Orphan(uid)) => plan::orphan(&self.known.lock().graph, &uid),
            Some(Work::Collect(uid)) => self.collect(&uid, &cx.causes).await?,
            None => self.review(),
        };
        self.hands.carry_out(&cx, &actions).await.result()?;
        Ok(Next::Done)
    }
}

impl Collector {
    /// Begins with all that needs a look.
    fn review(&self) -> Vec<Action> {
        let mut known = self.known.lock();
        known.reviewed = true;
        known.graph.review().iter().for_each(|work| self.queue.add(work.key(), Causes::none()));
        vec![]
    }

    async fn collect(&self, uid: &graph::Uid, causes: &Causes) -> Result<Vec<Action>, ApiError> {
        let mut answers = BTreeMap::new();
        loop {
            let verdict = {
                let Known { graph, .. } = &*self.known.lock();
                if let Some(item) = graph.get(uid) {
                    let absent = self.absent.lock();
                    let gone = item.owners.iter().filter(|o| absent.knows(&o.uid));
                    answers.extend(gone.map(|o| (o.uid.clone(), Presence::Absent)));
                }
                plan::collect(graph, member::kinds(), &answers, uid)
            };
            match verdict {
                Verdict::Act(actions, work) => {
                    work.iter().for_each(|work| self.queue.add(work.key(), causes.clone()));
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
