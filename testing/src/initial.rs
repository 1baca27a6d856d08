//! Initial objects of clusters, such as namespaces, roles and flow control. Creating them takes most of a start, so the first cluster of the
//! process creates them and later clusters share them through an image. Images that a test takes itself are in `fork`.

use crate::builder::{Builder, StartError};
use crate::cluster::Cluster;
use crate::fork::ClusterImage;
use crate::limits::INITIAL_IMAGES;
use kstore_nondet::Nondet;
use kstore_store::{KeyRange, Op, Range, Store, Txn};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Key prefix of namespaces in the store.
const NAMESPACES: &str = "/registry/namespaces/";

/// The bytes before the value of `metadata.uid` in a stored namespace.
const UID: &[u8] = b"\"uid\":\"";

/// Images of API servers with only initial objects, each with the seed of its virtual time (`None`: real time); the newest is last.
static IMAGES: Mutex<VecDeque<(Option<u64>, Arc<ClusterImage>)>> = Mutex::new(VecDeque::new());

/// Returns an image of a cluster with only initial objects. If the process has none for this seed, it starts such a cluster on the current
/// runtime. Concurrent callers do not wait for each other, because in virtual time a wait for another runtime would let timers fire.
pub(crate) async fn image(seed: Option<u64>) -> Result<Arc<ClusterImage>, StartError> {
    let found = IMAGES.lock().iter().find(|(of, _)| *of == seed).map(|(_, image)| image.clone());
    if let Some(image) = found {
        return Ok(image);
    }
    let cluster: Cluster = Box::pin(Builder::bare(seed).start_empty()).await?;
    let image = Arc::new(cluster.image().expect("a cluster that has just started has not ended"));
    cluster.stop().await;
    keep(&mut IMAGES.lock(), seed, &image);
    Ok(image)
}

/// Caches an image for later clusters. Images of virtual time never replace the one of real time, which all clusters in real time share.
fn keep<T: Clone>(images: &mut VecDeque<(Option<u64>, T)>, seed: Option<u64>, image: &T) {
    if images.iter().any(|(of, _)| *of == seed) {
        return;
    }
    let is_seeded = |(of, _): &(Option<u64>, T)| of.is_some();
    if seed.is_some() && images.iter().filter(|kept| is_seeded(kept)).count() >= INITIAL_IMAGES {
        let oldest = images.iter().position(is_seeded).expect("there are some with seeds");
        images.remove(oldest);
    }
    images.push_back((seed, image.clone()));
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

    #[test]
    fn image_cache_keeps_the_newest_seeds_and_real_time() {
        let mut images = VecDeque::new();
        keep(&mut images, None, &0);
        for seed in 0..20 {
            keep(&mut images, Some(seed), &seed);
            keep(&mut images, Some(seed), &100);
        }
        let newest = (20 - INITIAL_IMAGES as u64..20).map(|seed| (Some(seed), seed));
        assert_eq!(images, [(None, 0)].into_iter().chain(newest).collect::<VecDeque<_>>());
    }

    #[test]
    fn renewal_changes_only_the_uid_of_a_stored_object() {
        let object = br#"{"metadata":{"name":"a","uid":"00000000-0000-4000-8000-000000000000"},"spec":{}}"#;
        let uid = "11111111-1111-4111-8111-111111111111";
        let expected = format!(r#"{{"metadata":{{"name":"a","uid":"{uid}"}},"spec":{{}}}}"#);
        assert_eq!(with_uid(object, uid), expected.as_bytes());
    }
}
