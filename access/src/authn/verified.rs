//! [`VerifiedTokens`]: a cache of bearer tokens with verified signatures, so that a client's next request
//! costs a digest instead of a signature check. Expiry, audiences and bound objects are still checked for
//! each request. Invalid tokens are not cached.

use super::legacy_token::TokenSecret;
use crate::token::{Bound, Claims};
use jiff::{SignedDuration, Timestamp};
use kstore_api::meta;
use kstore_api::resource::Resource;
use kstore_nondet::HashMap;
use kstore_registry::entry::Entry;
use kstore_registry::lookup::{Lookup, core};
use kstore_registry::user::UserInfo;
use kstore_storage::limits;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// How long an object that is being deleted counts as present, so that a terminating pod can still use its token.
const DELETED_GRACE: SignedDuration = SignedDuration::from_secs(60);

/// SHA-256 of a whole token. An equal digest means the very token that was verified.
pub(super) type Digest = [u8; 32];

/// The digest of a token; `None` for a token that is too long to be cached.
pub(super) fn digest(token: &str) -> Option<Digest> {
    (token.len() <= limits::VERIFIED_TOKEN_BYTES).then(|| Sha256::digest(token.as_bytes()).into())
}

/// A token with a valid signature, with all that follows from its claims alone.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) claims: Claims,
    pub(super) user: Arc<UserInfo>,
    bindings: Vec<Binding>,
    /// The Secret that holds the token; `None` for tokens that are not stored.
    pub(super) secret: Option<TokenSecret>,
    /// Whether the token authenticated a request since the eviction hand last passed it.
    is_used: AtomicBool,
}

impl Verified {
    /// From the claims of a token with a valid signature, their user, and the Secret that holds the token.
    pub(super) fn new(claims: Claims, user: UserInfo, secret: Option<TokenSecret>) -> Self {
        let of = &claims.cluster;
        let bind = |what, plural, namespace: &str, bound: Option<&Bound>| {
            bound.map(|bound| Binding::new(what, core(plural), namespace, bound))
        };
        let bindings = [
            bind("the account", "serviceaccounts", &of.namespace, Some(&of.serviceaccount)),
            bind("the pod", "pods", &of.namespace, of.pod.as_ref()),
            bind("the secret", "secrets", &of.namespace, of.secret.as_ref()),
            // A pod's token names the pod's node but is not bound to it.
            bind("the node", "nodes", "", of.node.as_ref().filter(|_| of.pod.is_none())),
        ];
        let bindings = bindings.into_iter().flatten().collect();
        Self { claims, user: Arc::new(user), bindings, secret, is_used: AtomicBool::new(false) }
    }

    /// The first bound object that does not exist any more; `None` if the token is still valid.
    pub(super) fn gone(&self, cluster: &dyn Lookup, now: Timestamp) -> Option<&'static str> {
        self.bindings.iter().find(|binding| !binding.is_present(cluster, now)).map(|binding| binding.what)
    }

    /// Marks the token as used, so that it is not evicted soon.
    pub(super) fn mark_used(&self) {
        // A load is cheaper than a store to a line that all processors share.
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }
}

/// An object that a token is bound to.
#[derive(Debug)]
struct Binding {
    what: &'static str,
    resource: &'static Resource,
    /// The storage key.
    key: String,
    uid: String,
    /// The object's `deletionTimestamp`.
    deleted: ParsedOnce<Option<Timestamp>>,
}

impl Binding {
    fn new(what: &'static str, resource: &'static Resource, namespace: &str, bound: &Bound) -> Self {
        let key = resource.storage_key(namespace, &bound.name);
        Self { what, resource, key, uid: bound.uid.clone(), deleted: ParsedOnce::default() }
    }

    /// Whether the object exists now with the bound uid.
    fn is_present(&self, cluster: &dyn Lookup, now: Timestamp) -> bool {
        let Some(entry) = cluster.entry(self.resource, &self.key) else { return false };
        let is_being_deleted =
            || self.deleted(&entry).is_some_and(|at| now.duration_since(at) >= DELETED_GRACE);
        entry.uid() == self.uid && !is_being_deleted()
    }

    /// The `deletionTimestamp` of the object.
    fn deleted(&self, entry: &Arc<Entry>) -> Option<Timestamp> {
        self.deleted.get(entry, |entry| {
            let object = serde_json::json!({ "metadata": entry.parse_metadata() });
            meta::deletion_timestamp(&object).and_then(meta::parse_time)
        })
    }
}

