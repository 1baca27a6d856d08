//! CPU time per event of a watch in the server's own process: over gRPC with messages and bodies, and over
//! the feed, which passes the watch cache's bytes. Prints the CPU time beyond that of the same writes without
//! a watch.
//!
//! `cargo run --release -p kstore-server --example watch_cost [EVENTS]`

use kstore_apiserver::{ApiServer, ServerConfig};
use kstore_client::{Client, Gvr, ProjectedMeta, WatchParams};
use kstore_informer::{Builder, Key, Object, Revision};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Op, Store, Txn};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Writes between two reads of the watcher, about one batch of a busy server.
const BURST: u64 = 8;
const ROUNDS: usize = 5;

/// The fields that an informer needs, so that decoding does not dominate the transport.
#[derive(Deserialize)]
struct SlimObject {
    metadata: ProjectedMeta,
}

impl Object for SlimObject {
    fn key(&self) -> Key {
        self.metadata.key()
    }
    fn uid(&self) -> &str {
        &self.metadata.uid
    }
    fn revision(&self) -> Revision {
        self.metadata.revision()
    }
}

#[derive(Clone, Copy)]
enum Transport {
    None,
    Wire,
    Feed,
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let events = std::env::args().nth(1).map_or(Ok(50_000), |events| events.parse())?;
    let mut best = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        for (way, best) in [Transport::None, Transport::Wire, Transport::Feed].into_iter().zip(&mut best) {
            *best = best.min(runtime.block_on(round(way, events))?);
        }
    }
    let [none, wire, feed] = best;
    println!("{events} events of 1.5 kB, bursts of {BURST}, one informer; best of {ROUNDS}");
    println!("writes alone     {none:7.2} µs of processor time for each");
    println!("watch by wire    {:7.2} µs more", wire - none);
    println!("watch by feed    {:7.2} µs more", feed - none);
    Ok(())
}

async fn round(way: Transport, events: u64) -> anyhow::Result<f64> {
    let (nondet, stop) = (Nondet::simulated(1), CancellationToken::new());
    let store = Store::open(Config::memory(), nondet.clone()).await?;
    let config = ServerConfig { nondet, stop: stop.clone(), ..ServerConfig::default() };
    let follow = |task| drop(tokio::spawn(task));
    let api = ApiServer::start(Arc::new(Embedded::new(store.clone())), config, follow).await?;
    let in_process = api.in_process(UserInfo::new("kubernetes-admin", ["system:masters"]));
    let client = Client::over(in_process.clone(), "bench");
    let client = match way {
        Transport::None | Transport::Wire => client,
        Transport::Feed => client.with_feed(move |request| in_process.watch(request)),
    };
    let maps = client.dynamic(Gvr::new("", "v1", "configmaps"));
    let source = maps.project(WatchParams::default(), |json| serde_json::from_slice::<SlimObject>(json));
    let informer = match way {
        Transport::None => None,
        Transport::Wire | Transport::Feed => Some(Builder::new(source).spawn(&stop)),
    };
    if let Some(informer) = &informer {
        informer.synced().await?;
    }
    let text = "x".repeat(1_400);
    let begun = spent();
    for n in 0..events {
        let name = format!("m{}", n % 100);
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","namespace":"default"}},"data":{{"n":"{n}","text":"{text}"}}}}"#
        );
        let put = Op::put(format!("/registry/configmaps/default/{name}"), json);
        store.txn(Txn { compares: vec![], success: vec![put], failure: vec![], note: None }).await?;
        if n % BURST == BURST - 1 {
            let newest = Revision(store.revision().0.try_into()?);
            match &informer {
                Some(informer) => informer.wait_for(newest).await?,
                None => drop(api.pipeline().cache().fresh().await),
            }
        }
    }
    let cost = (spent() - begun).as_secs_f64() * 1e6 / events as f64;
    drop(informer);
    stop.cancel();
    store.close().await;
    Ok(cost)
}

/// CPU time of this process.
fn spent() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
