//! The tree of the consequences of writes to one object, and the causes that led to them. One pass over the log
//! suffices for either, since causes are earlier than their effects. `log` keeps the writes.

use super::chunk::{Chunk, RecordedWrite};
use super::record::Effect;
use kstore_storage::limits;
use kstore_storage::storage_key::KeyPlace;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A write in the tree, with the writes that it caused.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceNode {
    /// The revision of the write.
    pub revision: i64,
    /// The time of the write: RFC 3339 with microseconds.
    pub time: String,
    /// The changed object: `pods/default/web-1`.
    pub object: String,
    /// The storage key of the object.
    #[serde(skip)]
    pub key: String,
    /// The effect on the object.
    pub effect: Effect,
    /// What an update changed, in words, if the request wants that and its two states are in the history.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// The API verb of the write.
    pub verb: String,
    /// The user name of the writer.
    pub user: String,
    /// The program that wrote: its `User-Agent`.
    pub agent: String,
    /// The revisions that the writer named as causes.
    pub causes: Vec<i64>,
    /// The writes that this one caused, by revision. A write with several causes is shown once, under the
    /// latest cause that is in the tree.
    pub children: Vec<TraceNode>,
    /// Whether consequences deeper than [`limits::TRACE_DEPTH`] were cut; trace an object of this write to
    /// see them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// The writes to one object, with what led to them and what followed from them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectTrace {
    /// The writes to other objects that led to the writes of the trees: their causes, the causes of these, and so on;
    /// oldest first, without their other consequences. At most [`limits::TRACE_ANCESTORS`], the latest ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<TraceNode>,
    /// The trees of the writes to the object that no earlier write in its own tree caused, oldest first.
    pub writes: Vec<TraceNode>,
    /// The oldest write in memory, if there were older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_from: Option<KnownFrom>,
}

/// The write with which the memory of provenance begins.
#[derive(Clone, Debug, Serialize)]
pub struct KnownFrom {
    /// Its revision.
    pub revision: i64,
    /// Its time: RFC 3339 with microseconds.
    pub time: String,
}

/// The trace of one object, by storage key.
pub(super) fn trace(chunks: &[Chunk], key: &str, has_dropped: bool) -> ObjectTrace {
    let tree = Tree::of(chunks, key);
    let writes =
        tree.roots.iter().filter_map(|root| tree.node(*root, Some(key), limits::TRACE_DEPTH)).collect();
    let oldest = || chunks.iter().flat_map(Chunk::writes).next();
    let known_from = has_dropped.then(oldest).flatten();
    ObjectTrace {
        ancestors: ancestors(chunks, key, &tree),
        writes,
        known_from: known_from
            .map(|write| KnownFrom { revision: write.revision, time: shown_time(write.time_us) }),
    }
}

/// The causes of the object's writes outside the trees, with their causes.
fn ancestors(chunks: &[Chunk], key: &str, tree: &Tree<'_>) -> Vec<TraceNode> {
    let own = tree.writes.values().filter(|write| write.keys.iter().any(|(written, _)| *written == key));
    let mut wanted: BTreeSet<i64> = own.flat_map(|write| write.causes.iter().copied()).collect();
    let mut found = Vec::new();
    // Causes are earlier than their effects, so one pass from the newest write to the oldest finds all.
    for chunk in chunks.iter().rev() {
        let Some(newest) = wanted.last().copied() else { break };
        let writes: Vec<_> = chunk.writes().take_while(|write| write.revision <= newest).collect();
        for write in writes.iter().rev() {
            if !wanted.remove(&write.revision) || tree.writes.contains_key(&write.revision) {
                continue;
            }
            wanted.extend(&write.causes);
            found.extend(
                write.keys.first().map(|(object, effect)| node_of(write, object, *effect, Vec::new(), false)),
            );
            if found.len() == limits::TRACE_ANCESTORS {
                wanted.clear();
            }
        }
    }
    found.reverse();
    found
}

fn shown_time(micros: i64) -> String {
    format!("{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap_or_default())
}

fn node_of(
    write: &RecordedWrite<'_>,
    object: &str,
    effect: Effect,
    children: Vec<TraceNode>,
    truncated: bool,
) -> TraceNode {
    TraceNode {
        revision: write.revision,
        time: shown_time(write.time_us),
        object: api_name(object),
        key: object.to_owned(),
        effect,
        changes: Vec::new(),
        verb: write.writer.verb.to_owned(),
        user: write.writer.user.to_owned(),
        agent: write.writer.agent.to_owned(),
        causes: write.causes.clone(),
        children,
        truncated,
    }
}

/// The writes to one object and all their consequences.
#[derive(Default)]
struct Tree<'c> {
    /// All writes of the tree, by revision.
    writes: BTreeMap<i64, RecordedWrite<'c>>,
    /// Revisions of writes to the object that have no cause in the tree.
    roots: Vec<i64>,
    /// Revisions of the writes shown under a write.
    children: BTreeMap<i64, Vec<i64>>,
}

