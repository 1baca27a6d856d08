//! The tree of the consequences of writes to one object. One pass over the log suffices, since causes are
//! earlier than their effects. `log` keeps the writes.

use super::chunk::{Chunk, RecordedWrite};
use super::record::Effect;
use crate::kinds::KeyPlace;
use crate::limits;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The effect on the object.
    pub effect: Effect,
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

/// The trees of the writes to one object, by storage key, that no earlier write in its own tree caused;
/// oldest first. Empty if there are no such writes.
pub(super) fn trace(chunks: &[Chunk], key: &str) -> Vec<TraceNode> {
    let tree = Tree::of(chunks, key);
    tree.roots.iter().filter_map(|root| tree.node(*root, Some(key), limits::TRACE_DEPTH)).collect()
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
        let time = jiff::Timestamp::from_microsecond(write.time_us).unwrap_or_default();
        Some(TraceNode {
            revision,
            time: format!("{time:.6}"),
            object: api_name(object),
            effect: *effect,
            verb: write.writer.verb.to_owned(),
            user: write.writer.user.to_owned(),
            agent: write.writer.agent.to_owned(),
            causes: write.causes.clone(),
            children,
            truncated,
        })
    }
}

/// The API's name for the object of a storage key: plural, namespace if it has one, and name, such as
/// `services/default/web`. The group follows the plural where the plural alone would name another kind.
fn api_name(key: &str) -> String {
    let Some(KeyPlace { group, plural, namespace, name }) = KeyPlace::of(key) else {
        return key.trim_start_matches(crate::cache::ROOT).to_owned();
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
        let mut node = &log.trace("k2")[0];
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
        let trace = log.trace("d");
        assert_eq!(trace.len(), 1);
        let chain =
            (trace[0].revision, trace[0].children[0].revision, trace[0].children[0].children[0].revision);
        assert_eq!(chain, (2, 3, 4));
        assert_eq!(trace[0].children[0].children[0].children[0].revision, 5);
    }
}
