//! Measures and prints the cost of clusters and forks: start time, memory of a cluster and of a fork, many clusters at once, and the heap
//! after many forks. `cargo run --release -p kstore-testing --example figures [CLUSTERS] [FORKS]`; by default 200 and 10,000.

use kstore_client::{Client, Gvr, ListParams};
use kstore_testing::{Builder, Cluster};
use peak_alloc::PeakAlloc;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Number of objects in the cluster that is forked.
const OBJECTS: usize = 10_000;
/// Number of samples for each measured time.
const SAMPLES: usize = 50;
/// Number of clusters or forks that exist at once while their memory is measured.
const CONCURRENT: usize = 20;

fn kib(bytes: usize) -> usize {
    bytes / 1024
}

/// Median and maximum of the times, as text.
fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    format!(
        "median {:.2?}, slowest of {} {:.2?}",
        times[times.len() / 2],
        times.len(),
        times[times.len() - 1]
    )
}

async fn create(client: &Client, name: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"key": "value ".repeat(20)},
    });
    client
        .dynamic(Gvr::new("", "v1", "configmaps"))
        .create("default", &object)
        .await
        .expect("a ConfigMap is created");
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.dynamic(Gvr::new("", "v1", "configmaps")).list("default", &ListParams::default()).await;
    let (objects, _) = list.expect("ConfigMaps are listed");
    objects.iter().filter_map(|object| object["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Waits until at most `left` tasks are alive, so that ended clusters have freed their memory.
async fn until_tasks(left: usize) {
    while tokio::runtime::Handle::current().metrics().num_alive_tasks() > left {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn starts(name: &str, builder: Builder) {
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let begin = Instant::now();
        let cluster = builder.clone().start().await;
        times.push(begin.elapsed());
        cluster.stop().await;
    }
    println!("start, {name}: {}", summary(times));
    let before = HEAP.current_usage();
    let mut clusters = Vec::new();
    for _ in 0..CONCURRENT {
        clusters.push(builder.clone().start().await);
    }
    for cluster in &clusters {
        cluster.settled().await.expect("the cluster settles");
    }
    println!("memory of one cluster, {name}: {} KiB", kib((HEAP.current_usage() - before) / CONCURRENT));
    for cluster in clusters {
        cluster.stop().await;
    }
}

async fn forks(name: &str, builder: Builder) {
    let cluster = builder.start().await;
    for nth in 0..OBJECTS {
        create(cluster.client(), &format!("map-{nth:05}")).await;
    }
    cluster.settled().await.expect("the cluster settles");
    let (mut times, mut forks, before) = (Vec::new(), Vec::new(), HEAP.current_usage());
    for _ in 0..CONCURRENT {
        let begin = Instant::now();
        let fork = cluster.fork().await;
        times.push(begin.elapsed());
        // Without this, the controllers of all forks would fill their caches at once on one thread, and requests would time out.
        fork.settled().await.expect("the fork settles");
        forks.push(fork);
    }
    println!("fork of {OBJECTS} objects, {name}: {}", summary(times));
    println!("memory of one fork, {name}: {} KiB", kib((HEAP.current_usage() - before) / CONCURRENT));
    for fork in &forks {
        create(fork.client(), "own").await;
    }
    println!("after a write to each: {} KiB", kib((HEAP.current_usage() - before) / CONCURRENT));
}

async fn many_clusters(count: usize) {
    let (begin, before) = (Instant::now(), HEAP.current_usage());
    let mut clusters = Vec::new();
    for _ in 0..count {
        let cluster = Cluster::start().await;
        // Without this, the controllers of all clusters would fill their caches at once on one thread, and requests would time out.
        cluster.settled().await.expect("the cluster settles");
        clusters.push(cluster);
    }
    for (nth, cluster) in clusters.iter().enumerate() {
        create(cluster.client(), &format!("only-{nth}")).await;
    }
    for (nth, cluster) in clusters.iter().enumerate() {
        let own: Vec<_> =
            names(cluster.client()).await.into_iter().filter(|name| name.starts_with("only-")).collect();
        assert_eq!(own, [format!("only-{nth}")], "clusters see each other's objects");
    }
    // Saturating: memory of earlier clusters may have been freed meanwhile.
    let memory = kib(HEAP.current_usage().saturating_sub(before) / count);
    println!("{count} whole clusters at once: {:.2?}, {memory} KiB each, no cross-talk", begin.elapsed());
    for cluster in clusters {
        cluster.stop().await;
    }
}

async fn many_forks(count: usize) {
    let cluster = Cluster::builder().api_only().start().await;
    create(cluster.client(), "shared").await;
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (mut heap, begin) = (Vec::new(), Instant::now());
    for nth in 0..count {
        let fork = cluster.fork().await;
        create(fork.client(), &format!("own-{nth}")).await;
        assert_eq!(names(fork.client()).await.len(), 2, "forks see each other's objects");
        drop(fork);
        if (nth + 1) % (count / 10).max(1) == 0 {
            until_tasks(tasks).await;
            heap.push(kib(HEAP.current_usage()));
        }
    }
    println!(
        "{count} forks with a write each, one after another: {:.2?}; heap in KiB {heap:?}",
        begin.elapsed()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let (clusters, count) = (arguments.next().unwrap_or(200), arguments.next().unwrap_or(10_000));
    // The first cluster fills process-wide caches.
    let begin = Instant::now();
    Cluster::start().await.stop().await;
    println!("first start of the process: {:.2?}", begin.elapsed());
    starts("API alone", Cluster::builder().api_only()).await;
    starts("controllers", Cluster::builder().nodes(0).scheduler(false)).await;
    starts("scheduler", Cluster::builder().nodes(0).controllers(false)).await;
    starts("one node", Cluster::builder().controllers(false).scheduler(false)).await;
    starts("whole", Cluster::builder()).await;
    forks("API alone", Cluster::builder().api_only()).await;
    forks("whole", Cluster::builder()).await;
    many_clusters(clusters).await;
    many_forks(count).await;
}
