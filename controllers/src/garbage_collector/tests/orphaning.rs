//! Tests of orphaning deletions against a server whose writes finish in any order, fail with conflicts and
//! are observed late.

use super::{collect, going, kinds, node, orphan, owner};
use crate::action::Action;
use crate::garbage_collector::graph::{Graph, Node, ORPHAN, WorkItem};
use crate::garbage_collector::plan::{CollectDecision, Presence};
use proptest::prelude::*;
use serde_json::from_value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const OWNER: &str = "owner";

/// A change as observed by the collector, possibly much later.
enum Event {
    Put(String, Arc<Node>),
    Gone(String),
}

/// A run of the collector with pending writes.
struct Run {
    work: WorkItem,
    writes: Vec<Action>,
    failed: bool,
}

/// The stored objects, the undelivered events, and the collector.
#[derive(Default)]
struct Cluster {
    objects: BTreeMap<String, Node>,
    revision: u64,
    events: VecDeque<Event>,
    graph: Graph,
    queue: BTreeSet<WorkItem>,
    runs: Vec<Run>,
}

impl Cluster {
    /// An owner with `dependents` that the collector knows, and its orphaning deletion that it does not know
    /// yet.
    fn with_dependents(dependents: u8) -> Self {
        let mut cluster = Self::default();
        cluster.store(OWNER, node(OWNER, &[]));
        (0..dependents)
            .for_each(|i| cluster.store(&i.to_string(), node(&i.to_string(), &[owner(OWNER, true)])));
        while cluster.deliver() {}
        cluster.queue.clear();
        cluster.store(OWNER, going(OWNER, &[], ORPHAN));
        cluster
    }

    fn store(&mut self, uid: &str, node: Node) {
        self.revision += 1;
        if node.deleting && node.finalizers.is_empty() {
            return self.remove(uid);
        }
        let node = Node { resource_version: self.revision.to_string(), ..node };
        self.objects.insert(uid.to_owned(), node.clone());
        self.events.push_back(Event::Put(uid.to_owned(), Arc::new(node)));
    }

    fn remove(&mut self, uid: &str) {
        if self.objects.remove(uid).is_some() {
            self.events.push_back(Event::Gone(uid.to_owned()));
        }
        if uid == OWNER {
            assert_eq!(
                self.dependents(),
                Vec::<&String>::new(),
                "the owner went before its dependents were free"
            );
        }
    }

    fn dependents(&self) -> Vec<&String> {
        let names_owner = |node: &Node| node.owners.iter().any(|o| o.uid == OWNER);
        self.objects.iter().filter(|(_, node)| names_owner(node)).map(|(uid, _)| uid).collect()
    }

    fn deliver(&mut self) -> bool {
        let work = match self.events.pop_front() {
            Some(Event::Put(uid, node)) => self.graph.put(&*uid, node),
            Some(Event::Gone(uid)) => self.graph.gone(&uid),
            None => return false,
        };
        self.queue.extend(work);
        true
    }

    /// Starts a run of the first key that is not running.
    fn begin(&mut self) -> bool {
        let free = |work: &&WorkItem| self.runs.iter().all(|run| run.work != **work);
        let Some(work) = self.queue.iter().find(free).cloned() else { return false };
        self.queue.remove(&work);
        let writes = match &work {
            WorkItem::Orphan(uid) => orphan(&self.graph, &kinds(), uid),
            WorkItem::Collect(uid) => {
                let absent = BTreeMap::from([(OWNER.to_owned(), Presence::Absent)]);
                match collect(&self.graph, &kinds(), &absent, uid) {
                    CollectDecision::Act(writes, more) => {
                        self.queue.extend(more);
                        writes
                    }
                    CollectDecision::Ask(questions) => panic!("only the owner may be unknown: {questions:?}"),
                }
            }
        };
        self.runs.push(Run { work, writes, failed: false });
        true
    }

