//! New identities of the initial namespaces of a cluster that shares its initial objects with others.

use kstore_api::object;
use kstore_nondet::Nondet;
use kstore_store::{KeyRange, Op, Range, Store, Txn};
use serde_json::Value;

/// Key prefix of namespaces in the store.
const NAMESPACES: &str = "/registry/namespaces/";

/// Gives the initial namespaces of a store new UIDs. Programs use the UID of `kube-system` as the identity of a cluster, so clusters of
/// one process must not share it.
pub(crate) async fn renew_namespaces(store: &Store, nondet: &Nondet) {
    let namespaces = store.range(&Range::new(KeyRange::prefix(NAMESPACES)));
    let namespaces = namespaces.expect("a store in memory that has just been opened is read");
    let puts = namespaces
        .kvs
        .iter()
        .map(|namespace| Op::put(namespace.key_bytes(), with_uid(namespace.value(), &nondet.rng.uuid())));
    let written = store.txn(Txn::of(puts.collect())).await;
    written.expect("a store in memory that has just been opened takes four small objects");
}

/// Copy of a stored object with another UID.
fn with_uid(object: &[u8], uid: &str) -> Vec<u8> {
    let mut object: Value = serde_json::from_slice(object).expect("a stored object is JSON");
    object["metadata"]["uid"] = uid.into();
    object::encode_stored(&object)
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
        assert_eq!(with_uid(&stored, "after"), object::encode_stored(&namespace("after")));
    }
}
