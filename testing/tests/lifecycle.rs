//! Leak tests: an ended cluster leaves no tasks and no memory. They are a separate binary, because they measure the heap of the process.

use kstore_nondet::Clock;
use kstore_testing::{Cluster, Gvr, StartError};
use peak_alloc::PeakAlloc;
use serde_json::json;
use tokio::runtime::Handle;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Number of clusters of each kind in a round.
const CLUSTERS: usize = 6;

/// Number of forks that are started and dropped; the example `figures` measures ten thousand.
const FORKS: usize = 1000;

/// Number of objects in the cluster whose forks' memory is measured.
const OBJECTS: usize = 2000;

/// Most bytes of a fork that has not written anything: some three times what it takes.
const FORK: usize = 300 * 1024;

/// Most bytes of a fork after one write: between two and three times what it takes.
const WRITTEN_FORK: usize = 300 * 1024;

/// Number of objects in the whole cluster whose forks' memory is measured: caches that forks do not share take some 2 MiB of these.
const WHOLE_OBJECTS: usize = 4000;

/// Most bytes of a fork of a whole cluster, whose components have looked at all objects.
const WHOLE_FORK: usize = 3 * 1024 * 1024;

/// Most bytes of a cluster with controllers, scheduler and one node: twice what it takes.
const WHOLE_CLUSTER: usize = 4 * 1024 * 1024;

/// Serializes the tests, because they measure the heap of the whole process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// Lets other tasks run until only `left` of them are alive. A task that never ends fails the test by its time limit.
async fn until_tasks(left: usize) {
    let ending = async {
        while tasks() > left {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(180), ending)
        .await
        .expect("tasks of a cluster are left");
}

#[tokio::test]
async fn dropped_clusters_and_failed_starts_leak_no_tasks_or_memory() {
    let _alone = ALONE.lock().await;
    let before = tasks();
    // The first clusters fill process-wide caches: tables, compiled schemas, buffers of the allocator.
    let mut heap = Vec::new();
    for round in 0..3 {
        for _ in 0..CLUSTERS {
            let cluster = Cluster::builder().nodes(2).start().await;
            assert!(tasks() > before);
            drop(cluster);
            until_tasks(before).await;
            let refused =
                Cluster::builder().apply("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}}");
            let error = refused.try_start().await.unwrap_err();
            assert!(matches!(error, StartError::Apply(_)), "{error}");
            until_tasks(before).await;
            Cluster::start().await.stop().await;
            until_tasks(before).await;
        }
        heap.push(HEAP.current_usage());
        println!("round {round}: {} KiB", heap[round] / 1024);
    }
    let grown = heap[2].saturating_sub(heap[1]);
    assert!(grown < 3 * CLUSTERS * 4 * 1024, "{} clusters left {grown} bytes: {heap:?}", 3 * CLUSTERS);
}

#[tokio::test]
async fn cancelled_starts_leak_no_tasks() {
    use futures::FutureExt as _;
    let _alone = ALONE.lock().await;
    let before = tasks();
    for polls in 1..20 {
        let mut starting = Box::pin(Cluster::builder().try_start());
        for _ in 0..polls {
            if starting.as_mut().now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(starting);
        until_tasks(before).await;
    }
}

/// Creates a ConfigMap and returns the number of ConfigMaps.
async fn write_and_count(cluster: &Cluster) -> usize {
    let maps = cluster.client().dynamic(Gvr::new("", "v1", "configmaps"));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own", "namespace": "default"}});
    maps.create("default", &map).await.expect("the cluster serves the request");
    maps.list("default", &Default::default()).await.expect("the cluster serves the request").0.len()
}

#[tokio::test]
async fn a_thousand_forks_leak_no_tasks_or_memory() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::builder().api_only().start().await;
    let before = tasks();
    let mut heap = Vec::new();
    for _ in 0..10 {
        for _ in 0..FORKS / 10 {
            let fork = cluster.fork().await;
            assert_eq!(write_and_count(&fork).await, 1, "a fork shows what another one wrote");
            drop(fork);
        }
        until_tasks(before).await;
        heap.push(HEAP.current_usage());
    }
    let grown = heap[9].saturating_sub(heap[4]);
    // The bound allows for a one-time split of the structures that remember the original's writes.
    assert!(grown < 64 * 1024, "{} forks left {grown} bytes: {heap:?}", FORKS / 2);
}

/// Creates ConfigMaps.
async fn create_maps(cluster: &Cluster, count: usize) {
    let maps = cluster.client().dynamic(Gvr::new("", "v1", "configmaps"));
    for nth in 0..count {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{nth}"), "namespace": "default"},
            "data": {"key": "value ".repeat(100)},
        });
        maps.create("default", &map).await.expect("the cluster serves the request");
    }
}

#[tokio::test]
async fn forks_share_the_memory_of_many_objects() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::builder().api_only().start().await;
    create_maps(&cluster, OBJECTS).await;
    let before = HEAP.current_usage();
    let mut forks = Vec::new();
    for _ in 0..10 {
        forks.push(cluster.fork().await);
    }
    let each = (HEAP.current_usage() - before) / forks.len();
    assert!(each < FORK, "a fork of {OBJECTS} objects takes {each} bytes");
    for fork in &forks {
        assert_eq!(write_and_count(fork).await, OBJECTS + 1);
    }
    let each = (HEAP.current_usage() - before) / forks.len();
    assert!(each < WRITTEN_FORK, "a fork of {OBJECTS} objects takes {each} bytes after a write");
}

#[tokio::test]
async fn forks_of_whole_clusters_share_the_caches_of_their_components() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::start().await;
    create_maps(&cluster, WHOLE_OBJECTS).await;
    cluster.settled().await.unwrap();
    // The first fork fills process-wide caches.
    let (mut forks, mut before, mut begin) = (Vec::new(), 0, Clock::real().now());
    for nth in 0..=3 {
        let fork = cluster.fork().await;
        fork.settled().await.unwrap();
        forks.push(fork);
        if nth == 0 {
            (before, begin) = (HEAP.current_usage(), Clock::real().now());
        }
    }
    let (each, time) = ((HEAP.current_usage() - before) / 3, Clock::real().now().duration_since(begin) / 3);
    println!(
        "a fork of a whole cluster with {WHOLE_OBJECTS} objects takes {} KiB, and {time:?}",
        each / 1024
    );
    assert!(each < WHOLE_FORK, "a fork of a whole cluster with {WHOLE_OBJECTS} objects takes {each} bytes");
}

#[tokio::test]
async fn a_whole_cluster_stays_within_its_memory_bound() {
    let _alone = ALONE.lock().await;
    // The first clusters fill process-wide caches.
    for _ in 0..2 {
        let cluster = Cluster::start().await;
        cluster.settled().await.unwrap();
        cluster.stop().await;
    }
    let before = HEAP.current_usage();
    let mut clusters = Vec::new();
    for _ in 0..5 {
        let cluster = Cluster::start().await;
        cluster.settled().await.unwrap();
        clusters.push(cluster);
    }
    let each = HEAP.current_usage().saturating_sub(before) / clusters.len();
    println!("a whole cluster takes {} KiB", each / 1024);
    assert!(each < WHOLE_CLUSTER, "a whole cluster takes {each} bytes");
    for cluster in clusters {
        cluster.stop().await;
    }
}