    /// Finishes one pending write, selected by `pick`; a finished run with a failure is queued again.
    fn end_write(&mut self, pick: usize) -> bool {
        let count = self.runs.len().max(1);
        let Some(run) = self.runs.get_mut(pick % count) else { return false };
        if run.writes.is_empty() {
            let Run { work, failed, .. } = self.runs.swap_remove(pick % count);
            self.queue.extend(failed.then_some(work));
            return true;
        }
        let write = run.writes.swap_remove(pick / count % run.writes.len());
        let stored = self.write(write);
        self.runs[pick % count].failed |= !stored;
        true
    }

    /// Returns false on a conflict. A missing object counts as written.
    fn write(&mut self, write: Action) -> bool {
        let (target, version) = match &write {
            Action::Patch { target, patch, .. } => (target, patch["metadata"]["resourceVersion"].as_str()),
            Action::Delete { target, .. } => (target, target.resource_version.as_deref()),
            other => panic!("the collector does not do {other:?}"),
        };
        let Some(mut node) = self.objects.get(&target.uid).cloned() else { return true };
        if version != Some(node.resource_version.as_str()) {
            return false;
        }
        let uid = target.uid.clone();
        if let Action::Patch { patch, .. } = &write {
            let part = |name: &str| patch["metadata"].get(name).cloned();
            node.owners = part("ownerReferences").map_or(node.owners, |o| from_value(o).unwrap());
            node.finalizers = part("finalizers").map_or(node.finalizers, |f| from_value(f).unwrap());
            self.store(&uid, node);
        } else {
            self.remove(&uid);
        }
        true
    }

    fn settle(&mut self) {
        for pick in 0..10_000 {
            if !(self.deliver() || self.begin() || self.end_write(pick)) {
                return;
            }
        }
        panic!("the collector never rests");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_orphaning_deletion_completes_in_any_order_of_writes(
        steps in prop::collection::vec((0u8..8, any::<u8>()), 0..80),
        dependents in 0u8..5,
    ) {
        let mut cluster = Cluster::with_dependents(dependents);
        let mut removed = BTreeSet::new();
        for (step, pick) in steps {
            let name = (pick % 5).to_string();
            match step {
                0..=1 => drop(cluster.deliver()),
                2..=3 => drop(cluster.begin()),
                4..=5 => drop(cluster.end_write(pick.into())),
                // Another client writes the object: planned writes of the collector conflict.
                6 => if let Some(node) = cluster.objects.get(&name).cloned() { cluster.store(&name, node) },
                _ => if pick % 3 == 0 && cluster.objects.contains_key(&name) {
                    cluster.remove(&name);
                    removed.insert(name);
                },
            }
        }
        cluster.settle();
        let left: BTreeSet<String> = cluster.objects.keys().cloned().collect();
        let expected: BTreeSet<String> =
            (0..dependents).map(|i| i.to_string()).filter(|name| !removed.contains(name)).collect();
        prop_assert_eq!(left, expected, "the owner goes, its dependents stay");
        prop_assert!(cluster.dependents().is_empty());
    }
}

#[test]
fn the_orphan_finalizer_is_removed_after_the_references() {
    let mut graph = Graph::default();
    drop(graph.put(OWNER, Arc::new(going(OWNER, &[], ORPHAN))));
    let work = graph.put("new", Arc::new(node("new", &[owner(OWNER, true)])));
    assert_eq!(work, [WorkItem::Orphan(OWNER.into())], "a dependent that comes late is set free, too");
    let names = |graph: &Graph| -> Vec<String> {
        let name = |action| match action {
            Action::Patch { target, .. } => target.uid,
            other => panic!("{other:?}"),
        };
        orphan(graph, &kinds(), &OWNER.into()).into_iter().map(name).collect()
    };
    assert_eq!(names(&graph), ["new"]);
    assert_eq!(graph.put("new", Arc::new(node("new", &[]))), [WorkItem::Orphan(OWNER.into())]);
    assert_eq!(names(&graph), [OWNER]);
}
