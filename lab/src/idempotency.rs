//! Idempotency keys: for ten minutes, a POST with the same key and body gets the first answer again. And names: a POST that names what it
//! makes returns what an equal one made.

use crate::error::{bad_request, impossible};
use crate::limits;
use bytes::Bytes;
use jiff::Timestamp;
use kstore_api::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The answer to a call: status code and JSON.
pub(crate) type Answer = (u16, Bytes);

/// A call with a key. While it is locked the call runs, and others with the key wait.
type Slot = Arc<tokio::sync::Mutex<Option<Answer>>>;

/// The keys of a process.
#[derive(Debug, Default)]
pub(crate) struct IdempotencyKeys {
    state: Mutex<KeysState>,
}

#[derive(Debug, Default)]
struct KeysState {
    calls: BTreeMap<String, KeyedCall>,
    /// Keys with the time of their first call, the oldest first.
    order: VecDeque<(Timestamp, String)>,
}

#[derive(Debug)]
struct KeyedCall {
    /// Path and body.
    request: (String, Bytes),
    slot: Slot,
}

impl IdempotencyKeys {
    /// The slot of a call's key, with the answer if the call was made before.
    ///
    /// # Errors
    /// 400: the key is too long or empty. 422: it belongs to another call.
    pub(crate) fn slot(&self, key: &str, path: &str, body: &Bytes, now: Timestamp) -> Result<Slot, Status> {
        if key.is_empty() || key.chars().count() > limits::KEY_CHARS {
            return Err(bad_request(
                "Idempotency-Key",
                format!("must have 1 to {} characters", limits::KEY_CHARS),
            ));
        }
        let mut state = self.state.lock();
        let is_old = |at: &Timestamp| now.duration_since(*at).unsigned_abs() > limits::KEY_LIFE;
        while state.order.len() >= limits::KEYS || state.order.front().is_some_and(|(at, _)| is_old(at)) {
            let Some((_, oldest)) = state.order.pop_front() else { break };
            state.calls.remove(&oldest);
        }
        if let Some(known) = state.calls.get(key) {
            return match known.request.0 == path && known.request.1 == *body {
                true => Ok(known.slot.clone()),
                false => Err(impossible("the idempotency key belongs to another call")),
            };
        }
        let slot = Slot::default();
        let request = (path.to_owned(), body.clone());
        state.calls.insert(key.to_owned(), KeyedCall { request, slot: slot.clone() });
        state.order.push_back((now, key.to_owned()));
        Ok(slot)
    }
}

/// The calls that made the named images and clusters of a process.
#[derive(Debug, Default)]
pub(crate) struct NamedCalls {
    calls: Mutex<BTreeMap<String, NamedCall>>,
}

#[derive(Debug, Default)]
struct NamedCall {
    /// The cluster of the call and its body; `None` until it has made something.
    request: Option<(String, Value)>,
    /// Held by the call that makes something of this name; others wait.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The turn of a call among those with its name.
#[derive(Debug)]
pub(crate) struct NamedTurn<'c> {
    calls: &'c NamedCalls,
    /// `image prepared`.
    name: String,
    /// The cluster of the call and its body.
    request: (String, Value),
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

impl NamedCalls {
    /// Waits until no other call makes something of this kind and name. `body` is that of a call that was read before.
    pub(crate) async fn turn(&self, kind: &str, name: &str, cluster: &str, body: &[u8]) -> NamedTurn<'_> {
        let name = format!("{kind} {name}");
        let turn = {
            let mut calls = self.calls.lock();
            // Calls that were refused leave their name here. There are as many others as images and clusters.
            calls.retain(|_, call| call.request.is_some() || Arc::strong_count(&call.turn) > 1);
            calls.entry(name.clone()).or_default().turn.clone()
        };
        let turn = turn.lock_owned().await;
        let body = serde_json::from_slice(body).unwrap_or_default();
        NamedTurn { calls: self, name, request: (cluster.to_owned(), body), _turn: turn }
    }

    /// What a call made is deleted.
    pub(crate) fn forget(&self, kind: &str, name: &str) {
        if let Some(call) = self.calls.lock().get_mut(&format!("{kind} {name}")) {
            call.request = None;
        }
    }
}

impl NamedTurn<'_> {
    /// Whether an equal call has made what has the name.
    pub(crate) fn is_repeated(&self) -> bool {
        self.calls
            .calls
            .lock()
            .get(&self.name)
            .is_some_and(|call| call.request.as_ref() == Some(&self.request))
    }

    /// The call has made something.
    pub(crate) fn has_made(self) {
        if let Some(call) = self.calls.calls.lock().get_mut(&self.name) {
            call.request = Some(self.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_belongs_to_one_call_for_ten_minutes() {
        let (keys, body) = (IdempotencyKeys::default(), Bytes::from_static(b"{}"));
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let first = keys.slot("k", "/a", &body, at(0)).unwrap();
        assert!(Arc::ptr_eq(&first, &keys.slot("k", "/a", &body, at(599)).unwrap()));
        assert_eq!(keys.slot("k", "/b", &body, at(1)).unwrap_err().code, 422);
        assert_eq!(keys.slot("k", "/a", &Bytes::new(), at(1)).unwrap_err().code, 422);
        assert!(!Arc::ptr_eq(&first, &keys.slot("k", "/b", &body, at(601)).unwrap()), "forgotten");
        for wrong in ["", &"x".repeat(limits::KEY_CHARS + 1)] {
            assert_eq!(keys.slot(wrong, "/a", &body, at(0)).unwrap_err().code, 400);
        }
    }

    #[test]
    fn the_oldest_keys_are_forgotten_at_the_bound() {
        let keys = IdempotencyKeys::default();
        for number in 0..=limits::KEYS {
            keys.slot(&number.to_string(), "/a", &Bytes::new(), Timestamp::UNIX_EPOCH).unwrap();
        }
        let state = keys.state.lock();
        assert_eq!((state.calls.len(), state.order.len()), (limits::KEYS, limits::KEYS));
        assert!(!state.calls.contains_key("0"));
    }
}
