//! Stored values that are not valid objects, with the reasons. Only another writer of the storage (an etcd
//! client) can store one. The cache hides such a key, as if the object were deleted, and serves everything
//! else. A request for the object by name gets the reason, and a DELETE removes it, unless the value only
//! cannot be decrypted. Lists of a kind with a value that cannot be decrypted fail, as in kube-apiserver.
//!
//! With Kubernetes' feature AllowUnsafeMalformedObjectDeletion, values that cannot be read are reported: lists fail with the reason
//! StorageReadError for each such value, a watch that meets one ends with it, and only a deletion that asks for it removes one.

use super::filter::Filter;
use crate::entry::{Entry, Malformed};
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::limits;
use kstore_storage::storage::Raw;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stored value that cannot be read as an object of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    /// The storage key.
    pub(crate) key: String,
    /// The revision that wrote the value; a guard for deleting exactly this value.
    pub(crate) revision: i64,
    /// The revision at which the key was created.
    pub(crate) created: i64,
    /// Why the value cannot be decoded.
    pub(crate) reason: String,
    /// Whether the value cannot be decrypted, so that it may be a valid object.
    pub(crate) is_encrypted: bool,
}

impl Unreadable {
    pub(crate) fn new(raw: &Raw, error: &Malformed) -> Self {
        Self {
            key: String::from_utf8_lossy(&raw.key).into_owned(),
            revision: raw.revision,
            created: raw.created,
            reason: error.to_string(),
            is_encrypted: matches!(error, Malformed::Undecrypted(_)),
        }
    }
}

impl Unreadable {
    /// 500: a list would leave out an object that cannot be decrypted.
    fn not_transformed(&self) -> Status {
        Status::internal(format!("unable to transform key {:?}: {}", self.key, self.reason))
    }

    /// Why the value cannot be read, as a kube-apiserver says it.
    pub(crate) fn fault(&self) -> String {
        let what = match self.is_encrypted {
            true => "data from the storage is not transformable",
            false => "object not decodable",
        };
        format!("{what} revision={}: {}", self.revision, self.reason)
    }
}

