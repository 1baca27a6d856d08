//! Initial objects of clusters, such as namespaces, roles and flow control. Creating them takes most of a start, so the first cluster of the
//! process creates them and later clusters share them through an image. Images that a test takes itself are in `fork`.

use crate::builder::{Builder, StartError};
use crate::cluster::Cluster;
use crate::fork::ClusterImage;
use kstore_nondet::Nondet;
use kstore_store::{KeyRange, Op, Range, Store, Txn};
use parking_lot::Mutex;
use std::sync::Arc;

/// Key prefix of namespaces in the store.
const NAMESPACES: &str = "/registry/namespaces/";

/// The bytes before the value of `metadata.uid` in a stored namespace.
const UID: &[u8] = b"\"uid\":\"";

/// The seed of the initial objects of all clusters in virtual time.
const VIRTUAL: u64 = 0;

/// Images of API servers with only initial objects: of clusters in real time, and of those in virtual time.
static IMAGES: [Mutex<Option<Arc<ClusterImage>>>; 2] = [Mutex::new(None), Mutex::new(None)];

/// Returns an image of a cluster with only initial objects, which all seeds share. If the process has none, it starts such a cluster on the
/// current runtime. Concurrent callers do not wait for each other, because in virtual time a wait for another runtime would let timers
/// fire.
pub(crate) async fn image(seed: Option<u64>) -> Result<Arc<ClusterImage>, StartError> {
    let kept = &IMAGES[usize::from(seed.is_some())];
    let found = kept.lock().clone();
    if let Some(image) = found {
        return Ok(image);
    }
    let cluster: Cluster = Box::pin(Builder::bare(seed.map(|_| VIRTUAL)).start_empty()).await?;
    let image = Arc::new(cluster.image().expect("a cluster that has just started has not ended"));
    cluster.stop().await;
    Ok(kept.lock().get_or_insert(image).clone())
}

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

    #[tokio::test(start_paused = true)]
    async fn all_seeds_share_one_image_and_real_time_has_its_own() {
        let of = async |seed| image(seed).await.unwrap();
        assert!(Arc::ptr_eq(&of(Some(1)).await, &of(Some(2)).await));
        assert!(Arc::ptr_eq(&of(None).await, &of(None).await));
        assert!(!Arc::ptr_eq(&of(None).await, &of(Some(1)).await));
    }

    #[test]
    fn renewal_changes_only_the_uid_of_a_stored_object() {
        let object = br#"{"metadata":{"name":"a","uid":"00000000-0000-4000-8000-000000000000"},"spec":{}}"#;
        let uid = "11111111-1111-4111-8111-111111111111";
        let expected = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}},"spec":{{}}}}"#);
        assert_eq!(with_uid(object, uid), expected.as_bytes());
    }
}
