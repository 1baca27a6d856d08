//! [`Conversions`]: the pending and finished conversions of one definition's webhook. Readers of custom
//! objects are synchronous. A reader that reads an object of another version looks up its conversion here,
//! and records it as missing if there is none. The reader's caller then lets `crate::conversion` call the
//! webhook for all missing conversions, and reads again.

use kstore_api::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most objects that one call to a webhook converts. A longer list takes several calls.
const CALL_OBJECTS: usize = 500;
/// Most bytes of JSON in one call to a webhook, unless it has a single object: the answer may be as large as
/// a request body.
const CALL_BYTES: usize = 1024 * 1024;
/// Most converted objects to keep: those of a few calls, which their readers are about to fetch.
const REMEMBERED: usize = 4 * CALL_OBJECTS;

/// Identifies a conversion: a hash of the wanted version and of the object.
pub(crate) type ConversionKey = [u8; 32];

/// The conversions of one definition.
#[derive(Debug, Default)]
pub struct Conversions {
    state: Mutex<ConversionState>,
    /// Locked during a call: readers that miss the same objects share one call.
    pub in_call: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct ConversionState {
    outcomes: BTreeMap<ConversionKey, Result<Arc<Value>, Status>>,
    /// The keys of `outcomes`, oldest first.
    order: VecDeque<ConversionKey>,
    /// Objects to convert with the next call, by wanted version.
    missing: BTreeMap<(Arc<str>, ConversionKey), Value>,
    missing_bytes: usize,
}

/// Objects to convert to one version.
pub(crate) struct Missing {
    /// The wanted version.
    pub(crate) version: Arc<str>,
    /// The objects with the keys of their conversions.
    pub(crate) objects: Vec<(ConversionKey, Value)>,
}

impl Conversions {
    /// The finished conversion of an object to a version. If there is none, records it as missing, within the bounds of
    /// one call.
    ///
    /// # Errors
    /// The webhook's failure. It is returned once; the next call records the conversion as missing again.
    pub(super) fn get(&self, version: &Arc<str>, object: &Value) -> Result<Option<Arc<Value>>, Status> {
        let text = object.to_string();
        let key: ConversionKey =
            Sha256::new().chain_update(version.as_bytes()).chain_update(&text).finalize().into();
        let mut state = self.state.lock();
        if let Some(Ok(converted)) = state.outcomes.get(&key) {
            return Ok(Some(converted.clone()));
        }
        if let Some(Err(status)) = state.outcomes.remove(&key) {
            return Err(status);
        }
        let is_full = state.missing.len() >= CALL_OBJECTS || state.missing_bytes + text.len() > CALL_BYTES;
        if (!is_full || state.missing.is_empty())
            && state.missing.insert((version.clone(), key), object.clone()).is_none()
        {
            state.missing_bytes += text.len();
        }
        Ok(None)
    }

    /// Takes the missing conversions, grouped by version.
    pub(crate) fn take_missing(&self) -> Vec<Missing> {
        let mut state = self.state.lock();
        state.missing_bytes = 0;
        let mut all: Vec<Missing> = Vec::new();
        for ((version, key), object) in std::mem::take(&mut state.missing) {
            match all.last_mut().filter(|last| last.version == version) {
                Some(last) => last.objects.push((key, object)),
                None => all.push(Missing { version, objects: vec![(key, object)] }),
            }
        }
        all
    }

    /// Stores the results of conversions; drops the oldest beyond the bound.
    pub(crate) fn put(&self, outcomes: impl Iterator<Item = (ConversionKey, Result<Value, Status>)>) {
        let mut state = self.state.lock();
        for (key, outcome) in outcomes {
            if state.outcomes.insert(key, outcome.map(Arc::new)).is_none() {
                state.order.push_back(key);
            }
        }
        while state.order.len() > REMEMBERED {
            if let Some(oldest) = state.order.pop_front() {
                state.outcomes.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_conversion_is_recorded_once_and_found_after_the_call() {
        let conversions = Conversions::default();
        let (version, object) = (Arc::from("v2"), json!({"a": 1}));
        assert_eq!(conversions.get(&version, &object).unwrap(), None);
        assert_eq!(conversions.get(&version, &object).unwrap(), None);
        let missing = conversions.take_missing();
        assert_eq!((missing.len(), missing[0].objects.len()), (1, 1));
        let key = missing[0].objects[0].0;
        conversions.put([(key, Ok(json!({"b": 1})))].into_iter());
        assert_eq!(conversions.get(&version, &object).unwrap().as_deref(), Some(&json!({"b": 1})));
        assert!(conversions.take_missing().is_empty());
    }

    #[test]
    fn a_failed_conversion_is_reported_once_and_tried_again() {
        let conversions = Conversions::default();
        let (version, object) = (Arc::from("v2"), json!({"a": 1}));
        conversions.get(&version, &object).unwrap();
        let key = conversions.take_missing()[0].objects[0].0;
        conversions.put([(key, Err(Status::internal("down")))].into_iter());
        assert!(conversions.get(&version, &object).is_err());
        assert_eq!(conversions.get(&version, &object).unwrap(), None);
        assert_eq!(conversions.take_missing().len(), 1);
    }

    #[test]
    fn memory_is_bounded_for_any_number_of_objects() {
        let conversions = Conversions::default();
        let version = Arc::from("v2");
        for index in 0..3 * REMEMBERED {
            conversions.get(&version, &json!({"a": index})).unwrap();
            if index % CALL_OBJECTS == 0 {
                let missing = conversions.take_missing();
                let objects = missing.into_iter().flat_map(|missing| missing.objects);
                conversions.put(objects.map(|(key, object)| (key, Ok(object))));
            }
        }
        let state = conversions.state.lock();
        assert!(state.outcomes.len() <= REMEMBERED && state.missing.len() <= CALL_OBJECTS);
    }
}