/// 500: objects of a kind cannot be read. The first fault is in the message, and each one is a cause.
pub(crate) fn read_error(resource: &Resource, found: &[&Unreadable]) -> Status {
    let what = resource.qualified();
    let first = found.first().map(|value| value.fault()).unwrap_or_default();
    let more = match found.len() {
        0 | 1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    let message = format!("failed to read one or more {what} from the storage: {first}{more}");
    let status = Status::storage_read_error(resource, &resource.storage_prefix(""), message);
    found.iter().take(limits::READ_ERROR_CAUSES).fold(status, |status, value| {
        let mut status = status.cause("UnexpectedServerResponse", value.fault());
        if let Some(cause) = status.details.as_mut().and_then(|details| details.causes.last_mut()) {
            cause.field.clone_from(&value.key);
        }
        status
    })
}

/// All unreadable values by key. Keeps the reasons, not the bytes, so that it stays small.
#[derive(Clone, Default)]
pub(super) struct UnreadableValues {
    values: BTreeMap<String, Arc<Unreadable>>,
    /// Whether lists and watches report them.
    pub(super) are_reported: bool,
}

impl UnreadableValues {
    /// The unreadable values found while filling the cache. Logs how many there are and the first, not each: a foreign storage may have
    /// thousands, all for one reason.
    pub(super) fn of(found: Vec<Unreadable>) -> Self {
        for is_encrypted in [false, true] {
            let mut alike = found.iter().filter(|value| value.is_encrypted == is_encrypted);
            let first = alike.next();
            first.inspect(|first| report_first(first, 1 + alike.count()));
        }
        let values = found.into_iter().map(|value| (value.key.clone(), Arc::new(value))).collect();
        Self { values, are_reported: false }
    }

    /// Decodes the new value of a key, unless its entry is `made` already, or records it as unreadable. `None` if the value was deleted
    /// or cannot be read.
    pub(super) fn read(
        &mut self,
        resource: &'static Resource,
        key: &str,
        value: Option<&Raw>,
        made: Option<Entry>,
    ) -> Option<Arc<Entry>> {
        let decode = |raw| Entry::from_raw(resource, raw).map_err(|error| Unreadable::new(raw, &error));
        match made.map(Ok).or_else(|| value.map(decode)) {
            Some(Err(unreadable)) => {
                report(&unreadable);
                self.values.insert(key.to_owned(), Arc::new(unreadable));
                None
            }
            read => {
                if self.values.remove(key).is_some() {
                    tracing::info!(key, "the unreadable value was removed or replaced");
                }
                read.and_then(Result::ok).map(Arc::new)
            }
        }
    }

    /// The unreadable value under a key, if there is one.
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Unreadable>> {
        self.values.get(key)
    }

    /// The refusal of a list that would leave out objects: those that cannot be decrypted, or all if they are reported.
    pub(super) fn refusal(&self, filter: &Filter) -> Option<Status> {
        let prefix = match filter.only_key() {
            Some(key) => key,
            None => filter.resource.storage_prefix(&filter.namespace),
        };
        let is_one = filter.only_key().is_some();
        let below = self.values.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
        let mut found = below.map(|(_, value)| &**value).filter(|value| !is_one || value.key == prefix);
        if !self.are_reported {
            return found.find(|value| value.is_encrypted).map(Unreadable::not_transformed);
        }
        let found: Vec<&Unreadable> = found.collect();
        (!found.is_empty()).then(|| read_error(filter.resource, &found))
    }
}

/// Reports the first of `count` values that a start found.
fn report_first(first: &Unreadable, count: usize) {
    if count == 1 {
        return report(first);
    }
    let Unreadable { key, revision, reason, .. } = first;
    tracing::error!(
        key,
        revision,
        count,
        "{count} stored values cannot be read, and these objects are not served. The first: {reason}. GET of an object tells why; DELETE \
         removes it, if it is not encrypted"
    );
}

fn report(value: &Unreadable) {
    let Unreadable { key, revision, reason, .. } = value;
    if value.is_encrypted {
        tracing::error!(key, revision, "an object cannot be decrypted, and is not served: {reason}");
        return;
    }
    tracing::error!(
        key,
        revision,
        "{reason}; the object is not served until it is deleted or a valid one is stored under its key"
    );
}

#[cfg(test)]
mod tests {
    use super::super::{Cache, Filter, Watch, WatchStart};
    use super::*;
    use kstore_api::kind;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    fn config_maps() -> &'static Resource {
        kind::lookup("", "v1", "configmaps").unwrap()
    }

    fn key(name: &str) -> String {
        config_maps().storage_key("ns", name)
    }

    fn valid(name: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"ns"}}}}"#)
    }

    async fn store() -> Store {
        Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap()
    }

    async fn cache(store: &Store) -> Arc<Cache> {
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store.clone())), |_| {}).await.unwrap();
        tokio::spawn(follow);
        cache
    }

    fn names(cache: &Cache) -> Vec<String> {
        let (found, _) = cache.scan(&Filter::all(config_maps()));
        found.iter().map(|entry| entry.name().to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_malformed_value_is_not_served_as_the_state_before_it() {
        let store = store().await;
        store.put(key("a"), valid("a")).await.unwrap();
        store.put(key("b"), valid("b")).await.unwrap();
        let cache = cache(&store).await;
        let filters = vec![Filter::all(config_maps())];
        let mut watch = Watch::start(cache.clone(), filters, WatchStart::State).await.unwrap();
        watch.initial();

        let broken = store.put(key("a"), "{ this is no JSON").await.unwrap();
        cache.reached(broken.0).await;
        assert_eq!(names(&cache), ["b"]);
        let unreadable = cache.unreadable(&key("a")).unwrap();
        assert_eq!((unreadable.revision, unreadable.created), (broken.0, 2));
        assert!(unreadable.reason.contains("/registry/configmaps/ns/a"), "{unreadable:?}");
        let seen = watch.next().await.unwrap();
        assert!(!seen.deliveries[0].seen.is_put(), "watchers get a deletion");

        let whole = store.put(key("a"), valid("a")).await.unwrap();
        cache.reached(whole.0).await;
        assert_eq!((names(&cache), cache.unreadable(&key("a"))), (vec!["a".into(), "b".into()], None));
        let seen = watch.next().await.unwrap();
        assert!(
            seen.deliveries[0].change.old.is_none() && seen.deliveries[0].seen.is_put(),
            "and an addition"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_serves_everything_but_a_malformed_value() {
        let store = store().await;
        store.put(key("a"), valid("a")).await.unwrap();
        store.put(key("b"), &b"k8s\x00\xff"[..]).await.unwrap();
        store.put(key("c"), valid("c")).await.unwrap();
        store.put(key("d"), "").await.unwrap();
        let cache = cache(&store).await;
        assert_eq!(names(&cache), ["a", "c"]);
        for name in ["b", "d"] {
            assert!(cache.unreadable(&key(name)).is_some(), "{name}");
        }
        assert_eq!(cache.unreadable(&key("a")), None);
        store.delete(key("b")).await.unwrap();
        cache.fresh().await.unwrap();
        assert_eq!(cache.unreadable(&key("b")), None);
    }
}