/// What was read from the newest state of an object, which is parsed once per state. States are compared by the
/// entry's identity, not its revision: a storage that was restored from a backup may use a revision again.
#[derive(Debug, Default)]
pub(super) struct ParsedOnce<T>(Mutex<(Weak<Entry>, T)>);

impl<T: Clone> ParsedOnce<T> {
    /// What `parse` reads from the object.
    pub(super) fn get(&self, entry: &Arc<Entry>, parse: impl FnOnce(&Entry) -> T) -> T {
        let mut parsed = self.0.lock();
        // The weak reference keeps the allocation, so that no newer entry can be at its address.
        if !std::ptr::eq(parsed.0.as_ptr(), Arc::as_ptr(entry)) {
            *parsed = (Arc::downgrade(entry), parse(entry));
        }
        parsed.1.clone()
    }
}

/// Verified tokens by digest, at most [`limits::VERIFIED_TOKENS`]. A full cache evicts by second chance
/// (CLOCK): a token that was used since the hand last passed stays, so that many tokens that are used once do
/// not evict those in use.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(RwLock<Slots>);

#[derive(Debug, Default)]
struct Slots {
    by_digest: HashMap<Digest, usize>,
    slots: Vec<(Digest, Arc<Verified>)>,
    /// The clock hand: the first slot that the next eviction checks.
    hand: usize,
}

impl VerifiedTokens {
    /// The token with this digest.
    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<Verified>> {
        let slots = self.0.read();
        slots.by_digest.get(digest).map(|at| slots.slots[*at].1.clone())
    }

    /// Caches a token whose signature was verified.
    pub(super) fn insert(&self, digest: Digest, verified: Arc<Verified>) {
        self.0.write().insert(digest, verified, limits::VERIFIED_TOKENS);
    }
}

impl Slots {
    fn insert(&mut self, digest: Digest, verified: Arc<Verified>, capacity: usize) {
        if let Some(at) = self.by_digest.get(&digest) {
            // Two requests verified the token at the same time.
            self.slots[*at].1 = verified;
            return;
        }
        let at = if self.slots.len() < capacity {
            self.slots.push((digest, verified));
            self.slots.len() - 1
        } else {
            let at = self.victim();
            let (evicted, _) = std::mem::replace(&mut self.slots[at], (digest, verified));
            self.by_digest.remove(&evicted);
            at
        };
        self.by_digest.insert(digest, at);
    }

    /// The slot to evict: the first that was not used since the hand last passed. Takes at most two rounds,
    /// since the first clears all marks.
    fn victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.slots.len();
            if !self.slots[at].1.is_used.swap(false, Ordering::Relaxed) {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::ISSUER;

    fn verified() -> Arc<Verified> {
        let account = Bound { name: "builder".into(), uid: "u1".into() };
        let claims =
            Claims::new(("ns", &account), &[ISSUER.to_owned()], Timestamp::UNIX_EPOCH, 600, "id".into());
        Arc::new(Verified::new(claims, UserInfo::anonymous(), None))
    }

    fn digest_of(number: usize) -> Digest {
        digest(&number.to_string()).unwrap()
    }

    #[test]
    fn the_token_cache_is_bounded_and_keeps_tokens_in_use() {
        const CAPACITY: usize = 8;
        let mut slots = Slots::default();
        let in_use = verified();
        slots.insert(digest_of(0), in_use.clone(), CAPACITY);
        for number in 1..100 {
            in_use.mark_used();
            slots.insert(digest_of(number), verified(), CAPACITY);
            assert_eq!(slots.slots.len(), slots.by_digest.len());
            assert!(slots.slots.len() <= CAPACITY);
            let found = slots.by_digest.get(&digest_of(0)).map(|at| &slots.slots[*at].1);
            assert!(found.is_some_and(|found| Arc::ptr_eq(found, &in_use)), "after {number} others");
        }
        for number in 100..200 {
            let used = verified();
            used.mark_used();
            slots.insert(digest_of(number), used, CAPACITY);
        }
        assert_eq!((slots.slots.len(), slots.by_digest.len()), (CAPACITY, CAPACITY));
        assert!(!slots.by_digest.contains_key(&digest_of(0)), "a token that is no longer used is evicted");
        for (digest, at) in &slots.by_digest {
            assert_eq!(slots.slots[*at].0, *digest);
        }
    }

    #[test]
    fn a_token_too_long_to_be_cached_has_no_digest() {
        assert!(digest(&"a".repeat(limits::VERIFIED_TOKEN_BYTES)).is_some());
        assert_eq!(digest(&"a".repeat(limits::VERIFIED_TOKEN_BYTES + 1)), None);
    }
}
