//! Small workloads that leave every kind of trace on disk.

use crate::fuzzing::model::Model;
use crate::runtime::request::{Request, Response};
use crate::{Delete, KeyRange, LeaseId, Op, Put, Revision, Txn};
use std::fmt;

/// A step: requests that share one write of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Txns(Vec<Txn>),
    Compact(i64),
    Grant(i64),
    Revoke(i64),
    /// Closes the store and opens it again.
    Reopen,
}

pub(super) fn put(key: &str, size: usize) -> Txn {
    Txn::of(vec![Op::put(key.to_owned(), vec![b'v'; size])])
}

pub(super) fn leased(key: &str, lease: i64) -> Txn {
    Txn::of(vec![Op::Put(Put { lease: LeaseId(lease), ..Put::new(key.to_owned(), "leased") })])
}

pub(super) fn delete(keys: KeyRange) -> Txn {
    Txn::of(vec![Op::Delete(Delete { keys, prev_kv: false })])
}

/// A workload with every kind of request, and values large enough to fill log segments and engine files.
pub(super) fn everything() -> Vec<Step> {
    vec![
        Step::Txns(vec![put("a", 10), put("b", 700).noted("why b"), put("a", 20)]),
        Step::Grant(7),
        Step::Txns(vec![leased("l1", 7), leased("l2", 7)]),
        Step::Txns(vec![delete(KeyRange::single("a")), put("c", 5_000)]),
        Step::Compact(4),
        Step::Txns(vec![put("b", 600), put("c", 4_000), put("a", 3)]),
        Step::Reopen,
        Step::Txns(vec![Txn::of(vec![Op::put("x", "1"), Op::delete("b"), Op::put("y", "2")]).noted("three")]),
        Step::Revoke(7),
        Step::Compact(10),
        Step::Txns(vec![put("c", 5_000), put("d", 5_000)]),
        Step::Txns(vec![put("c", 8_000)]),
        Step::Txns(vec![put("d", 8_000)]),
        Step::Txns(vec![delete(KeyRange::prefix("x"))]),
    ]
}

/// Thirty small requests with many compactions, to test checkpoints and compaction together.
pub(super) fn churn() -> Vec<Step> {
    let mut steps = vec![Step::Grant(1)];
    for round in 0..6 {
        let base = 5 * round;
        steps.extend([
            Step::Txns(vec![put("k", 600), put("j", 40)]),
            Step::Txns(vec![delete(KeyRange::single("k")), leased("l", 1)]),
            Step::Txns(vec![put("k", 300)]),
            Step::Compact(base + 4),
        ]);
    }
    steps.push(Step::Revoke(1));
    steps.push(Step::Compact(32));
    steps
}

/// Formats a step briefly for reports.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Txns(txns) = self else { return write!(f, "{self:?}") };
        for txn in txns {
            f.write_str("[")?;
            for op in &txn.success {
                match op {
                    Op::Put(put) => write!(f, " put {:?} {} bytes, {}", put.key, put.value.len(), put.lease)?,
                    Op::Delete(delete) => write!(f, " delete {:?}", delete.keys)?,
                    Op::Range(_) | Op::Txn(_) => write!(f, " {op:?}")?,
                }
            }
            f.write_str(" ]")?;
        }
        Ok(())
    }
}

impl Step {
    /// Number of requests.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Txns(txns) => txns.len(),
            Self::Compact(_) | Self::Grant(_) | Self::Revoke(_) => 1,
            Self::Reopen => 0,
        }
    }

    /// Applies the first `requests` requests to a model.
    pub(super) fn apply(&self, model: &mut Model, requests: usize) {
        match self {
            Self::Txns(txns) => txns[..requests].iter().for_each(|txn| drop(model.txn(txn))),
            _ if requests == 0 => {}
            Self::Compact(revision) => model.compacted = *revision,
            Self::Grant(id) => drop(model.leases.insert(*id, 60)),
            Self::Revoke(id) => model.revoke(*id),
            Self::Reopen => {}
        }
    }

    /// Whether a store in the model's state accepts all of the step.
    pub(super) fn is_possible(&self, model: &Model) -> bool {
        match self {
            Self::Txns(txns) => txns.iter().all(|txn| {
                txn.success.iter().all(|op| match op {
                    Op::Put(put) => put.lease.is_none() || model.leases.contains_key(&put.lease.0),
                    Op::Delete(_) | Op::Range(_) | Op::Txn(_) => true,
                })
            }),
            Self::Compact(revision) => model.compacted < *revision && *revision <= model.revision(),
            Self::Grant(id) => !model.leases.contains_key(id),
            Self::Revoke(id) => model.leases.contains_key(id),
            Self::Reopen => true,
        }
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        match self {
            Self::Txns(txns) => txns.iter().cloned().map(Request::Txn).collect(),
            Self::Compact(revision) => vec![Request::Compact(Revision(*revision))],
            Self::Grant(id) => {
                vec![Request::Grant { id: LeaseId(*id), ttl: 60, now: tokio::time::Instant::now() }]
            }
            Self::Revoke(id) => vec![Request::Revoke(LeaseId(*id))],
            Self::Reopen => vec![],
        }
    }
}

/// Whether an answer acknowledges its request.
pub(super) fn is_done(answer: &Response) -> bool {
    match answer {
        Response::Txn(result) => result.is_ok(),
        Response::Compact(result) => result.is_ok(),
        Response::Grant(result) => result.is_ok(),
        Response::Revoke(result) => result.is_ok(),
        Response::Each(_)
        | Response::RevokedInPart
        | Response::KeepAlive(_)
        | Response::Inspect(_)
        | Response::List(_)
        | Response::Alarm(_) => false,
    }
}
