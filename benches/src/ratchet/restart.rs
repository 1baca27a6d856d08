//! A restart with 3,000 objects on disk: the store recovers, and the apiserver over it fills its caches.
//!
//! The store's threads run beside, but have nothing to do: the recovery is on the thread that opens the store.

use super::rest::Rest;
use super::virtual_time::{SEED, in_real_time};
use crate::pods::{self, PODS};
use anyhow::ensure;
use kstore_apiserver::{ApiServer, ServerConfig};
use kstore_nondet::Nondet;
use kstore_registry::user::UserInfo;
use kstore_storage::storage::embedded::Embedded;
use kstore_store::{Config, Durability, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const OBJECTS: usize = 3_000;

/// Time between syncs. No client waits for one: the data are read after an orderly end.
const SYNC: Duration = Duration::from_secs(3600);

/// Opens the directory of [`prepare`] until a page of pods is answered.
pub(super) fn run(_: u64) -> anyhow::Result<()> {
    in_real_time(async {
        let (_store, rest) = open(Path::new("."), CancellationToken::new()).await?;
        let page = rest.get(&format!("{PODS}?limit=1")).await?;
        let page: serde_json::Value = serde_json::from_slice(&page)?;
        ensure!(page["metadata"]["remainingItemCount"] == OBJECTS - 1, "all objects are there");
        Ok(())
    })
}

/// Writes the objects to a new store, and closes it.
pub(super) fn prepare(directory: &Path) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
        let stop = CancellationToken::new();
        let (store, rest) = open(directory, stop.clone()).await?;
        for number in 0..OBJECTS {
            rest.create(PODS, pods::pod(number)).await?;
        }
        stop.cancel();
        store.close().await;
        Ok(())
    })
}

/// An apiserver over the store in `directory`.
async fn open(directory: &Path, stop: CancellationToken) -> anyhow::Result<(Store, Rest)> {
    let nondet = Nondet::simulated(SEED);
    let durability = Durability::Relaxed { interval: SYNC };
    let config = Config { durability, ..Config::durable(directory.join("data")) };
    let store = Store::open(config, nondet.clone()).await?;
    let server = ServerConfig { nondet, stop, ..ServerConfig::default() };
    let spawn = |task| drop(tokio::spawn(task));
    let api = ApiServer::start(Arc::new(Embedded::new(store.clone())), server, spawn).await?;
    let admin = UserInfo::new("kubernetes-admin", ["system:masters"]);
    Ok((store, Rest::new(api.in_process(admin))))
}
