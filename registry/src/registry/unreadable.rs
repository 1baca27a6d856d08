//! Objects whose stored value cannot be read (see `cache::Unreadable`): reads and updates by name report it,
//! and a deletion removes the value. Its finalizers and dependents are unknown, so the deletion does not wait
//! for them.

use super::delete::check_preconditions;
use super::{Deleted, Registry, WriteContext, new_entry};
use crate::cache::Unreadable;
use crate::request::{DeleteOptions, Target};
use crate::undecided::{Undecided, decided};
use kstore_api::object;
use kstore_api::status::Status;
use kstore_storage::storage::{Guard, Outcome, Write};
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

/// 500: a list would leave out an object that cannot be decrypted.
pub(super) fn list_status(key: &str, reason: &str) -> Status {
    Status::internal(format!("unable to transform key {key:?}: {reason}"))
}

impl Registry {
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
        while let Some(value) = self.cache.unreadable(&key) {
            if value.is_encrypted {
                return Err(status(&value));
            }
            let row = target.resource.storage_row();
            let mut metadata = json!({"name": target.name});
            if row.namespaced {
                metadata["namespace"] = target.namespace.clone().into();
            }
            let known = json!({"apiVersion": row.api_version(), "kind": row.kind, "metadata": metadata});
            let bytes = object::encode_stored(&known).into();
            let entry = new_entry(row, target, &known, &bytes, value.revision, value.created)?;
            let current = entry.parse();
            check_preconditions(target, &current, options)?;
            decided(|| admit(&current)).await?;
            if dry_run {
                return Ok(Some(Deleted { entry, gone: true }));
            }
            let guard = Guard { key: key.clone(), revision: value.revision };
            let delete = Write::Delete { key: key.clone() };
            if let Outcome::Committed { revision } = self.commit(vec![guard], vec![delete], context).await? {
                let entry = Arc::new(entry.deleted_at(revision));
                return Ok(Some(Deleted { entry, gone: true }));
            }
            // Another writer was faster; wait until the cache shows its write.
            self.fresh().await?;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Cache, Filter};
    use crate::request::{GetOptions, ListAt, ListOptions};
    use kstore_api::kind;
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
