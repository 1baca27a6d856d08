//! GuaranteedUpdate: read, decide, compare-and-swap, and again if another writer was faster. The only way in which an
//! existing object changes, whatever the verb.

use super::quota::{Charges, Judged, QuotaTurn};
use super::service::claims_anything;
use super::{Mandate, Registry, View, encode, entry_of, namespace, put};
use crate::cache::Entry;
use crate::request::Target;
use crate::storage::{Guard, Outcome, Write};
use crate::undecided::Undecided;
use bytes::Bytes;
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// What should become of an object.
#[derive(Clone, Debug)]
pub enum Next {
    /// This state. If it equals the current one, nothing is written.
    Put(Value),
    /// Nothing: it is removed. The state is what the answer and the DELETED event show.
    Remove(Value),
    /// Leave it as it is.
    Keep,
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The state after; for a removal the last state with the revision of the removal.
    pub entry: Arc<Entry>,
    /// What happened.
    pub effect: UpdateEffect,
}

/// What a guaranteed update did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateEffect {
    /// The object was absent and is there now.
    Created,
    /// It changed.
    Changed,
    /// It equals what was there: no new revision.
    Unchanged,
    /// It is gone.
    Removed,
}

impl Registry {
    /// Brings the object from whatever state it has to what `decide` makes of it.
    ///
    /// `decide` gets the current state with its resourceVersion (`None`: absent), and is called again from the start with a
    /// newer state when the cached state turned out to be old or another writer came first; so it must have no effects. A decision
    /// that is [`Undecided::Pending`] is made again after its future has completed, on the same state if that is still known.
    /// On return the change is durable, or staged if the mandate has a stage. There is no bound but the caller's patience:
    /// every lost race means that another writer won.
    ///
    /// # Errors
    /// Whatever `decide` refused on a current state.
    pub async fn guaranteed_update<F>(
        &self,
        target: &Target,
        mandate: Mandate,
        dry_run: bool,
        decide: F,
    ) -> Result<Updated, Status>
    where
        F: FnMut(Option<&Value>) -> Result<Next, Undecided> + Send,
    {
        let span = tracing::debug_span!("registry", key = target.key());
        tracing::Instrument::instrument(self.update_loop(target, mandate, dry_run, decide), span).await
    }

    async fn update_loop<F>(
        &self,
        target: &Target,
        mandate: Mandate,
        dry_run: bool,
        mut decide: F,
    ) -> Result<Updated, Status>
    where
        F: FnMut(Option<&Value>) -> Result<Next, Undecided> + Send,
    {
        let key = target.key();
        let view = self.view(&mandate);
        let mut current = view.get(target.resource, &key);
        // The cache may lag behind the storage: a refusal or a no-op counts only on a state known to be current.
        let mut fresh = false;
        loop {
            let before = current.as_ref().map(|entry| target.read_stored(entry.parse())).transpose()?;
            let decision = match decide(before.as_ref()) {
                Ok(next) => Ok(next),
                Err(Undecided::Refused(status)) => Err(status),
                Err(Undecided::Pending(answer)) => {
                    answer.await;
                    continue;
                }
            };
            // Given back before the next decision, which may wait for webhooks.
            let mut turn = None;
            let commits = !dry_run && mandate.stage.is_none();
            let charged = match &decision {
                Ok(Next::Put(new)) => {
                    let judged = Judged { target, old: before.as_ref(), new, commits };
                    self.charge(&view, judged, &mut turn).await
                }
                Ok(Next::Remove(_) | Next::Keep) | Err(_) => Ok(None),
            };
            let step = decision.and_then(|next| Ok((next, charged?))).and_then(|decided| {
                self.prepare(&view, target, current.as_deref(), before.as_ref(), decided)
            });
            let is_charged = self.may_be_charged(&view, target, current.is_none());
            let step = match step {
                Ok(Step::Unchanged) | Err(_) if !fresh => {
                    drop(turn);
                    self.fresh().await?;
                    let newer = view.get(target.resource, &key);
                    fresh = true;
                    let is_old = revision_of(newer.as_ref()) != revision_of(current.as_ref());
                    // What an object claims or charges depends on others, too.
                    if is_old || claims_anything(target) || is_charged {
                        current = newer;
                        continue;
                    }
                    turn = None;
                    step
                }
                step => step,
            };
            let step = step.map_err(|refused| match self.cache.unreadable(&key) {
                Some(value) if current.is_none() => super::unreadable::status(&value),
                _ => refused,
            });
            let attempt = (target, current.as_ref(), step?);
            match self.attempt(&view, attempt, turn.as_mut(), &mandate, dry_run).await? {
                Attempt::Done(updated) => return Ok(updated),
                Attempt::Lost(newer) => {
                    current = newer;
                    fresh = true;
                    if claims_anything(target) || target.custom.is_some() || current.is_none() || is_charged {
                        // What was lost may be what the object claims, its namespace, its definition or a quota: look at what others
                        // have by now.
                        self.fresh().await?;
                    }
                }
            }
        }
    }

