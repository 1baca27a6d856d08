//! Short-lived clusters, each in the task order of its seed: start from an image, roll out a Deployment of two pods on one node, stop.

use super::{number, virtual_runtime};
use crate::measurement::Measurement;
use crate::usage::processor_seconds;
use kstore_nondet::Clock;
use kstore_testing::{Cluster, ClusterImage};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};

/// Environment variable with another number of seeds.
const SEEDS: &str = "KSTORE_BENCH_SEEDS";
const THREADS: usize = 2;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
";

pub(super) fn measure() -> anyhow::Result<Measurement> {
    let count = number(SEEDS, 200)?;
    let image = virtual_runtime()?.block_on(prepare())?;
    let (me, real) = (std::process::id(), Clock::real());
    let (started, before) = (real.now(), processor_seconds(me)?);
    let next = AtomicU64::new(0);
    let work = || -> anyhow::Result<()> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return Ok(());
            }
            virtual_runtime()?.block_on(scenario(&image, seed))?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a scenario does not panic"))
    })?;
    let (took, used) = (real.now().duration_since(started).as_secs_f64(), processor_seconds(me)? - before);
    let per_minute = count as f64 / took * 60.0;
    let each = used / count as f64 * 1000.0;
    let what = format!("{count} seeds of a rollout of two pods on one node, {THREADS} threads");
    Ok(Measurement::new(
        what,
        "≥ 1,000 a minute",
        format!("{per_minute:.0} a minute, {each:.0} ms of CPU time each"),
    ))
}

/// A cluster with a ready node and nothing to do.
async fn prepare() -> anyhow::Result<ClusterImage> {
    let cluster = Cluster::builder().virtual_time(1).permuted_tasks().start().await;
    cluster.settled().await?;
    let image = cluster.image()?;
    cluster.stop().await;
    Ok(image)
}

async fn scenario(image: &ClusterImage, seed: u64) -> anyhow::Result<()> {
    let cluster = image.start_with_seed(seed).await;
    cluster.apply(DEPLOYMENT).await?;
    let is_ready = json!({"status": {"readyReplicas": 2}});
    cluster.wait_for(("apps", "v1", "deployments"), "default", "web", &is_ready).await?;
    cluster.stop().await;
    Ok(())
}
