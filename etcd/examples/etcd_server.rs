//! A store served through the etcd v3 API in plain text, for benchmarks.
//!
//! `etcd_server DIR ADDRESS [--sled] [--relaxed]` serves until SIGTERM and then closes the store. Production uses
//! `kstore-server` instead.

use kstore_etcd::Options;
use kstore_nondet::Nondet;
use kstore_store::{Config, Durability, EngineKind, Store};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Time between syncs with `--relaxed`.
const RELAXED_INTERVAL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (config, address) = config()?;
    let store = Store::open(config, Nondet::real()).await?;
    let listener = TcpListener::bind(&address).await?;
    let options = Options::plain(format!("http://{address}"));
    let stop = CancellationToken::new();
    let server = tokio::spawn(kstore_etcd::serve(store.clone(), listener, options, stop.clone()));
    signal(SignalKind::terminate())?.recv().await;
    stop.cancel();
    server.await?;
    store.close().await;
    Ok(())
}

/// Parses the command line.
fn config() -> Result<(Config, String), String> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("usage: etcd_server DIR ADDRESS [--sled] [--relaxed]");
    let (mut config, address) = (Config::durable(next()?), next()?);
    for arg in args {
        match arg.as_str() {
            "--sled" => config.engine = EngineKind::Sled,
            "--relaxed" => config.durability = Durability::Relaxed { interval: RELAXED_INTERVAL },
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok((config, address))
}
