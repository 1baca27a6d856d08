//! Who wrote what, and because of what: the note that every commit carries, and the tree that follows from the notes. Not an
//! audit log: requests that wrote nothing leave no trace.

mod log;

use crate::cache::resource_of;
use crate::limits;
use crate::request::{Request, Transaction};
use crate::storage::{RawBatch, RawWatch, ReadError, SharedStorage};
use bytes::Bytes;
use kstore_nondet::Clock;
use log::{Log, Record};
use parking_lot::RwLock;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// The first byte of an encoded note.
const VERSION: u8 = 1;

/// The revision of a store that was never written to, ours as well as etcd's: no commit has it, so no watch ever delivers it.
const EMPTY_STORE_REVISION: i64 = 1;

/// What is stored with a revision: bincode of this behind a version byte.
#[derive(Clone, Debug, PartialEq, Eq, bincode::Encode, bincode::Decode)]
pub struct Note {
    /// The user's name.
    pub user: String,
    /// The program or component: the `User-Agent`.
    pub agent: String,
    /// The API verb, with the subresource behind a slash: `update/status`.
    pub verb: String,
    /// The revisions that led to this write.
    pub causes: Vec<i64>,
    /// When, in microseconds since 1970.
    pub time_us: i64,
}

impl Note {
    /// The note of a request that is about to write.
    pub fn of(request: &Request, clock: &Clock) -> Self {
        let verb = match request.target.subresource {
            "" => request.action.verb().to_owned(),
            subresource => format!("{}/{subresource}", request.action.verb()),
        };
        Self {
            user: request.user.username.clone(),
            agent: request.agent.clone(),
            verb,
            causes: request.causes.clone(),
            time_us: clock.now().as_microsecond(),
        }
    }

    /// The note of a transaction: one for all of its writes.
    pub fn of_transaction(transaction: &Transaction, clock: &Clock) -> Self {
        Self {
            user: transaction.user.username.clone(),
            agent: transaction.agent.clone(),
            verb: "transact".to_owned(),
            causes: transaction.causes.clone(),
            time_us: clock.now().as_microsecond(),
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Bytes {
        let mut bytes = vec![VERSION];
        let config = bincode::config::standard();
        bincode::encode_into_std_write(self, &mut bytes, config).expect("encoding into memory does not fail");
        bytes.into()
    }

    /// From the stored form; `None` when it is of another version or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = bytes.split_first()? else { return None };
        bincode::decode_from_slice(rest, bincode::config::standard()).ok().map(|(note, _)| note)
    }
}

impl Record {
    /// `None` for a commit that explains nothing.
    fn of(batch: &RawBatch) -> Option<Self> {
        let note = batch.note.as_deref().and_then(Note::decode)?;
        let keys: Vec<_> = batch.events.iter().filter_map(effect_of).collect();
        (!keys.is_empty()).then_some(Self { revision: batch.revision, keys, note })
    }
}

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It came into being.
    Created,
    /// It changed.
    Updated,
    /// It went away.
    Deleted,
}

/// The newest writes with their causes, as many as [`limits::TRACE_BYTES`] hold.
pub struct Provenance(RwLock<Log>);

impl Default for Provenance {
    fn default() -> Self {
        Self(RwLock::new(Log::new(limits::TRACE_BYTES)))
    }
}

/// A write in the tree of what followed from it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceNode {
    /// The revision of the write.
    pub revision: i64,
    /// When, RFC 3339 with microseconds.
    pub time: String,
    /// What changed: `pods/default/web-1`.
    pub object: String,
    /// How.
    pub effect: Effect,
    /// The API verb that did it.
    pub verb: String,
    /// Who.
    pub user: String,
    /// With which program.
    pub agent: String,
    /// The revisions that the writer named as causes.
    pub causes: Vec<i64>,
    /// What followed, by revision. A write with several causes is shown once, under the latest of them that is in the tree.
    pub children: Vec<TraceNode>,
    /// More followed, deeper than [`limits::TRACE_DEPTH`]; trace an object of this write to see it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Provenance {
    /// Reads the notes of the history up to a revision that the storage still has, as many as are kept, so that a restart forgets
    /// nothing that compaction has not. Nothing may have been observed yet.
    pub async fn recall(&self, storage: &SharedStorage, upto: i64) -> Result<(), ReadError> {
        self.recall_by(storage, upto, limits::RECALL_STRETCH).await
    }

    /// The newest stretch of history first: of a long one only the end is kept, and the rest need not be read.
    async fn recall_by(&self, storage: &SharedStorage, mut upto: i64, length: i64) -> Result<(), ReadError> {
        let (mut stretches, mut bytes) = (Vec::new(), 0);
        // One more than is kept: what it takes to forget is as it would be had all been read.
        while upto > EMPTY_STORE_REVISION && bytes <= limits::TRACE_BYTES {
            let after = (upto - length).max(EMPTY_STORE_REVISION);
            let stretch = Stretch::read(storage, after, upto).await?;
            bytes += stretch.records.iter().map(Record::least_weight).sum::<usize>();
            upto = if stretch.is_whole { after } else { EMPTY_STORE_REVISION };
            stretches.push(stretch.records);
        }
        let mut log = self.0.write();
        stretches.into_iter().rev().flatten().for_each(|record| log.insert(record));
        Ok(())
    }

    /// Takes in one committed revision. Heartbeats (leases) and events are left out: they explain nothing and would push out
    /// what does.
    pub fn observe(&self, batch: &RawBatch) {
        if let Some(record) = Record::of(batch) {
            self.0.write().insert(record);
        }
    }

    /// The writes to one object (by storage key) that nobody caused from within its own tree, each with all that followed
    /// from it; oldest first. Empty when nothing is remembered.
    pub fn trace(&self, key: &str) -> Vec<TraceNode> {
        let log = self.0.read();
        let Some(revisions) = log.revisions_of(key) else { return Vec::new() };
        let parents = log.parents(revisions);
        let is_root = |revision: &&i64| !parents.contains_key(*revision);
        revisions
            .iter()
            .filter(is_root)
            .filter_map(|revision| log.node(*revision, Some(key), &parents, limits::TRACE_DEPTH))
            .collect()
    }
}