impl<'c> Tree<'c> {
    fn of(chunks: &'c [Chunk], key: &str) -> Self {
        let mut tree = Self::default();
        for write in chunks.iter().flat_map(Chunk::writes) {
            let causes = write.causes.iter().copied();
            match causes.filter(|cause| tree.writes.contains_key(cause)).max() {
                Some(parent) => tree.children.entry(parent).or_default().push(write.revision),
                None if write.keys.iter().any(|(written, _)| *written == key) => {
                    tree.roots.push(write.revision);
                }
                None => continue,
            }
            tree.writes.insert(write.revision, write);
        }
        tree
    }

    fn node(&self, revision: i64, key: Option<&str>, depth: usize) -> Option<TraceNode> {
        let write = self.writes.get(&revision)?;
        let (object, effect) = match key {
            Some(key) => write.keys.iter().find(|(written, _)| *written == key)?,
            None => write.keys.first()?,
        };
        let followed = self.children.get(&revision).map_or(&[][..], Vec::as_slice);
        let truncated = depth == 0 && !followed.is_empty();
        let children = match depth {
            0 => Vec::new(),
            _ => followed.iter().filter_map(|effect| self.node(*effect, None, depth - 1)).collect(),
        };
        Some(node_of(write, object, *effect, children, truncated))
    }
}

/// The API's name for the object of a storage key: plural, namespace if it has one, and name, such as
/// `services/default/web`. The group follows the plural where the plural alone would name another kind.
fn api_name(key: &str) -> String {
    let Some(KeyPlace { group, plural, namespace, name }) = KeyPlace::of(key) else {
        return key.trim_start_matches(kstore_storage::storage_key::ROOT).to_owned();
    };
    let first = kstore_api::kind::stored().find(|other| other.plural == plural);
    let kind = match first {
        Some(first) if first.group == group => plural.to_owned(),
        _ => format!("{plural}.{group}"),
    };
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::super::{Note, Provenance};
    use super::*;

    fn record(revision: i64, key: &str, causes: &[i64]) -> Record {
        let text = |s: &str| s.to_owned();
        let causes = causes.to_vec();
        let note = Note { user: text("u"), agent: text("a"), verb: text("create"), causes, time_us: 0 };
        Record { revision, keys: vec![(text(key), Effect::Created)], note }
    }

    #[test]
    fn objects_are_named_as_the_api_names_them() {
        for (key, name) in [
            ("/registry/minions/node-1", "nodes/node-1"),
            ("/registry/services/specs/ns/web", "services/ns/web"),
            ("/registry/services/endpoints/ns/web", "endpoints/ns/web"),
            ("/registry/pods/ns/web-1", "pods/ns/web-1"),
            ("/registry/deployments/ns/web", "deployments/ns/web"),
            ("/registry/unknown/ns/x", "unknown/ns/x"),
        ] {
            assert_eq!(api_name(key), name, "{key}");
        }
    }

    #[test]
    fn deep_traces_are_truncated_and_marked() {
        let log = Provenance::default();
        for revision in 2..200 {
            log.0.write().insert(&record(revision, &format!("k{revision}"), &[revision - 1]));
        }
        let trace = log.trace("k2");
        let mut node = &trace.writes[0];
        let mut depth = 0;
        while let Some(child) = node.children.first() {
            (node, depth) = (child, depth + 1);
        }
        assert_eq!((depth, node.truncated), (limits::TRACE_DEPTH, true));
    }

    #[test]
    fn a_trace_shows_each_write_once_under_its_latest_cause() {
        let log = Provenance::default();
        for r in [record(2, "d", &[]), record(3, "rs", &[2]), record(4, "pod", &[3]), record(5, "d", &[3, 4])]
        {
            log.0.write().insert(&r);
        }
        let trace = log.trace("d").writes;
        assert_eq!(trace.len(), 1);
        let chain =
            (trace[0].revision, trace[0].children[0].revision, trace[0].children[0].children[0].revision);
        assert_eq!(chain, (2, 3, 4));
        assert_eq!(trace[0].children[0].children[0].children[0].revision, 5);
    }

    #[test]
    fn a_trace_names_the_writes_that_led_to_the_object() {
        let log = Provenance::default();
        for r in [
            record(2, "deployment", &[]),
            record(3, "set", &[2]),
            record(4, "other", &[2]),
            record(5, "pod", &[3]),
            record(6, "high", &[]),
            // Preempted because of another pod.
            record(7, "pod", &[6, 5]),
            record(8, "pod", &[6]),
        ] {
            log.0.write().insert(&r);
        }
        let trace = log.trace("pod");
        let revisions = |nodes: &[TraceNode]| nodes.iter().map(|node| node.revision).collect::<Vec<_>>();
        assert_eq!(revisions(&trace.ancestors), [2, 3, 6]);
        assert_eq!(revisions(&trace.writes), [5, 8]);
        assert!(trace.ancestors.iter().all(|node| node.children.is_empty()));
        assert!(trace.known_from.is_none());
        assert_eq!(revisions(&log.trace("deployment").ancestors), [0; 0]);
    }

    #[test]
    fn a_trace_says_where_the_memory_begins_once_writes_were_dropped() {
        let log = Provenance::new(200 << 10);
        for revision in 2..40_000 {
            log.0.write().insert(&record(revision, &format!("key-{revision}"), &[]));
        }
        let known = log.trace("key-39999").known_from.unwrap();
        assert!(known.revision > 2 && known.revision < 39_999, "{known:?}");
        assert!(log.fork().0.trace("key-2").known_from.is_some());
    }
}
