//! The writer: the single owner of staged state. It evaluates requests in order and hands their commits over to be
//! logged and published. `writer_thread` runs it; in memory the caller runs it. It neither blocks nor reads a
//! clock.

use crate::mvcc::staged::{Overlay, StagedView};
use crate::published::core::Core;
use crate::published::lease_clock::duration;
use crate::published::quota::{self, Growth, LEASE_COST};
use crate::published::superseded::SupersededBytes;
use crate::runtime::group::Group;
use crate::runtime::request::{Request, Response};
use crate::txn::execute::{Execution, SizeChange};
use crate::txn::lease_table::LeaseTable;
use crate::types::alarm::{Alarm, AlarmChange, Alarms};
use crate::types::commit::{Commit, LeaseChange};
use crate::types::error::{CompactError, LeaseError, Stopped, TxnError};
use crate::types::event::Event;
use crate::types::lease::{LeaseGranted, LeaseRenewed};
use crate::types::state::DurableState;
use crate::{LeaseId, Revision, Txn, TxnResult};
use bytes::Bytes;
use kstore_nondet::Rng;
use std::sync::Arc;
use tokio::time::Instant;

/// Evaluates requests on staged state, and collects their commits.
pub(crate) struct Writer {
    pub(crate) core: Arc<Core>,
    rng: Rng,
    overlay: Overlay,
    leases: LeaseTable,
    revision: Revision,
    compacted: Revision,
    alarms: Alarms,
    seq: u64,
    /// Staged commits that are not handed over yet.
    staged: Vec<Arc<Commit>>,
    /// Expiry of each lease that the staged commits grant, in order.
    deadlines: Vec<Instant>,
    /// Which part of the history has how many bytes.
    superseded: SupersededBytes,
}

impl Writer {
    /// Creates the writer of a store in which nothing is staged: it starts at the published state, whose leases are
    /// `leases`.
    pub(crate) fn new(core: Arc<Core>, rng: Rng, leases: LeaseTable) -> Self {
        let DurableState { seq, revision, compacted, alarms, leases: _ } = core.visible().state;
        let bound = core.limits.history_bytes.unwrap_or(u64::MAX);
        let retained = (compacted.max(Revision::FIRST), revision);
        let superseded = SupersededBytes::new(bound, retained, core.usage.history());
        Self {
            superseded,
            core,
            rng,
            overlay: Overlay::default(),
            leases,
            revision,
            compacted,
            alarms,
            seq,
            staged: Vec::new(),
            deadlines: Vec::new(),
        }
    }

    /// The leases in staged state.
    pub(crate) fn leases(&self) -> &LeaseTable {
        &self.leases
    }

    /// The revision up to which staged state is compacted.
    pub(crate) fn compacted(&self) -> Revision {
        self.compacted
    }

    /// Evaluates a request and stages its effects. The answer may be sent only after everything staged so far is
    /// durable and published, since it may depend on it.
    pub(crate) fn execute(&mut self, request: &Request) -> Response {
        let _span = tracing::debug_span!("writer", step = "execute").entered();
        match request {
            Request::Txn(txn) => Response::Txn(self.txn(txn)),
            Request::Each(txns) => Response::Each(self.each(txns)),
            Request::Grant { id, ttl, now } => Response::Grant(self.grant(*id, *ttl, *now)),
            Request::Revoke(id) => {
                self.revoke(*id).map_or_else(|error| Response::Revoke(Err(error)), Response::from)
            }
            Request::Expire { id, now } => {
                self.expire(*id, *now).map_or_else(|error| Response::Revoke(Err(error)), Response::from)
            }
            Request::KeepAlive { id, now } => Response::KeepAlive(self.keep_alive(*id, *now)),
            Request::Inspect { id, keys } => Response::Inspect(self.inspect(*id, *keys)),
            Request::List => Response::List(self.leases.iter().map(|(id, _)| id).collect()),
            Request::Compact(revision) => Response::Compact(self.compact(*revision)),
            Request::Alarm(change) => Response::Alarm(self.change_alarms(*change)),
        }
    }

    /// Appends the newly staged commits to `group`, which is logged and published after all groups before it.
    pub(crate) fn hand_over(&mut self, group: &mut Group) {
        group.commits.append(&mut self.staged);
        group.deadlines.append(&mut self.deadlines);
    }

