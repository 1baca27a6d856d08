//! GuaranteedUpdate: read, decide, compare-and-swap, and repeat if another writer was faster. Every change of
//! an existing object, with any verb, uses it.

use super::quota::{Charges, JudgedWrite, QuotaLock};
use super::service::claims_anything;
use super::{Registry, WriteContext, encode, entry_of, marked, namespace, uncommitted_entry};
use crate::entry::{Entry, UncommittedEntry};
use crate::error;
use crate::request::Target;
use crate::stage::View;
use crate::undecided::{Attempts, Undecided};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_storage::storage::{Guard, Outcome, Write};
use serde_json::Value;
use std::sync::Arc;

/// The decision about an object in a guaranteed update.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Store this state. If it equals the current one, nothing is written.
    Put(Value),
    /// Remove the object. The state is shown in the answer and in the DELETED event.
    Remove(Value),
    /// Keep the object as it is.
    Keep,
}

/// How much of an object a guaranteed update decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoding {
    /// All of it.
    Whole,
    /// What decides about a deletion; everything but the members that a deletion changes stays as stored.
    Deletion,
}

impl Decoding {
    fn read(self, target: &Target, entry: &Entry) -> Result<Value, Status> {
        match self {
            Self::Whole => target.read_stored(entry.parse()),
            Self::Deletion => Ok(entry.parse_for_deletion()),
        }
    }

    /// The bytes of the changed object.
    fn encode(self, target: &Target, current: Option<&Entry>, changed: &Value) -> Result<Bytes, Status> {
        match (self, current) {
            (Self::Whole, _) | (Self::Deletion, None) => encode(target, changed),
            (Self::Deletion, Some(entry)) => marked(target, entry, changed),
        }
    }

    /// The entry of the changed object, from its bytes.
    fn entry(
        self,
        target: &Target,
        current: Option<&Arc<Entry>>,
        changed: &Value,
        bytes: &Bytes,
    ) -> Result<UncommittedEntry, Status> {
        match (self, current) {
            (Self::Deletion, Some(entry)) => Ok(entry.marked(bytes.clone())),
            _ => uncommitted_entry(target, changed, bytes),
        }
    }
}

/// The result of a guaranteed update.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The object after the update; for a removal its last state with the revision of the removal.
    pub entry: Arc<Entry>,
    /// The effect of the update.
    pub effect: UpdateEffect,
}

/// The effect of a guaranteed update on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEffect {
    /// The object was absent and is created.
    Created,
    /// The object has changed.
    Changed,
    /// The new state equals the stored one: no new revision.
    Unchanged,
    /// The object is removed.
    Removed,
}

impl Registry {
    /// Changes an object from its current state to the state that `decide` returns.
    ///
    /// `decide` gets the current state with its resourceVersion, or `None` if the object is absent. It is
    /// called again with a newer state when the cached state turned out to be stale or another writer was
    /// faster, so it must have no side effects. A decision that is [`Undecided::Pending`] is made again after
    /// its future has completed, on the same state unless a newer one is known. On return the change is
    /// durable, or staged if `context` has a stage. The number of rounds is unbounded: every lost race means
    /// that another writer won. The request's time limit bounds them.
    ///
    /// # Errors
    /// The refusal of `decide` on a current state.
    pub async fn guaranteed_update<F>(
        &self,
        target: &Target,
        context: WriteContext,
        dry_run: bool,
        decide: F,
    ) -> Result<Updated, Status>
    where
        F: FnMut(Option<&Value>) -> Result<Decision, Undecided> + Send,
    {
        let span = tracing::debug_span!("registry", key = target.key());
        let update = self.update_loop(Decoding::Whole, target, context, dry_run, decide);
        tracing::Instrument::instrument(update, span).await
    }

