//! Field selectors of custom kinds: fields and values are those of the requested version. The watch cache
//! evaluates selectors on stored bytes. Where the requested version can differ from them, the cache's filter
//! leaves the declared fields out; the functions here evaluate them on the results of lists and watches.

use super::Converter;
use crate::cache::{Cache, DeclaredFields, Delivery, EventType, Filter};
use crate::entry::Entry;
use crate::kinds::CustomVersion;
use kstore_api::selector::field::{self, Selector};
use kstore_api::status::Status;
use std::sync::Arc;

/// Splits the filter of a request that `custom` serves into the fields that the cache evaluates and those
/// that its reader evaluates.
pub fn filter_by_version(filter: &Filter, custom: Option<&CustomVersion>) -> Filter {
    let mut filter = filter.clone();
    let Some(custom) = custom else { return filter };
    let is_metadata = |label: &str| matches!(label, field::NAME | field::NAMESPACE);
    if filter.fields.terms().iter().all(|term| is_metadata(&term.field)) {
        return filter;
    }
    let unevaluated = match custom.is_as_stored() {
        true => Selector::everything(),
        false => {
            let (metadata, unevaluated) = std::mem::take(&mut filter.fields).partition(is_metadata);
            filter.fields = metadata;
            unevaluated
        }
    };
    let spec_hash = custom.definition().spec_hash;
    filter.declared = Some(Box::new(DeclaredFields { spec_hash, unevaluated }));
    filter
}

impl Filter {
    /// The requirements that the reader of a list or watch evaluates.
    pub fn unevaluated(&self) -> Option<&Selector> {
        let declared = self.declared.as_ref().map(|declared| &declared.unevaluated);
        declared.filter(|selector| !selector.is_everything())
    }
}

/// Evaluates the requirements that a filter leaves to the reader of a list or watch.
pub struct FieldSelection<'r> {
    /// Client of the kind's conversion webhook.
    pub converter: &'r Converter,
    /// The cache in which the webhook's Service is looked up.
    pub cache: &'r Arc<Cache>,
    /// The version that the request asks for.
    pub custom: &'r CustomVersion,
    /// The requirements that the cache did not evaluate.
    pub fields: &'r Selector,
}

impl FieldSelection<'_> {
    /// The entries that satisfy the requirements.
    ///
    /// # Errors
    /// The reason for which an entry cannot be converted.
    pub async fn entries(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, Status> {
        self.converter.prepare(self.cache, self.custom, entries.iter()).await?;
        let mut selected = Vec::with_capacity(entries.len());
        for entry in entries {
            if self.matches(&entry)? {
                selected.push(entry);
            }
        }
        Ok(selected)
    }

    /// The initial state of a watch without the objects of this selector that do not satisfy the
    /// requirements.
    ///
    /// # Errors
    /// As for [`FieldSelection::entries`].
    pub async fn state(
        &self,
        selector: u32,
        state: Vec<(u32, Arc<Entry>)>,
    ) -> Result<Vec<(u32, Arc<Entry>)>, Status> {
        let own = state.iter().filter(|(of, _)| *of == selector);
        self.converter.prepare(self.cache, self.custom, own.map(|(_, entry)| entry)).await?;
        let mut selected = Vec::with_capacity(state.len());
        for (of, entry) in state {
            if of != selector || self.matches(&entry)? {
                selected.push((of, entry));
            }
        }
        Ok(selected)
    }

    /// Filters the deliveries of a watch. A delivery of this selector is delivered as added when the object
    /// begins to satisfy the requirements, and as deleted when it ceases to. A watch that resumed at revision
    /// `begun` may know the state at that revision, so changes of that revision are never additions.
    ///
    /// # Errors
    /// As for [`FieldSelection::entries`].
    pub async fn deliveries(
        &self,
        selector: u32,
        begun: i64,
        deliveries: Vec<Delivery>,
    ) -> Result<Vec<Delivery>, Status> {
        let own = deliveries.iter().filter(|delivery| delivery.selector == selector);
        self.converter.prepare(self.cache, self.custom, own.flat_map(states)).await?;
        let mut selected = Vec::with_capacity(deliveries.len());
        for delivery in deliveries {
            let seen = match delivery.selector == selector {
                true => self.seen(&delivery, begun)?,
                false => Some(delivery.seen),
            };
            selected.extend(seen.map(|seen| Delivery { seen, ..delivery }));
        }
        Ok(selected)
    }

    fn seen(&self, delivery: &Delivery, begun: i64) -> Result<Option<EventType>, Status> {
        let satisfies = |state| -> Result<bool, Status> {
            Ok(has(delivery, state) && self.matches(delivery.change.object(state))?)
        };
        let (before, after) = (satisfies(EventType::Deleted)?, satisfies(EventType::Modified)?);
        Ok(match (before, after) {
            (false, false) => None,
            (true, false) => Some(EventType::Deleted),
            (false, true) if delivery.change.revision > begun => Some(EventType::Added),
            (_, true) => Some(EventType::Modified),
        })
    }

    fn matches(&self, entry: &Arc<Entry>) -> Result<bool, Status> {
        let view = self.custom.view(entry)?;
        Ok(self.fields.matches_fields(|label| view.field(label)))
    }
}

/// Whether the watch's filter passes the state before a change ([`EventType::Deleted`]) or the state after it
/// ([`EventType::Modified`]).
fn has(delivery: &Delivery, state: EventType) -> bool {
    match state {
        EventType::Deleted => delivery.seen != EventType::Added && delivery.change.old.is_some(),
        EventType::Added | EventType::Modified => delivery.seen != EventType::Deleted,
    }
}

/// The states of a change that the watch's filter passes.
fn states(delivery: &Delivery) -> impl Iterator<Item = &Arc<Entry>> + Clone {
    let states = [EventType::Deleted, EventType::Modified].into_iter().filter(|state| has(delivery, *state));
    states.map(|state| delivery.change.object(state))
}
