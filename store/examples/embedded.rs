//! Example of an embedded store: sessions that end when they are not renewed, and a watcher.
//!
//! `cargo run -p kstore-store --example embedded [directory]`; without a directory, in memory.

use kstore_nondet::Nondet;
use kstore_store::{Config, EventKind, KeyRange, LeaseId, Op, Put, Range, Store, Txn, WatchRequest, Watcher};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = std::env::args().nth(1).map_or_else(Config::memory, Config::durable);
    let store = Store::open(config, Nondet::real()).await?;
    println!("{} keys at revision {}", store.metrics().keys, store.revision());

    let watcher = store.watch(WatchRequest::new(KeyRange::prefix("/sessions/")))?;
    let watching = tokio::spawn(report(watcher));

    let lease = store.lease_grant(2, LeaseId::NONE).await?;
    let session = Put { lease: lease.id, ..Put::new("/sessions/1", "ada") };
    let written = store.txn(Txn::of(vec![Op::Put(session)])).await?.revision;
    store.put("/sessions/2", "grace").await?;
    store.delete("/sessions/2").await?;

    // Reads an old revision, then compacts it and revokes the lease.
    let then = store.range(&Range::new(KeyRange::prefix("/sessions/")).at(written))?;
    println!("at {written} there was {:?}", then.kvs);
    store.lease_revoke(lease.id).await?;
    store.compact_physical(store.revision()).await?;
    println!("{:?}", store.status());

    store.close().await;
    Ok(watching.await?)
}

async fn report(mut watcher: Watcher) {
    while let Some(Ok(batch)) = watcher.next().await {
        for event in batch.events.iter() {
            let what = if event.kind == EventKind::Put { "put" } else { "deleted" };
            println!("{}: {} was {what}", batch.revision, event.key().escape_ascii());
        }
    }
}