    /// [`Registry::guaranteed_update`] of an object that is decoded as `decoding` says.
    pub(super) async fn update_loop<F>(
        &self,
        decoding: Decoding,
        target: &Target,
        context: WriteContext,
        dry_run: bool,
        mut decide: F,
    ) -> Result<Updated, Status>
    where
        F: FnMut(Option<&Value>) -> Result<Decision, Undecided> + Send,
    {
        let key = target.key();
        let view = self.view(&context);
        let mut current = view.get(target.resource, &key);
        // The cache may lag behind the storage: a refusal or a no-op counts only on a state known to be
        // current.
        let mut fresh = false;
        // Whether the stored value is encrypted with an old key, so that equal content is written too.
        let mut is_stale = false;
        let mut attempts = Attempts::default();
        loop {
            let before = current.as_ref().map(|entry| decoding.read(target, entry)).transpose()?;
            let Some(decision) = attempts.settle(decide(before.as_ref())).await? else { continue };
            // Released before the next decision, which may wait for webhooks.
            let mut lock = None;
            let commits = !dry_run && context.stage.is_none();
            let is_put = matches!(decision, Ok(Decision::Put(_)));
            let mut is_charged = false;
            let charged = match &decision {
                Ok(Decision::Put(new)) => {
                    let judged = JudgedWrite { target, old: before.as_ref(), new, commits };
                    is_charged = self.may_be_charged(&view, judged);
                    self.charge(&view, judged, &mut lock).await
                }
                Ok(Decision::Remove(_) | Decision::Keep) | Err(_) => Ok(None),
            };
            let step = decision.and_then(|next| Ok((next, charged?))).and_then(|decided| {
                let (before, current) = (before.as_ref(), current.as_ref());
                self.prepare(&view, Round { decoding, target, current, before, is_stale }, decided)
            });
            let mut step = match step {
                Ok(PendingWrite::Unchanged) | Err(_) if !fresh => {
                    drop(lock);
                    self.fresh().await?;
                    let newer = view.get(target.resource, &key);
                    fresh = true;
                    let is_old = revision_of(newer.as_ref()) != revision_of(current.as_ref());
                    // Claims and charges depend on other objects too.
                    if is_old || claims_anything(target) || is_charged {
                        current = newer;
                        continue;
                    }
                    lock = None;
                    step
                }
                step => step,
            };
            if is_put && !dry_run && matches!(step, Ok(PendingWrite::Unchanged)) {
                // Dropped before the storage is read: the future of every write would be larger with it.
                drop(step);
                is_stale = self.cache.storage().is_stale(&key).await.map_err(error::of_read)?;
                if is_stale {
                    continue;
                }
                step = Ok(PendingWrite::Unchanged);
            }
            let step = step.map_err(|refused| self.unreadable_or(&key, current.as_deref(), refused))?;
            let round =
                Round { decoding, target, current: current.as_ref(), before: before.as_ref(), is_stale };
            match self.attempt(&view, round, step, lock.as_mut(), &context, dry_run).await? {
                Attempt::Done(updated) => return Ok(updated),
                Attempt::Lost(newer) => {
                    current = newer;
                    fresh = true;
                    if claims_anything(target) || target.custom.is_some() || current.is_none() || is_charged {
                        // The lost guard may be that of a claim, the namespace, the definition or a quota:
                        // wait until the cache shows them.
                        self.fresh().await?;
                    }
                }
            }
        }
    }

    /// Why an object that is not served is not written: its value cannot be read, or else `refused`.
    fn unreadable_or(&self, key: &str, current: Option<&Entry>, refused: Status) -> Status {
        match self.cache.unreadable(key) {
            Some(value) if current.is_none() => self.status_of(&value),
            _ => refused,
        }
    }

    /// Turns a decision into the write to attempt.
    fn prepare(
        &self,
        view: &View,
        round: Round<'_>,
        (next, charged): (Decision, Option<Box<Charges>>),
    ) -> Result<PendingWrite, Status> {
        let Round { decoding, target, before, is_stale, .. } = round;
        let current = round.current.map(Arc::as_ref);
        match (next, current) {
            (Decision::Keep, _) | (Decision::Remove(_), None) => Ok(PendingWrite::Unchanged),
            (Decision::Put(mut value), _) => {
                let claims = self.claims(view, target, before, Some(&mut value))?;
                let bytes = decoding.encode(target, current, &value)?;
                if !is_stale && current.is_some_and(|entry| entry.is_stored_as(&bytes)) {
                    return Ok(PendingWrite::Unchanged);
                }
                Ok(PendingWrite::Put { value, bytes, claims, charged })
            }
            (Decision::Remove(last), Some(_)) => {
                let claims = self.claims(view, target, before, None)?;
                let bytes = decoding.encode(target, current, &last)?;
                Ok(PendingWrite::Remove { last, bytes, claims })
            }
        }
    }