impl Log {
    /// For every write that follows from `roots`: the cause under which it is shown.
    fn parents(&self, roots: &VecDeque<i64>) -> BTreeMap<i64, i64> {
        let mut reached: Vec<i64> = roots.iter().copied().collect();
        let mut parents = BTreeMap::new();
        let mut next = 0;
        while let Some(&revision) = reached.get(next) {
            next += 1;
            for &effect in self.effects_of(revision) {
                let first_visit = !parents.contains_key(&effect) && !roots.contains(&effect);
                let parent = parents.entry(effect).or_insert(revision);
                *parent = revision.max(*parent);
                if first_visit {
                    reached.push(effect);
                }
            }
        }
        parents
    }

    fn node(
        &self,
        revision: i64,
        key: Option<&str>,
        parents: &BTreeMap<i64, i64>,
        depth: usize,
    ) -> Option<TraceNode> {
        let write = self.write(revision)?;
        let (object, effect) = match key {
            Some(key) => write.keys.iter().find(|(k, _)| &**k == key)?,
            None => write.keys.first()?,
        };
        let followed = self.effects_of(revision).iter();
        let mut followed = followed.filter(|effect| parents.get(effect) == Some(&revision)).peekable();
        let truncated = depth == 0 && followed.peek().is_some();
        let children = match depth {
            0 => Vec::new(),
            _ => followed.filter_map(|effect| self.node(*effect, None, parents, depth - 1)).collect(),
        };
        let time = jiff::Timestamp::from_microsecond(write.time_us).unwrap_or_default();
        Some(TraceNode {
            revision,
            time: format!("{time:.6}"),
            object: api_name(object),
            effect: *effect,
            verb: write.writer.verb.clone(),
            user: write.writer.user.clone(),
            agent: write.writer.agent.clone(),
            causes: write.causes.to_vec(),
            children,
            truncated,
        })
    }
}

/// What a part of the history tells.
struct Stretch {
    /// In the order of their revisions.
    records: Vec<Record>,
    /// Nothing of it was missing, so that there may be more before it.
    is_whole: bool,
}

