//! Objects whose stored value cannot be read (see `cache::Unreadable`): reads and updates by name report it,
//! and a deletion removes the value. Its finalizers and dependents are unknown, so the deletion does not wait
//! for them.

use super::delete::check_preconditions;
use super::{Deleted, Registry, WriteContext, uncommitted_entry};
use crate::cache::{Unreadable, read_error};
use crate::decode::delete_options::UNSAFE;
use crate::entry::Entry;
use crate::request::{DeleteOptions, Target};
use crate::undecided::{Undecided, decided};
use kstore_api::field::{ErrorList, Path};
use kstore_api::object;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_storage::storage::{Guard, Outcome, Raw, Write};
use kstore_storage::storage_key::ROOT;
use serde_json::{Value, json};
use std::sync::Arc;

/// 500: the value stored under the object's key is not an object, or cannot be decrypted.
pub(super) fn status(value: &Unreadable) -> Status {
    let reason = &value.reason;
    if value.is_encrypted {
        return Status::internal(reason);
    }
    Status::internal(format!("{reason}; delete the object, or store a valid one under its key"))
}

/// 500: the same where such values are reported, in the words of a kube-apiserver, which counts keys without the root.
fn reported_status(value: &Unreadable) -> Status {
    let key = value.key.strip_prefix(ROOT.trim_end_matches('/')).unwrap_or(&value.key);
    let fault = value.fault();
    Status::internal(format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {fault}"
    ))
}

/// 500: a list at an old revision would leave out a value that cannot be read.
pub(super) fn unreadable_raw(resource: &'static Resource, raw: &Raw) -> Status {
    match Entry::from_raw(resource, raw) {
        Ok(_) => Status::internal("the value can be read"),
        Err(error) => read_error(resource, &[&Unreadable::new(raw, &error)]),
    }
}

/// 500: a list would leave out an object that cannot be decrypted.
pub(super) fn list_status(key: &str, reason: &str) -> Status {
    Status::internal(format!("unable to transform key {key:?}: {reason}"))
}

impl Registry {
    /// 500 for a read of this value.
    pub(super) fn status_of(&self, value: &Unreadable) -> Status {
        if self.cache.reports_unreadable() { reported_status(value) } else { status(value) }
    }

    /// Removes a stored value that cannot be read, whatever it is: without admission, preconditions and finalizers.
    async fn delete_unsafely(
        &self,
        target: &Target,
        context: &WriteContext,
        dry_run: bool,
    ) -> Result<Deleted, Status> {
        loop {
            self.fresh().await?;
            let Some(value) = self.cache.unreadable(&target.key()) else {
                return Err(match self.cache.get(target.resource, &target.key()) {
                    None => super::not_found(target),
                    Some(_) => readable(target),
                });
            };
            let entry = named_entry(target, &value)?;
            if dry_run {
                return Ok(Deleted { entry, gone: true });
            }
            let guard = Guard { key: target.key(), revision: value.revision };
            let delete = Write::Delete { key: target.key() };
            if let Outcome::Committed { revision } =
                self.commit(vec![guard], vec![delete], None, context).await?
            {
                return Ok(Deleted { entry: Arc::new(entry.deleted_at(revision)), gone: true });
            }
        }
    }

    /// Removes a stored value that cannot be read; `None` if there is none under this name. `admit` sees an
    /// object with only a name and a namespace.
    pub(super) async fn delete_unreadable(
        &self,
        target: &Target,
        options: &DeleteOptions,
        context: &WriteContext,
        dry_run: bool,
        admit: &mut (impl FnMut(&Value) -> Result<(), Undecided> + Send),
    ) -> Result<Option<Deleted>, Status> {
        let key = target.key();
        if options.unsafe_deletion.is_some() {
            return self.delete_unsafely(target, context, dry_run).await.map(Some);
        }
        while let Some(value) = self.cache.unreadable(&key) {
            if value.is_encrypted || self.cache.reports_unreadable() {
                return Err(self.status_of(&value));
            }
            let entry = named_entry(target, &value)?;
            let current = entry.parse();
            check_preconditions(target, &current, options)?;
            decided(|| admit(&current)).await?;
            if dry_run {
                return Ok(Some(Deleted { entry, gone: true }));
            }
            let guard = Guard { key: key.clone(), revision: value.revision };
            let delete = Write::Delete { key: key.clone() };
            if let Outcome::Committed { revision } =
                self.commit(vec![guard], vec![delete], None, context).await?
            {
                let entry = Arc::new(entry.deleted_at(revision));
                return Ok(Some(Deleted { entry, gone: true }));
            }
            // Another writer was faster; wait until the cache shows its write.
            self.fresh().await?;
        }
        Ok(None)
    }
}

