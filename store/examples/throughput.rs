//! How many transactions a second: in memory, and synced with one and with many clients. A quick look, not a benchmark.

use kstore_nondet::Nondet;
use kstore_store::{Config, Op, Revision, Store, Txn};
use tokio::time::Instant;

/// Creates, then updates `keys` keys per client, each under the guard that it is unchanged.
async fn client(store: Store, client: usize, keys: usize) {
    let mut known = vec![Revision(0); keys];
    for round in 0..2 {
        for (key, expected) in known.iter_mut().enumerate() {
            let name = format!("/registry/pods/default/client-{client:04}-{key:05}");
            let value = vec![b'a' + round; 256];
            let result = store.txn(Txn::if_unchanged(name.clone(), *expected, Op::put(name, value))).await;
            let result = result.expect("the store takes the write");
            assert!(result.succeeded, "nobody else writes the key");
            *expected = result.revision;
        }
    }
}

async fn measure(what: &str, config: Config, clients: usize, keys: usize) {
    let store = Store::open(config, Nondet::real()).await.expect("the store opens");
    let start = Instant::now();
    let tasks: Vec<_> = (0..clients).map(|n| tokio::spawn(client(store.clone(), n, keys))).collect();
    for task in tasks {
        task.await.expect("a client does not panic");
    }
    let elapsed = start.elapsed();
    let txns = 2 * clients * keys;
    let metrics = store.metrics();
    println!(
        "{what:<28} {:>9.0} txns/s  {:>7.1} µs/txn  {} syncs",
        txns as f64 / elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 / txns as f64,
        metrics.syncs
    );
    store.close().await;
}

#[tokio::main]
async fn main() {
    let dir = std::env::temp_dir().join(format!("kstore-throughput-{}", std::process::id()));
    measure("memory, 1 client", Config::memory(), 1, 50_000).await;
    for (clients, keys) in [(1, 2_000), (64, 500), (512, 100)] {
        let what = format!("synced, {clients} clients");
        measure(&what, Config::durable(dir.join(clients.to_string())), clients, keys).await;
    }
    if let Err(error) = std::fs::remove_dir_all(&dir) {
        eprintln!("cannot remove {}: {error}", dir.display());
    }
}