    async fn attempt(
        &self,
        view: &View,
        Round { decoding, target, current, .. }: Round<'_>,
        step: PendingWrite,
        lock: Option<&mut QuotaLock<'_>>,
        context: &WriteContext,
        dry_run: bool,
    ) -> Result<Attempt, Status> {
        let (value, bytes, claims, charged, write) = match step {
            PendingWrite::Unchanged => {
                let entry = current.cloned().ok_or_else(|| super::not_found(target))?;
                if let Some(stage) = &context.stage {
                    // The transaction's commit must guard that the object is still unchanged.
                    stage.add(&[Guard { key: target.key(), revision: entry.revision }], Vec::new())?;
                }
                return Ok(Attempt::Done(Updated { entry, effect: UpdateEffect::Unchanged }));
            }
            PendingWrite::Put { value, bytes, claims, charged } => {
                (value, bytes.clone(), claims, charged, self.put(target, bytes))
            }
            PendingWrite::Remove { last, bytes, claims } => {
                (last, bytes, claims, None, Write::Delete { key: target.key() })
            }
        };
        let effect = match (&write, current) {
            (Write::Delete { .. }, _) => UpdateEffect::Removed,
            (Write::Put { .. }, None) => UpdateEffect::Created,
            (Write::Put { .. }, Some(_)) => UpdateEffect::Changed,
        };
        let expected = revision_of(current);
        let changed = decoding.entry(target, current, &value, &bytes)?;
        let done = |revision: i64| {
            let created = current.map_or(revision, |entry| entry.created);
            Attempt::Done(Updated { entry: Arc::new(changed.at(revision, created)), effect })
        };
        if dry_run {
            return Ok(done(expected));
        }
        super::check_definition(&self.cache, target)?;
        let mut guards = vec![Guard { key: target.key(), revision: expected }];
        if effect == UpdateEffect::Created {
            guards.extend(namespace::guard(view, target)?);
        }
        guards.extend(super::definition_guard(target));
        guards.extend(claims.guards);
        guards.extend(charged.iter().flat_map(|charges| charges.claims.guards.iter().cloned()));
        let mut writes = vec![write];
        writes.extend(claims.writes);
        writes.extend(charged.iter().flat_map(|charges| charges.claims.writes.iter().cloned()));
        let stored = (effect != UpdateEffect::Removed).then_some(&changed);
        match self.commit(guards, writes, stored, context).await? {
            Outcome::Committed { revision } => {
                self.charged(charged, lock, revision);
                Ok(done(revision))
            }
            Outcome::Lost { current } => {
                let newer = current.into_iter().next().flatten();
                let newer = newer.map(|raw| entry_of(target.resource, &raw)).transpose()?.map(Arc::new);
                Ok(Attempt::Lost(newer))
            }
        }
    }
}

/// One round of a guaranteed update: the object and the state on which the update is decided.
#[derive(Clone, Copy)]
struct Round<'r> {
    decoding: Decoding,
    target: &'r Target,
    current: Option<&'r Arc<Entry>>,
    /// The decoded `current`.
    before: Option<&'r Value>,
    /// Whether the stored value is encrypted with an old key.
    is_stale: bool,
}

/// The write that one round of a guaranteed update attempts.
enum PendingWrite {
    Unchanged,
    Put { value: Value, bytes: Bytes, claims: super::service::Claims, charged: Option<Box<Charges>> },
    Remove { last: Value, bytes: Bytes, claims: super::service::Claims },
}

enum Attempt {
    Done(Updated),
    Lost(Option<Arc<Entry>>),
}

fn revision_of(entry: Option<&Arc<Entry>>) -> i64 {
    entry.map_or(0, |entry| entry.revision)
}
