//! Initial objects of clusters, such as namespaces, roles and flow control. Creating them takes most of a start, so the first cluster of
//! the process creates them and later clusters share them through an image. Images that a test takes itself are in `fork`.

use crate::builder::StartError;
use crate::cluster::Cluster;
use crate::components::Builder;
use crate::fork::ClusterImage;
use parking_lot::Mutex;
use std::sync::Arc;

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
}
