//! New identities of the namespaces of a cluster that shares its objects with others.

use kstore_api::object;
use kstore_nondet::Nondet;
use kstore_store::{KeyRange, KeyValue, Op, Range, Store, Txn, TxnError};
use serde_json::Value;
use std::sync::Arc;

/// Key prefix of namespaces in the store.
const NAMESPACES: &str = "/registry/namespaces/";

/// Most namespaces of one transaction.
const BATCH: usize = 64;

/// Why namespaces got no new UIDs.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// What is stored is no namespace.
    #[error("{0} is no namespace")]
    Malformed(String),
    /// The store took no write.
    #[error(transparent)]
    Write(#[from] TxnError),
}

/// Gives the initial namespaces of a store new UIDs. Programs use the UID of `kube-system` as the identity of a cluster, so clusters of
/// one process must not share it.
pub(crate) async fn renew_namespaces(store: &Store, nondet: &Nondet) {
    let renewed = renew_all(store, nondet).await;
    renewed.expect("a store in memory that has just been opened takes four small objects");
}

/// Gives all namespaces of a store new UIDs.
///
/// # Errors
/// See [`RenewError`].
pub(crate) async fn renew_all(store: &Store, nondet: &Nondet) -> Result<(), RenewError> {
    let namespaces = store.range(&Range::new(KeyRange::prefix(NAMESPACES)));
    let namespaces = namespaces.expect("a store in memory that has just been opened is read");
    for namespaces in namespaces.kvs.chunks(BATCH) {
        let put = |namespace: &Arc<KeyValue>| {
            let object = with_uid(namespace.value(), &nondet.rng.uuid());
            let malformed = || RenewError::Malformed(String::from_utf8_lossy(namespace.key()).into_owned());
            Ok(Op::put(namespace.key_bytes(), object.ok_or_else(malformed)?))
        };
        let puts = namespaces.iter().map(put).collect::<Result<_, RenewError>>()?;
        store.txn(Txn::of(puts)).await?;
    }
    Ok(())
}

/// Copy of a stored object with another UID; `None`: it is no object with metadata.
fn with_uid(object: &[u8], uid: &str) -> Option<Vec<u8>> {
    let mut object: Value = serde_json::from_slice(object).ok()?;
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.insert("uid".to_owned(), uid.into());
    Some(object::encode_stored(&object))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn renewal_changes_only_the_uid_of_a_stored_object() {
        let namespace = |uid: &str| {
            let owner = json!({"kind": "Namespace", "name": "owner", "uid": "of-the-owner"});
            let metadata = json!({"name": "a", "ownerReferences": [owner], "uid": uid});
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": {}})
        };
        let stored = object::encode_stored(&namespace("before"));
        assert_eq!(with_uid(&stored, "after"), Some(object::encode_stored(&namespace("after"))));
        for malformed in ["", "[]", "1", "{}", r#"{"metadata":[]}"#] {
            assert_eq!(with_uid(malformed.as_bytes(), "after"), None, "{malformed}");
        }
    }
}
