//! Leases live long enough: whatever shows that a lease is gone comes no earlier than its time after it was last granted or
//! renewed. That leases end at all is not judged: a server may be slow, stopped or killed.

use std::collections::BTreeMap;

use crate::describe;
use crate::history::{Call, History, Operation, Outcome, Refusal, Reply};
use crate::monotonic;
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};

const SECOND: u64 = 1_000_000_000;

/// A time during which a lease must live.
struct Life<'a> {
    /// From the return of the call that began it,
    from: u64,
    /// to the time that the call, as early as it can have been done, gave it.
    to: u64,
    call: &'a Call,
}

/// What is known of one lease.
#[derive(Default)]
struct Lease<'a> {
    lives: Vec<Life<'a>>,
    /// Somebody may have ended it, from then on.
    revoked: Option<u64>,
    /// Answers that say that there is no such lease.
    gone: Vec<&'a Call>,
}

pub(crate) fn check(history: &History, timeline: Option<&Timeline>) -> Vec<Violation> {
    let mut leases: BTreeMap<i64, Lease<'_>> = BTreeMap::new();
    for call in &history.calls {
        note(&mut leases, call);
    }
    let refused = leases.iter().flat_map(|(id, lease)| early(*id, lease));
    let seen_by = monotonic::seen_by(history);
    let deleted = timeline.into_iter().flat_map(Timeline::expired).filter_map(|(revision, id)| {
        let (_, seen) = seen_by.range(revision..).next()?;
        leases.get(&id)?.deleted(id, revision, *seen)
    });
    refused.chain(deleted).collect()
}

impl Lease<'_> {
    /// Its keys went, as somebody had seen by then, though it had to live.
    fn deleted(&self, id: i64, revision: i64, seen: u64) -> Option<Violation> {
        let life = self.lives.iter().find(|life| life.from < seen && seen < life.to)?;
        self.revoked.is_none_or(|revoked| revoked > seen).then(|| Violation {
            guarantee: Guarantee::LeaseKept,
            summary: format!("the keys of lease {id} went before its time"),
            expected: format!("they stay until {} at least", describe::time(life.to)),
            seen: format!("revision {revision}, which deleted them, was seen at {}", describe::time(seen)),
            window: vec![describe::call(life.call)],
        })
    }
}

fn note<'a>(leases: &mut BTreeMap<i64, Lease<'a>>, call: &'a Call) {
    let (id, ttl) = match (&call.operation, &call.outcome) {
        (Operation::LeaseGrant { id, .. }, Outcome::Ok(Reply::LeaseGrant { ttl, .. })) => (*id, *ttl),
        (Operation::LeaseKeepAlive { id }, Outcome::Ok(Reply::LeaseKeepAlive { ttl })) => (*id, *ttl),
        (Operation::LeaseRevoke { id }, outcome) => {
            let lease = leases.entry(*id).or_default();
            if *outcome == Outcome::Failed(Refusal::LeaseNotFound) {
                lease.gone.push(call);
            } else if !matches!(outcome, Outcome::Failed(_)) {
                lease.revoked = Some(lease.revoked.map_or(call.call, |at| at.min(call.call)));
            }
            return;
        }
        _ => return,
    };
    let lease = leases.entry(id).or_default();
    match u64::try_from(ttl) {
        Ok(ttl) if ttl > 0 => {
            let to = call.call.saturating_add(ttl.saturating_mul(SECOND));
            lease.lives.push(Life { from: call.ret, to, call });
        }
        Ok(_) | Err(_) => lease.gone.push(call),
    }
}

fn early<'a>(id: i64, lease: &'a Lease<'_>) -> impl Iterator<Item = Violation> + 'a {
    let excused = |call: &Call| lease.revoked.is_some_and(|revoked| revoked <= call.ret);
    lease.gone.iter().filter(move |call| !excused(call)).filter_map(move |call| {
        let life = lease.lives.iter().find(|life| life.from < call.call && call.ret < life.to)?;
        Some(Violation {
            guarantee: Guarantee::LeaseKept,
            summary: format!("lease {id} ended before its time"),
            expected: format!("it lives until {} at least", describe::time(life.to)),
            seen: format!("it was gone at {}", describe::time(call.ret)),
            window: vec![describe::call(life.call), describe::call(call)],
        })
    })
}
