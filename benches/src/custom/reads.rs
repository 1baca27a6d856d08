//! Lists and watches of custom objects beside those of ConfigMaps of the same size.

use super::{APISERVER, CONFIG_MAPS, Collection, bytes, define, definition};
use crate::binary::Binary;
use crate::connection::{Connection, Stream};
use crate::limits::{CONNECTIONS, CUSTOM_OBJECTS, CUSTOM_UPDATES, CUSTOM_WATCHERS, LISTS, UPDATERS};
use crate::process::{Server, Storage};
use crate::spread::Spread;
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Reads of custom objects, relative to ConfigMaps.
pub(crate) struct Reads {
    /// Median latency of a list of all objects, relative to ConfigMaps.
    pub(crate) list: f64,
    /// Events per second that many watchers receive, relative to ConfigMaps.
    pub(crate) watch: f64,
}

/// Time without events after which a watcher has missed one.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the opening of watches and the first update.
const LEAD: Duration = Duration::from_millis(300);

/// Lists and watches [`CUSTOM_OBJECTS`] objects of each kind on one server.
pub(crate) async fn reads(binary: &Binary) -> anyhow::Result<Reads> {
    let server = Server::start_with(binary, Storage::Memory, &APISERVER).await?;
    define(&server, &definition::of_plain()).await?;
    let collections = [CONFIG_MAPS, definition::PLAIN];
    let mut lists = [Vec::new(), Vec::new()];
    let mut connection = server.connect().await?;
    for collection in collections {
        fill(&server, collection).await?;
    }
    for _ in 0..LISTS {
        for (collection, times) in collections.iter().zip(&mut lists) {
            let sent = Instant::now();
            connection.count(collection.path, "application/json").await?;
            times.push(sent.elapsed());
        }
    }
    let [built_in, custom] = lists.map(|times| Spread::of(times).quantile(0.5).as_secs_f64());
    let mut rates = Vec::new();
    for collection in collections {
        rates.push(flood(&server, collection).await?);
    }
    server.kill().await?;
    Ok(Reads { list: custom / built_in, watch: rates[1] / rates[0] })
}

fn name(index: usize) -> String {
    format!("object-{index:06}")
}

async fn fill(server: &Server, collection: Collection) -> anyhow::Result<()> {
    let mut clients = JoinSet::new();
    for client in 0..CONNECTIONS {
        let mut connection = server.connect().await?;
        clients.spawn(async move {
            for index in (client..CUSTOM_OBJECTS).step_by(CONNECTIONS) {
                connection.create(collection.path, bytes(&(collection.object)(&name(index)))).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    Ok(())
}

/// Events per second to [`CUSTOM_WATCHERS`] watchers while objects are patched as fast as the server accepts
/// it.
async fn flood(server: &Server, collection: Collection) -> anyhow::Result<f64> {
    let version = server.connect().await?.get(&format!("{}?limit=1", collection.path)).await?.1;
    let version: serde_json::Value = serde_json::from_slice(&version)?;
    let version = version["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let path = format!("{}?watch=1&resourceVersion={version}", collection.path);
    let mut watchers = JoinSet::new();
    for _ in 0..CUSTOM_WATCHERS {
        watchers.spawn(count(server.connect().await?.stream(&path).await?));
    }
    tokio::time::sleep(LEAD).await;
    let begin = Instant::now();
    let mut updaters = JoinSet::new();
    for updater in 0..UPDATERS {
        updaters.spawn(update(server.connect().await?, collection, updater));
    }
    while let Some(updater) = updaters.join_next().await {
        updater??;
    }
    let mut events = 0;
    while let Some(watcher) = watchers.join_next().await {
        events += watcher??;
    }
    anyhow::ensure!(events == CUSTOM_WATCHERS * CUSTOM_UPDATES, "{events} events were delivered");
    Ok(events as f64 / begin.elapsed().as_secs_f64())
}

async fn update(mut connection: Connection, collection: Collection, updater: usize) -> anyhow::Result<()> {
    for nth in (updater..CUSTOM_UPDATES).step_by(UPDATERS) {
        let patch = json!({"metadata": {"annotations": {"example.com/nth": nth.to_string()}}});
        let path = format!("{}/{}", collection.path, name(nth % CUSTOM_OBJECTS));
        connection.patch(&path, Bytes::from(patch.to_string())).await?;
    }
    Ok(())
}

/// Reads events until there are as many as updates, or none for a long time. Returns their number.
async fn count(mut stream: Stream) -> anyhow::Result<usize> {
    let mut lines = 0;
    while lines < CUSTOM_UPDATES {
        let Ok(bytes) = tokio::time::timeout(PATIENCE, stream.bytes()).await else { break };
        let Some(bytes) = bytes? else { break };
        lines += bytes.iter().filter(|byte| **byte == b'\n').count();
    }
    Ok(lines)
}