/// An object in place of one that cannot be read, with only a name and a namespace.
fn named_entry(target: &Target, value: &Unreadable) -> Result<Arc<Entry>, Status> {
    let row = target.resource.storage_row();
    let mut metadata = json!({"name": target.name});
    if row.namespaced {
        metadata["namespace"] = target.namespace.clone().into();
    }
    let known = json!({"apiVersion": row.api_version(), "kind": row.kind, "metadata": metadata});
    let bytes = object::encode_stored(&known).into();
    Ok(Arc::new(uncommitted_entry(target, &known, &bytes)?.at(value.revision, value.created)))
}

/// 422: an object that can be read is not deleted unsafely.
fn readable(target: &Target) -> Status {
    let problem = "is exclusively used to delete corrupt object(s), try again by removing this option";
    let mut errors = ErrorList::new();
    errors.invalid(&Path::new(UNSAFE), &true, problem);
    Status::invalid(target.resource.group, target.resource.plural, &target.name, &errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, Filter, Watch, WatchStart};
    use crate::request::{GetOptions, ListAt, ListOptions, UnsafeDeletion};
    use kstore_api::kind;
    use kstore_api::status::Reason;
    use kstore_nondet::Nondet;
    use kstore_storage::storage::embedded::Embedded;
    use kstore_store::{Config, Store};

    fn target(name: &str) -> Target {
        let resource = kind::lookup("", "v1", "configmaps").unwrap();
        Target { resource, custom: None, subresource: "", namespace: "ns".into(), name: name.into() }
    }

    /// A registry over a store in which the namespace exists.
    async fn registry(store: &Store) -> Registry {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
        store.put("/registry/namespaces/ns", object::encode_stored(&namespace)).await.unwrap();
        let (cache, follow) = Cache::fill(Arc::new(Embedded::new(store.clone())), |_| {}).await.unwrap();
        tokio::spawn(follow);
        Registry::new(cache, Nondet::simulated(1))
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_object_is_named_in_errors_and_can_be_deleted() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let broken = store.put(target("a").key(), "{").await.unwrap();
        let registry = registry(&store).await;
        let a = target("a");

        let refused = registry.get(&a, &GetOptions::default()).await.unwrap_err();
        assert_eq!(refused.code, 500);
        assert!(
            refused.message.contains("/registry/configmaps/ns/a")
                && refused.message.contains("delete the object")
        );
        let update = registry.guaranteed_update(&a, WriteContext::default(), false, |current| {
            assert!(current.is_none());
            Err(super::super::not_found(&a).into())
        });
        assert_eq!(update.await.unwrap_err().code, 500);
        let known =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}});
        let created = registry.create(&a, known.clone(), WriteContext::default(), false).await;
        assert_eq!(created.unwrap_err().code, 409);

        let options = DeleteOptions { uid: Some("u".into()), ..DeleteOptions::default() };
        let delete = |options: DeleteOptions, dry_run| {
            let (registry, a) = (&registry, &a);
            async move { registry.delete(a, &options, WriteContext::default(), dry_run, |_| Ok(())).await }
        };
        assert_eq!(delete(options, false).await.unwrap_err().code, 409);
        assert!(delete(DeleteOptions::default(), true).await.unwrap().gone);
        assert!(store.get(a.key()).unwrap().is_some(), "a dry run removes nothing");
        let options = DeleteOptions { resource_version: Some(broken.0), ..DeleteOptions::default() };
        let deleted = delete(options, false).await.unwrap();
        assert!(deleted.gone && deleted.entry.name() == "a");
        assert_eq!(store.get(a.key()).unwrap(), None);
        assert_eq!(delete(DeleteOptions::default(), false).await.unwrap_err().code, 404);
        registry.create(&a, known, WriteContext::default(), false).await.unwrap();
    }

    fn map(name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}})
    }

    /// A registry that reports what it cannot read, with the valid objects `a` and `b`.
    async fn reporting(store: &Store) -> Registry {
        let registry = registry(store).await;
        registry.cache.report_unreadable();
        for name in ["a", "b"] {
            registry.create(&target(name), map(name), WriteContext::default(), false).await.unwrap();
        }
        registry
    }

    fn all(at: ListAt) -> ListOptions {
        let filter = Filter::all(target("").resource);
        ListOptions { filter, limit: 0, continue_token: String::new(), at }
    }

    #[tokio::test(start_paused = true)]
    async fn reported_values_fail_lists_and_watches_with_a_cause_each() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let registry = reporting(&store).await;
        let filter = all(ListAt::Newest).filter;
        let watch = |start| Watch::start(registry.cache.clone(), vec![filter.clone()], start);
        registry.fresh().await.unwrap();
        let mut open = watch(WatchStart::State).await.unwrap();
        let broken = store.put(target("a").key(), "{").await.unwrap();
        let second = store.put(target("c").key(), "[").await.unwrap();
        registry.fresh().await.unwrap();
        let fault = format!(
            "object not decodable revision={}: the stored value of /registry/configmaps/ns/a",
            broken.0
        );

        let end = open.next().await.unwrap_err().status();
        assert!(end.message.contains(&fault), "{}", end.message);
        let end = watch(WatchStart::State).await.unwrap().next().await.unwrap_err().status();
        assert_eq!((end.code, end.reason), (500, Reason::StorageReadError));
        let refused = registry.list(&all(ListAt::Newest)).await.unwrap_err();
        let begin = format!("failed to read one or more configmaps from the storage: {fault}");
        assert!(refused.message.starts_with(&begin), "{}", refused.message);
        assert!(refused.message.ends_with(" (and 1 more)"), "{}", refused.message);
        let details = refused.details.unwrap();
        let keys: Vec<&str> = details.causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(keys, ["/registry/configmaps/ns/a", "/registry/configmaps/ns/c"]);
        assert_eq!((details.name.as_str(), details.kind.as_str()), ("/registry/configmaps/", "configmaps"));
        let at = registry.list(&all(ListAt::Exact(second.0))).await.unwrap_err();
        assert_eq!(at.reason, Reason::StorageReadError);
        let get = registry.get(&target("a"), &GetOptions::default()).await.unwrap_err();
        let message = format!(
            "StorageError: corrupt object, Code: 7, Key: /configmaps/ns/a, ResourceVersion: 0, AdditionalErrorMsg: {fault}"
        );
        assert!(get.message.contains(&message), "{}", get.message);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_unsafe_deletion_removes_a_reported_value_and_nothing_else() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let registry = reporting(&store).await;
        store.put(target("a").key(), "{").await.unwrap();
        registry.fresh().await.unwrap();
        let unsafely =
            DeleteOptions { unsafe_deletion: Some(UnsafeDeletion::default()), ..DeleteOptions::default() };
        let delete = async |name: &str, options: &DeleteOptions, dry_run| {
            let admit = |_: &Value| Err(Status::forbidden(target("").resource, name, "seen").into());
            let context = WriteContext::default();
            let deleted = registry.delete(&target(name), options, context, dry_run, admit).await;
            deleted.map_err(|status| (status.code, status.message))
        };
        assert_eq!(delete("a", &DeleteOptions::default(), false).await.unwrap_err().0, 500);
        let (code, message) = delete("b", &unsafely, false).await.unwrap_err();
        let exclusively = "Invalid value: true: is exclusively used to delete corrupt object(s), try again by removing this option";
        assert!(code == 422 && message.contains(exclusively), "{message}");
        assert_eq!(delete("none", &unsafely, false).await.unwrap_err().0, 404);
        assert!(delete("a", &unsafely, true).await.unwrap().gone);
        assert!(store.get(target("a").key()).unwrap().is_some(), "a dry run removes nothing");
        assert!(delete("a", &unsafely, false).await.unwrap().gone, "without admission");
        assert_eq!(registry.list(&all(ListAt::Newest)).await.unwrap().items.len(), 1);
        assert_eq!(delete("a", &unsafely, false).await.unwrap_err().0, 404);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_at_an_old_revision_omits_objects_that_were_unreadable_then() {
        let store = Store::open(Config::memory(), Nondet::simulated(1)).await.unwrap();
        let registry = registry(&store).await;
        let known = |name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}});
        registry.create(&target("a"), known("a"), WriteContext::default(), false).await.unwrap();
        let broken = store.put(target("b").key(), "{").await.unwrap();
        store.put(target("b").key(), object::encode_stored(&known("b"))).await.unwrap();
        let filter = Filter::all(target("").resource);
        let at = ListAt::Exact(broken.0);
        let options = ListOptions { filter, limit: 0, continue_token: String::new(), at };
        let names = |items: Vec<Arc<crate::entry::Entry>>| {
            items.iter().map(|entry| entry.name().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(registry.list(&options).await.unwrap().items), ["a"]);
    }
}
