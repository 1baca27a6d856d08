//! Create as one guarded commit: stores the object if its key is absent and its namespace accepts new
//! objects.

use super::quota::JudgedWrite;
use super::service::{Claims, claims_anything};
use super::{Registry, WriteContext, encode, namespace, uncommitted_entry};
use crate::entry::Entry;
use crate::request::Target;
use crate::stage::View;
use kstore_api::meta;
use kstore_api::status::Status;
use kstore_storage::storage::{Guard, Outcome};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

impl Registry {
    /// Stores a complete and validated new object under `target`. 409 AlreadyExists if the key is present.
    pub async fn create(
        &self,
        target: &Target,
        value: Value,
        context: WriteContext,
        dry_run: bool,
    ) -> Result<Arc<Entry>, Status> {
        let span = tracing::debug_span!("registry", key = target.key());
        let result = self.try_create(target, value, context, dry_run);
        tracing::Instrument::instrument(result, span).await
    }

    async fn try_create(
        &self,
        target: &Target,
        requested: Value,
        context: WriteContext,
        dry_run: bool,
    ) -> Result<Arc<Entry>, Status> {
        let key = target.key();
        // The cache may lag behind the storage: a refusal counts only on a state known to be current.
        let mut fresh = false;
        // Held until the commit: other writers that charge the same quotas wait.
        let mut lock = None;
        loop {
            let view = self.view(&context);
            let commits = !dry_run && context.stage.is_none();
            let judged = JudgedWrite { target, old: None, new: &requested, commits };
            let charged = match self.charge(&view, judged, &mut lock).await {
                Err(_) if !fresh => {
                    self.fresh().await?;
                    fresh = true;
                    continue;
                }
                charged => charged?,
            };
            // The commit also claims the addresses and ports of a Service; if a claim is lost, others are
            // chosen.
            let (mut value, mut claims) = (Cow::Borrowed(&requested), Claims::default());
            if claims_anything(target) {
                claims = match self.claims(&view, target, None, Some(value.to_mut())) {
                    Err(_) if !fresh => {
                        self.fresh().await?;
                        fresh = true;
                        continue;
                    }
                    claims => claims?,
                };
            }
            let bytes = encode(target, &value)?;
            let entry = uncommitted_entry(target, &value, &bytes)?;
            if dry_run || context.stage.is_some() {
                check_absent(&view, target)?;
            }
            if dry_run {
                return Ok(Arc::new(entry.at(0, 0)));
            }
            super::check_definition(&self.cache, target)?;
            let namespace = match namespace::guard(&view, target) {
                Err(_) if !fresh => {
                    self.fresh().await?;
                    fresh = true;
                    continue;
                }
                guard => guard?,
            };
            let mut guards = vec![Guard { key: key.clone(), revision: 0 }];
            guards.extend(namespace);
            guards.extend(super::definition_guard(target));
            guards.extend(claims.guards);
            guards.extend(charged.iter().flat_map(|charges| charges.claims.guards.iter().cloned()));
            let mut writes = vec![self.put(target, bytes)];
            writes.extend(claims.writes);
            writes.extend(charged.iter().flat_map(|charges| charges.claims.writes.iter().cloned()));
            match self.commit(guards, writes, Some(&entry), &context).await? {
                Outcome::Committed { revision } => {
                    self.charged(charged, lock.as_mut(), revision);
                    return Ok(Arc::new(entry.at(revision, revision)));
                }
                Outcome::Lost { current } => match current.into_iter().next().flatten() {
                    Some(existing) => return Err(already_exists(target, &existing.value)),
                    // The namespace or a quota has changed, or another writer took the address or port that
                    // this object claims.
                    None => {
                        self.fresh().await?;
                        fresh = true;
                    }
                },
            }
        }
    }
}

fn check_absent(view: &View, target: &Target) -> Result<(), Status> {
    match view.get(target.resource, &target.key()) {
        Some(existing) => Err(already_exists(target, &existing.json())),
        None => Ok(()),
    }
}

fn already_exists(target: &Target, existing: &[u8]) -> Status {
    let deleting = serde_json::from_slice(existing).is_ok_and(|value: Value| meta::is_being_deleted(&value));
    match deleting {
        true => Status::being_deleted(target.resource, &target.name),
        false => Status::already_exists(target.resource, &target.name),
    }
}