    /// Publishes and stores the staged commits in a store without a log.
    pub(crate) fn commit_in_memory(&mut self) -> Result<(), Stopped> {
        let mut group = Group::default();
        self.hand_over(&mut group);
        group.publish(&self.core);
        if let Err(error) = self.core.write_to_engine(&group.commits) {
            self.core.fail("the engine failed", &error);
            return Err(Stopped);
        }
        self.core.update_usage(group.commits.iter().map(|commit| commit.cost()).sum());
        self.core.deliver();
        Ok(())
    }

    /// Evaluates `run` on staged state. Returns its result and its events.
    fn evaluate<T>(
        &mut self,
        note: Option<Bytes>,
        run: impl FnOnce(&mut Execution<'_>) -> T,
    ) -> (T, Vec<Arc<Event>>) {
        let core = self.core.clone();
        let visible = core.visible();
        self.overlay.forget(visible.state.revision);
        let mut execution = Execution {
            index: &visible.index,
            overlay: &mut self.overlay,
            leases: &mut self.leases,
            base: self.revision,
            compacted: self.compacted,
            note,
            fetch: &|key| core.fetch(&visible, key),
            deletes_max: core.limits.commit_bytes,
            reads_max: core.limits.read_bytes,
            events: Vec::new(),
            sizes: SizeChange::default(),
        };
        let result = run(&mut execution);
        let (events, SizeChange { added, removed, superseded }) = (execution.events, execution.sizes);
        self.core.usage.change_current(added, removed);
        if superseded > 0 {
            self.superseded.add(self.revision.next(), superseded);
        }
        (result, events)
    }

    fn stage(&mut self, events: Vec<Arc<Event>>, change: Commit) {
        if !events.is_empty() {
            self.revision = self.revision.next();
        }
        self.seq += 1;
        let commit = Commit { seq: self.seq, revision: self.revision, events: events.into(), ..change };
        self.core.usage.staged(commit.cost());
        self.staged.push(Arc::new(commit));
    }

    /// Raises or disarms an alarm. Returns whether that changed the alarms.
    fn change_alarms(&mut self, change: AlarmChange) -> bool {
        let (before, after) = (self.alarms, self.alarms.after(change));
        if before == after {
            return false;
        }
        self.alarms = after;
        for alarm in Alarm::ALL {
            match (before.contains(alarm), after.contains(alarm)) {
                (false, true) => {
                    let reason = self.core.no_space_reason(after).filter(|_| alarm == Alarm::NoSpace);
                    let reason = reason.map(tracing::field::display);
                    tracing::warn!(%alarm, reason, "alarm raised: writes are refused");
                }
                (true, false) => tracing::info!(%alarm, ?change, "alarm cleared: writes are accepted again"),
                (false, false) | (true, true) => {}
            }
        }
        self.stage(Vec::new(), Commit { alarms: Some(self.alarms), ..Commit::default() });
        true
    }

    /// Whether a request that may write `cost` bytes fits the quota and the disk. The first request that does not fit
    /// raises the alarm. The first request after free space is sufficient again ends an alarm that low space raised.
    /// `growth` is asked only near the quota of a store whose history has a bound of its own.
    fn afford(&mut self, cost: u64, growth: impl FnOnce(&Self) -> Growth) -> bool {
        if cost == 0 {
            return true;
        }
        self.bound_history();
        if self.alarms.is_kept(Alarm::NoSpace) {
            return false;
        }
        if !self.fits_quota(cost, growth) {
            let change = match self.core.limits.history_bytes {
                None => AlarmChange::Raise(Alarm::NoSpace),
                Some(_) => AlarmChange::QuotaReached,
            };
            self.change_alarms(change);
            return false;
        }
        let low = if self.core.is_low() { AlarmChange::LowDisk } else { AlarmChange::DiskRecovered };
        self.change_alarms(low);
        // The alarm of a quota without history refuses only what does not fit.
        !self.alarms.is_disk_low()
    }

    fn fits_quota(&self, cost: u64, growth: impl FnOnce(&Self) -> Growth) -> bool {
        let Some(quota) = self.core.limits.quota_bytes else { return true };
        let usage = &self.core.usage;
        if self.core.limits.history_bytes.is_none() {
            return usage.used().saturating_add(cost) < quota;
        }
        let current = usage.current();
        current.saturating_add(cost) < quota || growth(self).fits(current, quota)
    }

    /// The most that a transaction may add to the current versions.
    fn growth(&self, txn: &Txn) -> Growth {
        let visible = self.core.visible();
        let staged = StagedView { index: &visible.index, overlay: &self.overlay };
        Growth::of(txn, &|key| staged.live(key).map(|kv| kv.current_bytes()))
    }

    /// Compacts the oldest part of a history above its bound, unless the removal of the last part is not over. The cost does not depend on
    /// the number of keys; the background worker removes the versions.
    fn bound_history(&mut self) {
        let Some(bound) = self.core.limits.history_bytes.filter(|_| self.core.has_excess_history()) else {
            return;
        };
        if !self.superseded.is_due(bound)
            || self.core.swept() < self.compacted
            || !self.core.pins.has_none_delayed()
            || self.is_corrupt()
        {
            return;
        }
        // Compressed versions take fewer bytes than they were counted with: the part to keep is a part of both.
        let (counted, held) = (u128::from(self.superseded.bytes()), u128::from(self.core.usage.history()));
        let keep = counted * u128::from(bound / 4 * 3) / held.max(1);
        let to = self.superseded.bound_to(u64::try_from(keep).unwrap_or(u64::MAX));
        // A client that resumes inside the newest revision needs the state before it.
        let newest = Revision(self.revision.0 - 1);
        let to = to.unwrap_or(newest).min(newest);
        if to > self.compacted {
            tracing::info!(bytes = self.core.usage.history(), bound, "history is larger than its bound");
            // A revision between the compacted and the current one is not refused.
            let _ = self.compact(to);
        }
    }

    /// Ends the alarm of a quota when enough is deleted.
    fn free_quota(&mut self) {
        let quota = self.core.limits.quota_bytes.filter(|_| self.core.limits.history_bytes.is_some());
        if self.alarms.is_at_quota()
            && quota.is_none_or(|quota| quota::has_room(self.core.usage.current(), quota))
        {
            self.change_alarms(AlarmChange::QuotaFree);
        }
    }

    fn is_corrupt(&self) -> bool {
        self.alarms.contains(Alarm::Corrupt)
    }

    fn txn(&mut self, txn: &Txn) -> Result<TxnResult, TxnError> {
        if self.is_corrupt() && !txn.is_read_only() {
            return Err(TxnError::Corrupt);
        }
        if !self.afford(quota::cost(txn), |writer| writer.growth(txn)) {
            return Err(TxnError::NoSpace);
        }
        let (result, events) = self.evaluate(txn.note.clone(), |execution| execution.txn(txn));
        let metrics = &self.core.metrics;
        metrics.txns.add(1);
        if result.as_ref().is_ok_and(|result| !result.succeeded) {
            metrics.txns_failed.add(1);
        }
        if !events.is_empty() {
            let deletes = events.iter().filter(|event| event.kind == crate::EventKind::Delete).count() as u64;
            metrics.deletes.add(deletes);
            metrics.puts.add(events.len() as u64 - deletes);
            self.stage(events, Commit { note: txn.note.clone(), ..Commit::default() });
            self.free_quota();
        }
        result
    }

    /// Evaluates transactions one after the other. Those that come after the bytes of a group are refused, since all of them are logged and
    /// published as one piece.
    fn each(&mut self, txns: &[Txn]) -> Vec<Result<TxnResult, TxnError>> {
        let mut bytes = 0;
        let results = txns.iter().map(|txn| {
            if bytes >= self.core.limits.commit_bytes {
                return Err(TxnError::TooLarge);
            }
            let before = self.staged.len();
            let result = self.txn(txn);
            bytes += self.staged[before..].iter().map(|commit| commit.cost()).sum::<usize>();
            result
        });
        results.collect()
    }

    fn grant(&mut self, id: LeaseId, ttl: i64, now: Instant) -> Result<LeaseGranted, LeaseError> {
        if self.is_corrupt() {
            return Err(LeaseError::Corrupt);
        }
        if !self.afford(LEASE_COST, |_| Growth::of_lease()) {
            return Err(LeaseError::NoSpace);
        }
        if self.leases.contains(id) {
            return Err(LeaseError::Exists(id));
        }
        if self.leases.len() >= self.core.limits.leases {
            return Err(LeaseError::TooMany);
        }
        let id = if id.is_none() { self.choose_lease_id() } else { id };
        self.core.metrics.leases_granted.add(1);
        self.leases.grant(id, ttl);
        self.deadlines.push(now + duration(ttl));
        self.stage(Vec::new(), Commit { leases: vec![LeaseChange::Granted(id, ttl)], ..Commit::default() });
        Ok(LeaseGranted { id, ttl, revision: self.revision })
    }

    fn choose_lease_id(&self) -> LeaseId {
        loop {
            let id = LeaseId((self.rng.next_u64() >> 1) as i64);
            if !id.is_none() && !self.leases.contains(id) {
                return id;
            }
        }
    }

    /// Revokes a lease. Deletes at most as many of its keys as one commit may hold; the caller repeats the request
    /// until all are deleted. Meanwhile the lease cannot be renewed, and no key can be attached to it. After a crash it
    /// still has its remaining keys.
    fn revoke(&mut self, id: LeaseId) -> Result<RevokeOutcome, LeaseError> {
        if self.is_corrupt() {
            return Err(LeaseError::Corrupt);
        }
        if !self.leases.contains(id) {
            return Err(LeaseError::NotFound(id));
        }
        self.core.leases.mark_ending(id);
        self.leases.begin_end(id);
        let (keys, all) = self.leases.keys_within(id, self.core.limits.commit_bytes);
        let ((), events) = self.evaluate(None, |execution| execution.delete_keys(keys));
        if !all {
            self.stage(events, Commit::default());
            self.free_quota();
            return Ok(RevokeOutcome::InPart);
        }
        self.core.metrics.leases_revoked.add(1);
        self.leases.remove(id);
        self.stage(events, Commit { leases: vec![LeaseChange::Gone(id)], ..Commit::default() });
        self.free_quota();
        Ok(RevokeOutcome::Whole(self.revision))
    }

    /// Revokes an expired lease. A lease that was renewed while its expiry was queued stays.
    fn expire(&mut self, id: LeaseId, now: Instant) -> Result<RevokeOutcome, LeaseError> {
        if !self.is_corrupt() && self.leases.contains(id) && !self.core.leases.mark_ending_if_expired(id, now)
        {
            return Ok(RevokeOutcome::Whole(self.revision));
        }
        let revoked = self.revoke(id);
        if matches!(revoked, Ok(RevokeOutcome::Whole(_))) {
            self.core.metrics.leases_expired.add(1);
        }
        revoked
    }

    /// Renews a lease that the lease clock could not renew. A lease that has expired is revoked here, so that the
    /// answer is sent after its removal. If the lease's grant is not published yet, the caller renews the lease after
    /// the publication.
    fn keep_alive(&mut self, id: LeaseId, now: Instant) -> Result<LeaseRenewed, LeaseError> {
        let ttl = self.leases.ttl(id).ok_or(LeaseError::NotFound(id))?;
        let revision = self.revision;
        if self.core.leases.renew(id, now).is_none() && self.core.leases.deadline(id).is_some() {
            self.expire(id, now)?;
            if !self.leases.lives(id) {
                return Err(LeaseError::NotFound(id));
            }
            // Another renewal happened between the two reads of the clock: the lease stays.
        }
        Ok(LeaseRenewed { ttl, revision })
    }

    fn inspect(&self, id: LeaseId, keys: bool) -> Result<(i64, Vec<Bytes>, Revision), LeaseError> {
        let ttl = self.leases.ttl(id).ok_or(LeaseError::NotFound(id))?;
        Ok((ttl, if keys { self.leases.keys(id) } else { Vec::new() }, self.revision))
    }

    fn compact(&mut self, requested: Revision) -> Result<(), CompactError> {
        if self.is_corrupt() {
            return Err(CompactError::Corrupt);
        }
        let (compacted, current) = (self.compacted, self.revision);
        if requested <= compacted {
            return Err(CompactError::Compacted { requested, compacted });
        }
        if requested > current {
            return Err(CompactError::Future { requested, current });
        }
        self.compacted = requested;
        self.superseded.compact(requested);
        tracing::info!(revision = %requested, %current, "history compacted");
        self.stage(Vec::new(), Commit { compacted: Some(requested), ..Commit::default() });
        Ok(())
    }
}

/// Progress of a revocation.
#[derive(Clone, Copy, Debug)]
enum RevokeOutcome {
    /// All keys are deleted, the last one in this revision.
    Whole(Revision),
    /// Some keys remain.
    InPart,
}

impl From<RevokeOutcome> for Response {
    fn from(revoked: RevokeOutcome) -> Self {
        match revoked {
            RevokeOutcome::Whole(revision) => Self::Revoke(Ok(revision)),
            RevokeOutcome::InPart => Self::RevokedInPart,
        }
    }
}
