//! A commit as an etcd transaction, and its answer as an outcome. Pure. The guards become compares of modification revisions;
//! the else branch reads the guarded keys, so that a lost race tells in one round trip what won; the note is one more put.

use super::keys::Keys;
use super::note::Note;
use crate::storage::{Commit, Outcome, Write};
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse, compare,
    request_op::Request, response_op::Response,
};
use kstore_proto::etcd::mvccpb::KeyValue;

/// The transaction that carries `commit` out. `lease_of` has the lease of each time to live that occurs.
pub(super) fn request(
    keys: &Keys,
    commit: &Commit,
    note: &Note,
    lease_of: impl Fn(u64) -> i64,
) -> TxnRequest {
    let compares = commit.guards.iter().map(|guard| unchanged(keys.outer(&guard.key), guard.revision));
    let writes = commit.writes.iter().map(|write| match write {
        Write::Put { key, value, ttl_seconds } => put(keys.outer(key), value.clone(), lease_of(*ttl_seconds)),
        Write::Delete { key } => {
            op(Request::RequestDeleteRange(DeleteRangeRequest { key: keys.outer(key), ..Default::default() }))
        }
    });
    let guarded = commit.guards.iter().map(|guard| read(keys.outer(&guard.key)));
    TxnRequest {
        compare: compares.collect(),
        success: writes.chain([put(keys.note(), note.encode(), 0)]).collect(),
        failure: guarded.chain([read(keys.note())]).collect(),
    }
}

/// Whether a second attempt can do no harm: once it is carried out, one of its guards does not hold any more.
pub(super) fn is_repeatable(commit: &Commit) -> bool {
    commit.guards.iter().any(|guard| writes(commit, &guard.key))
}

/// Whether `key` is among what the commit writes.
pub(super) fn writes(commit: &Commit, key: &str) -> bool {
    commit.writes.iter().any(|write| match write {
        Write::Put { key: written, .. } | Write::Delete { key: written } => written == key,
    })
}

/// What an answer says.
pub(super) struct Answer {
    pub outcome: Outcome,
    /// The newest revision of the storage.
    pub revision: i64,
    /// If the guards did not hold: the note of the newest commit, and its revision.
    pub last: Option<(Note, i64)>,
}

/// Reads the answer to [`request`].
pub(super) fn answer(keys: &Keys, response: TxnResponse) -> Answer {
    let revision = response.header.map_or(0, |header| header.revision);
    if response.succeeded {
        return Answer { outcome: Outcome::Committed { revision }, revision, last: None };
    }
    let mut current: Vec<Option<KeyValue>> = response
        .responses
        .into_iter()
        .map(|response| match response.response {
            Some(Response::ResponseRange(range)) => range.kvs.into_iter().next(),
            _ => None,
        })
        .collect();
    let note = current.pop().flatten();
    let last = note.and_then(|kv| Some((keys.note_of(&kv)?, kv.mod_revision)));
    let current = current.into_iter().map(|kv| kv.and_then(|kv| keys.raw(kv))).collect();
    Answer { outcome: Outcome::Lost { current }, revision, last }
}

fn unchanged(key: Bytes, revision: i64) -> Compare {
    Compare {
        result: compare::CompareResult::Equal.into(),
        target: compare::CompareTarget::Mod.into(),
        key,
        range_end: Bytes::new(),
        target_union: Some(compare::TargetUnion::ModRevision(revision)),
    }
}

fn put(key: Bytes, value: Bytes, lease: i64) -> RequestOp {
    op(Request::RequestPut(PutRequest { key, value, lease, ..Default::default() }))
}

fn read(key: Bytes) -> RequestOp {
    op(Request::RequestRange(RangeRequest { key, ..Default::default() }))
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}