impl Stretch {
    /// The history after one revision up to another.
    async fn read(storage: &SharedStorage, after: i64, upto: i64) -> Result<Self, ReadError> {
        let (mut history, mut revision) = oldest(storage, after).await?;
        let mut stretch = Self { records: Vec::new(), is_whole: revision == after };
        while revision < upto {
            // A storage that goes away meanwhile is no reason not to start: what is missing is history.
            let Ok(Some(batch)) = tokio::time::timeout(limits::FRESH_WAIT, history.next()).await else {
                return Ok(Self { is_whole: false, ..stretch });
            };
            match batch {
                Ok(batch) => {
                    revision = batch.revision;
                    // What came meanwhile is told by the watch cache.
                    stretch.records.extend(Record::of(&batch).filter(|_| revision <= upto));
                }
                Err(ReadError::Compacted { oldest: begin }) if begin > revision => {
                    stretch.is_whole = false;
                    (history, revision) = oldest(storage, begin).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stretch)
    }
}

/// All the history after `revision`, or what compaction has left of it; and the revision that it begins after.
async fn oldest(storage: &SharedStorage, revision: i64) -> Result<(Box<dyn RawWatch>, i64), ReadError> {
    match storage.watch("", revision).await {
        Err(ReadError::Compacted { oldest }) if oldest > revision => {
            Ok((storage.watch("", oldest).await?, oldest))
        }
        history => Ok((history?, revision)),
    }
}

/// The name by which the API knows the object of a storage key: plural, namespace if it has one, and name, such as
/// `services/default/web`; with the group behind the plural where that alone would mean another kind.
fn api_name(key: &str) -> String {
    let parsed = resource_of(key.as_bytes()).and_then(|resource| Some((resource, resource.parse_key(key)?)));
    let Some((resource, (namespace, name))) = parsed else {
        return key.trim_start_matches(crate::cache::ROOT).to_owned();
    };
    let first = kstore_api::kind::stored().find(|other| other.plural == resource.plural);
    let kind = match first {
        Some(first) if first.group != resource.group => resource.qualified(),
        _ => resource.plural.to_owned(),
    };
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

fn effect_of(event: &crate::storage::RawEvent) -> Option<(String, Effect)> {
    let resource = resource_of(&event.key)?;
    if matches!(resource.plural, "leases" | "events") {
        return None;
    }
    let effect = match &event.current {
        None => Effect::Deleted,
        Some(raw) if raw.created == raw.revision => Effect::Created,
        Some(_) => Effect::Updated,
    };
    Some((String::from_utf8_lossy(&event.key).into_owned(), effect))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn note(causes: &[i64]) -> Note {
        let text = |s: &str| s.to_owned();
        Note { user: text("u"), agent: text("a"), verb: text("create"), causes: causes.to_vec(), time_us: 0 }
    }

    fn record(revision: i64, key: &str, causes: &[i64]) -> Record {
        Record { revision, keys: vec![(key.to_owned(), Effect::Created)], note: note(causes) }
    }

    #[test]
    fn a_note_survives_its_encoding_and_garbage_is_no_note() {
        let note = note(&[1, 1 << 40]);
        assert_eq!(Note::decode(&note.encode()), Some(note));
        assert_eq!(Note::decode(b""), None);
        assert_eq!(Note::decode(&[9, 1, 2]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_recalled_in_stretches_is_what_was_observed() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(crate::storage::embedded::Embedded::new(store));
        let write = |nth: i64| {
            let (key, value) = (format!("/registry/pods/ns/p{}", nth % 5), Bytes::from_static(b"{}"));
            let writes = vec![crate::storage::Write::Put { key, value, ttl_seconds: 0 }];
            storage.commit(crate::storage::Commit { guards: Vec::new(), writes, note: note(&[nth]).encode() })
        };
        for nth in 1..40 {
            write(nth).await.unwrap();
        }
        let newest = storage.revision().await.unwrap();
        let shown = |log: &Provenance| format!("{:?}", log.0.read());
        let observed = Provenance::default();
        let mut history = storage.watch("", 0).await.unwrap();
        while observed.0.read().newest() != Some(newest) {
            observed.observe(&history.next().await.unwrap().unwrap());
        }
        for length in [1, 3, 20, newest - 1, newest, newest + 1, i64::from(u32::MAX)] {
            let recalled = Provenance::default();
            recalled.recall_by(&storage, newest, length).await.unwrap();
            assert_eq!(shown(&recalled), shown(&observed), "stretches of {length}");
        }
        write(40).await.unwrap();
        let recalled = Provenance::default();
        recalled.recall_by(&storage, newest, 7).await.unwrap();
        assert_eq!(shown(&recalled), shown(&observed), "what came meanwhile is told by the cache");
    }

    /// A server on a new store waited three seconds for the first revision, which holds nothing.
    #[tokio::test(start_paused = true)]
    async fn recalling_an_empty_history_takes_no_time() {
        let config = kstore_store::Config::memory();
        let store = kstore_store::Store::open(config, kstore_nondet::Nondet::simulated(7)).await.unwrap();
        let storage: SharedStorage = Arc::new(crate::storage::embedded::Embedded::new(store));
        let newest = storage.revision().await.unwrap();
        let begin = tokio::time::Instant::now();
        Provenance::default().recall(&storage, newest).await.unwrap();
        assert_eq!((newest, begin.elapsed()), (EMPTY_STORE_REVISION, std::time::Duration::ZERO));
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
    fn a_long_chain_is_cut_and_says_so() {
        let log = Provenance::default();
        for revision in 2..200 {
            log.0.write().insert(record(revision, &format!("k{revision}"), &[revision - 1]));
        }
        let mut node = &log.trace("k2")[0];
        let mut depth = 0;
        while let Some(child) = node.children.first() {
            (node, depth) = (child, depth + 1);
        }
        assert_eq!((depth, node.truncated), (limits::TRACE_DEPTH, true));
    }

    #[test]
    fn a_trace_is_a_tree_in_which_each_write_occurs_once_under_its_latest_cause() {
        let log = Provenance::default();
        for r in [record(2, "d", &[]), record(3, "rs", &[2]), record(4, "pod", &[3]), record(5, "d", &[3, 4])]
        {
            log.0.write().insert(r);
        }
        let trace = log.trace("d");
        assert_eq!(trace.len(), 1);
        let chain =
            (trace[0].revision, trace[0].children[0].revision, trace[0].children[0].children[0].revision);
        assert_eq!(chain, (2, 3, 4));
        assert_eq!(trace[0].children[0].children[0].children[0].revision, 5);
    }
}
