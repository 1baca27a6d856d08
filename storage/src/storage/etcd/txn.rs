//! Encodes a commit as an etcd transaction and decodes the outcome. Pure. The guards become compares of mod
//! revisions. The else branch reads the guarded keys, so that a lost race returns the winner's values in one
//! round trip. The note is one more put.

use super::keys::Keys;
use super::note::Note;
use crate::storage::{Commit, Outcome, Write};
use bytes::Bytes;
use kstore_proto::etcd::etcdserverpb::request_op::Request;
use kstore_proto::etcd::etcdserverpb::response_op::Response;
use kstore_proto::etcd::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse, compare,
};
use kstore_proto::etcd::mvccpb::KeyValue;

/// The transaction that executes `commit`. `lease_of` returns the lease for a time to live that occurs in it.
pub(super) fn request(
    keys: &Keys,
    commit: &Commit,
    note: &Note,
    lease_of: impl Fn(u64) -> i64,
) -> TxnRequest {
    let compares = commit.guards.iter().map(|guard| unchanged(keys.etcd_key(&guard.key), guard.revision));
    let writes = commit.writes.iter().map(|write| match write {
        Write::Put { key, value, ttl_seconds } => {
            put(keys.etcd_key(key), value.clone(), lease_of(*ttl_seconds))
        }
        Write::Delete { key } => op(Request::RequestDeleteRange(DeleteRangeRequest {
            key: keys.etcd_key(key),
            ..Default::default()
        })),
    });
    let guarded = commit.guards.iter().map(|guard| read(keys.etcd_key(&guard.key)));
    TxnRequest {
        compare: compares.collect(),
        success: writes.chain([put(keys.note(), note.encode(), 0)]).collect(),
        failure: guarded.chain([read(keys.note())]).collect(),
    }
}

/// Whether a second attempt is harmless: after the first is executed, one of the guards no longer holds.
pub(super) fn is_repeatable(commit: &Commit) -> bool {
    commit.guards.iter().any(|guard| writes(commit, &guard.key))
}

/// Whether the commit writes `key`.
pub(super) fn writes(commit: &Commit, key: &str) -> bool {
    commit.writes.iter().any(|write| match write {
        Write::Put { key: written, .. } | Write::Delete { key: written } => written == key,
    })
}

/// The decoded response to a commit.
pub(super) struct TxnOutcome {
    pub outcome: Outcome,
    /// The newest revision of the storage.
    pub revision: i64,
    /// If a guard failed: the note of the newest commit, and its revision.
    pub last: Option<(Note, i64)>,
}

/// Decodes the response to [`request`].
pub(super) fn answer(keys: &Keys, response: TxnResponse) -> TxnOutcome {
    let revision = response.header.map_or(0, |header| header.revision);
    if response.succeeded {
        return TxnOutcome { outcome: Outcome::Committed { revision }, revision, last: None };
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
    TxnOutcome { outcome: Outcome::Lost { current }, revision, last }
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
