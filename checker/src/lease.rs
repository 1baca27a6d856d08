//! Lease check: evidence that a lease has ended must not appear before its time to live after the last grant or
//! renewal. That leases end at all is not checked: a server may be slow, stopped or killed.

use crate::history::{Call, History, Operation, Outcome, Refusal, Reply};
use crate::timeline::Timeline;
use crate::verdict::{Guarantee, Violation};
use crate::{describe, monotonic};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// A period during which a lease must exist.
struct LeasePeriod<'a> {
    /// The return of the call that started the period.
    from: u64,
    /// The earliest possible start of the lease plus its time to live.
    to: u64,
    call: &'a Call,
}

/// The evidence about one lease.
#[derive(Default)]
struct LeaseEvidence<'a> {
    periods: Vec<LeasePeriod<'a>>,
    /// The earliest time at which a client may have revoked it.
    revoked: Option<u64>,
    /// Calls whose answer shows that the lease does not exist.
    gone: Vec<&'a Call>,
}

pub(crate) fn check(history: &History, timeline: Option<&Timeline>) -> Vec<Violation> {
    let mut leases: BTreeMap<i64, LeaseEvidence<'_>> = BTreeMap::new();
    for call in &history.calls {
        add_evidence(&mut leases, call);
    }
    let refused = leases.iter().flat_map(|(id, lease)| early(*id, lease));
    let seen_by = monotonic::seen_by(history);
    let deleted = timeline.into_iter().flat_map(Timeline::expired).filter_map(|(revision, id)| {
        let (_, seen) = seen_by.range(revision..).next()?;
        leases.get(&id)?.deleted(id, revision, *seen)
    });
    refused.chain(deleted).collect()
}

impl LeaseEvidence<'_> {
    /// A violation if its keys' deletion was observed while the lease had to exist.
    fn deleted(&self, id: i64, revision: i64, seen: u64) -> Option<Violation> {
        let life = self.periods.iter().find(|life| life.from < seen && seen < life.to)?;
        self.revoked.is_none_or(|revoked| revoked > seen).then(|| Violation {
            guarantee: Guarantee::LeaseKept,
            summary: format!("the keys of lease {id} went before its time"),
            expected: format!("they stay until {} at least", describe::time(life.to)),
            seen: format!("revision {revision}, which deleted them, was seen at {}", describe::time(seen)),
            window: vec![describe::call(life.call)],
        })
    }
}

fn add_evidence<'a>(leases: &mut BTreeMap<i64, LeaseEvidence<'a>>, call: &'a Call) {
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
            lease.periods.push(LeasePeriod { from: call.ret, to, call });
        }
        Ok(_) | Err(_) => lease.gone.push(call),
    }
}

fn early<'a>(id: i64, lease: &'a LeaseEvidence<'_>) -> impl Iterator<Item = Violation> + 'a {
    let excused = |call: &Call| lease.revoked.is_some_and(|revoked| revoked <= call.ret);
    lease.gone.iter().filter(move |call| !excused(call)).filter_map(move |call| {
        let life = lease.periods.iter().find(|life| life.from < call.call && call.ret < life.to)?;
        Some(Violation {
            guarantee: Guarantee::LeaseKept,
            summary: format!("lease {id} ended before its time"),
            expected: format!("it periods until {} at least", describe::time(life.to)),
            seen: format!("it did not exist at {}", describe::time(call.ret)),
            window: vec![describe::call(life.call), describe::call(call)],
        })
    })
}