    /// From a decision to what it would store.
    fn prepare(
        &self,
        view: &View,
        target: &Target,
        current: Option<&Entry>,
        before: Option<&Value>,
        (next, charged): (Next, Option<Box<Charges>>),
    ) -> Result<Step, Status> {
        match (next, current) {
            (Next::Keep, _) | (Next::Remove(_), None) => Ok(Step::Unchanged),
            (Next::Put(mut value), _) => {
                let claims = self.claims(view, target, before, Some(&mut value))?;
                let bytes = encode(target, &value)?;
                if current.is_some_and(|entry| entry.is_stored_as(&bytes)) {
                    return Ok(Step::Unchanged);
                }
                Ok(Step::Put { value, bytes, claims, charged })
            }
            (Next::Remove(last), Some(_)) => {
                let claims = self.claims(view, target, before, None)?;
                let bytes = encode(target, &last)?;
                Ok(Step::Remove { last, bytes, claims })
            }
        }
    }

    async fn attempt(
        &self,
        view: &View,
        (target, current, step): (&Target, Option<&Arc<Entry>>, Step),
        turn: Option<&mut QuotaTurn<'_>>,
        mandate: &Mandate,
        dry_run: bool,
    ) -> Result<Attempt, Status> {
        let (value, bytes, claims, charged, write) = match step {
            Step::Unchanged => {
                let entry = current.cloned().ok_or_else(|| super::not_found(target))?;
                if let Some(stage) = &mandate.stage {
                    // That it is so must also hold at the revision of the transaction.
                    stage.add(&[Guard { key: target.key(), revision: entry.revision }], Vec::new())?;
                }
                return Ok(Attempt::Done(Updated { entry, effect: UpdateEffect::Unchanged }));
            }
            Step::Put { value, bytes, claims, charged } => {
                (value, bytes.clone(), claims, charged, put(target, bytes))
            }
            Step::Remove { last, bytes, claims } => {
                (last, bytes, claims, None, Write::Delete { key: target.key() })
            }
        };
        let effect = match (&write, current) {
            (Write::Delete { .. }, _) => UpdateEffect::Removed,
            (Write::Put { .. }, None) => UpdateEffect::Created,
            (Write::Put { .. }, Some(_)) => UpdateEffect::Changed,
        };
        let created = current.map_or(0, |entry| entry.created);
        let expected = revision_of(current);
        let done = |revision: i64| {
            let created = if effect == UpdateEffect::Created { revision } else { created };
            let row = target.resource.storage_row();
            let entry = super::new_entry(row, target, &value, &bytes, revision, created)?;
            Ok(Attempt::Done(Updated { entry, effect }))
        };
        if dry_run {
            return done(expected);
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
        match self.commit(guards, writes, mandate).await? {
            Outcome::Committed { revision } => {
                self.charged(charged, turn, revision);
                done(revision)
            }
            Outcome::Lost { current } => {
                let newer = current.into_iter().next().flatten();
                let newer = newer.map(|raw| entry_of(target.resource, &raw)).transpose()?.map(Arc::new);
                Ok(Attempt::Lost(newer))
            }
        }
    }
}

/// What one round would store.
enum Step {
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
