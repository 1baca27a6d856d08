//! New identities of the initial namespaces of a cluster that shares its initial objects with others.

use kstore_nondet::Nondet;
use kstore_store::{KeyRange, Op, Range, Store, Txn};

/// Key prefix of namespaces in the store.
const NAMESPACES: &str = "/registry/namespaces/";

/// The bytes before the value of `metadata.uid` in a stored namespace.
const UID: &[u8] = b"\"uid\":\"";

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

/// Copy of a stored object with another UID of the same length.
fn with_uid(object: &[u8], uid: &str) -> Vec<u8> {
    let at = object.windows(UID.len()).position(|window| window == UID);
    let at = at.expect("a stored object has a UID") + UID.len();
    let mut object = object.to_vec();
    object[at..at + uid.len()].copy_from_slice(uid.as_bytes());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_changes_only_the_uid_of_a_stored_object() {
        let object = br#"{"metadata":{"name":"a","uid":"00000000-0000-4000-8000-000000000000"},"spec":{}}"#;
        let uid = "11111111-1111-4111-8111-111111111111";
        let expected = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}},"spec":{{}}}}"#);
        assert_eq!(with_uid(object, uid), expected.as_bytes());
    }
}
